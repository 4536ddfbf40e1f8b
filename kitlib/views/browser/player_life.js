// Ask a box: a click, a hover or the key i on whatever has a `data-ref` tells its life: sentences with their times,
// each with the rule and the line of the model that decided it. What is pinned keeps a ring in every picture.
// A life is built here, from the sentences and a small index (kitlib/views/lives.py); no kernel is asked.
//
//   data-ref="record:orders/0/17"    this element stands for one thing
//   data-each="record:orders/0/8"    its children stand for one thing each, from this one on
//
// What can be done to a thing stands below its name, as buttons. One line adds some, for a kind of thing:
//
//   ACTIONS.request = [{ label: "Lose it", run: (ref, step, player) => ..., fits: (ref, step, player) => true }];  // fits may be left out

const ACTIONS = {};

const LETTERS = "ABCDEFGHJKLM";
const MOST_ROWS = 80; // of a life, the newest ones

class LifePanel {
  constructor(player) {
    Object.assign(this, { player, root: player.root, lives: null, pins: [], asked: "", drawn: "", step: -1, pointed: null });
    const id = newName("life");
    this.pinned = html("ul", { class: "kit-pinned", "aria-label": "Pinned: what is followed" });
    this.askButton = button("Ask about…", "", () => this.openInspector());
    this.hint = html("span", { class: "kit-life-hint", text: "Click a box, or press i, to ask what happened to it." });
    this.bar = html("div", { class: "kit-life" }, html("div", { class: "kit-life-ask" }, this.askButton, this.hint), this.pinned);
    this.tip = html("div", { class: "kit-tip", "aria-hidden": "true", hidden: "" });
    this.name = html("b", { text: "Nothing is asked yet", id: `${id}-name` });
    this.now = html("span", { class: "kit-life-now" });
    this.pinButton = button("Pin", "", () => this.togglePin(this.asked));
    const close = button("×", "", () => this.close());
    putAll(close, { "aria-label": "Close", title: "Close (Esc)" });
    this.field = html("input", { type: "text", class: "kit-life-field", "aria-label": "What to ask about, such as record 17", placeholder: "record 17", autocomplete: "off", spellcheck: "false" });
    this.choice = html("select", { "aria-label": "Things at this step" });
    this.finder = html("div", { class: "kit-finder" }, this.field, this.choice);
    this.actions = html("div", { class: "kit-deeds" });
    this.rows = html("ol", { class: "kit-life-rows", tabindex: 0, "aria-label": "Its life" });
    this.rest = html("div", { class: "kit-life-rest" });
    this.card = html("div", { class: "kit-card", role: "dialog", "aria-labelledby": `${id}-name`, hidden: "" },
      html("div", { class: "kit-card-head" }, this.name, this.now, this.pinButton, close), this.finder, this.actions, this.rows, this.rest);
    this.nodes = [this.bar, this.card, this.tip];
    this.listen();
  }

  listen() {
    const { root, field, choice } = this;
    // A picture that scrubs takes the pointer for itself, so the click is not at the box any more: what was pressed counts.
    root.addEventListener("pointerdown", (event) => { this.pressed = { event, thing: thingAt(event.target) }; }, true);
    root.addEventListener("click", (event) => {
      const { event: down, thing } = this.pressed ?? {};
      this.pressed = null;
      if (thing && Math.hypot(event.clientX - down.clientX, event.clientY - down.clientY) < DRAGGED) this.open(thing.ref, thing.element);
    });
    root.addEventListener("pointermove", (event) => this.point(event));
    root.addEventListener("pointerleave", () => this.point(null));
    root.addEventListener("keydown", (event) => this.onKey(event));
    field.addEventListener("input", () => { choice.value = ""; this.ask(this.lives?.meant(field.value) ?? "", field.value); });
    choice.addEventListener("change", () => { field.value = ""; this.ask(choice.value); });
    for (const node of [field, choice]) node.addEventListener("keydown", (event) => { if (event.key === "Enter" && this.asked) this.togglePin(this.asked, true); });
  }

  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) && event.target.type !== "range";
    if (event.key === "Escape" && !this.card.hidden) this.close();
    else if (event.key === "i" && !isTyping) this.openInspector();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  load(run) {
    if (!run.life) return; // the step that is shown first: its lives follow
    this.lives = new Lives(run.life, run.said);
    this.drawn = "";
    this.hint.hidden = run.life.names.length + run.life.who.length === 0;
  }

  draw(step) {
    this.step = step;
    this.drawRings();
    if (!this.lives) return;
    this.drawPins();
    this.drawCard();
    this.drawTip();
  }

  // Between two steps of play: what travels takes its ring with it.
  move() {
    if (this.pins.length) this.drawRings();
  }

  // -- the card ----------------------------------------------------------------------------------

  open(ref, element) {
    this.finder.hidden = true;
    this.card.hidden = false;
    this.ask(ref);
    this.place(element);
  }

  openInspector() {
    if (!this.lives) return;
    this.player.pause();
    const seen = [...this.root.querySelectorAll("[data-ref]")].map((node) => node.dataset.ref);
    for (const row of this.root.querySelectorAll("[data-each]")) seen.push(...[...row.children].map((child) => thingAt(child)?.ref));
    const refs = [...new Set([...this.lives.named(this.step), ...this.pins.map(({ ref }) => ref), ...seen])].filter(Boolean).slice(0, MOST_CHOICES);
    this.choice.replaceChildren(html("option", { value: "", text: "things at this step" }), ...refs.map((ref) => html("option", { value: ref, text: sayRef(ref) })));
    this.finder.hidden = this.card.hidden = false;
    this.field.value = "";
    const first = refs.includes(this.asked) ? this.asked : refs[0] ?? "";
    this.choice.value = first;
    this.ask(first);
    this.place(elementsOf(this.root, first)[0] ?? this.bar);
    this.choice.focus();
  }

  ask(ref, text = "") {
    this.asked = ref;
    this.typed = text;
    this.drawn = "";
    this.drawCard();
  }

  close() {
    const hadFocus = this.card.contains(document.activeElement);
    this.card.hidden = true;
    this.asked = "";
    if (hadFocus) this.root.focus({ preventScroll: true });
  }

  // Below the element, above it or beside it, where it is in sight; never over it.
  place(element) {
    const box = this.root.getBoundingClientRect();
    const near = element.getBoundingClientRect();
    const { offsetWidth: wide, offsetHeight: tall } = this.card;
    const isBelow = near.bottom + 10 + tall <= window.innerHeight;
    const isAbove = !isBelow && near.top - 10 - tall >= Math.max(0, box.top);
    const aside = [near.right + 10, near.left - 10 - wide].find((x) => x >= box.left && x + wide <= box.right);
    const isAside = !isBelow && !isAbove && aside !== undefined;
    const x = isAside ? aside : Math.max(box.left + 8, Math.min(near.left - 20, box.right - wide - 8));
    const y = isAbove ? near.top - 10 - tall : isAside ? Math.max(box.top, window.innerHeight - tall - 8) : near.bottom + 10;
    this.card.style.left = `${Math.round(x - box.left)}px`;
    this.card.style.top = `${Math.round(y - box.top)}px`;
  }

  drawCard() {
    if (this.card.hidden || !this.lives) return;
    const { asked, step, player } = this;
    const { rows, last, state } = asked ? this.lives.after(asked, step) : { rows: [], last: -1, state: "" };
    const pin = this.pins.find(({ ref }) => ref === asked);
    const actions = (ACTIONS[asked.split(":", 1)[0]] ?? []).filter(({ fits }) => asked && (!fits || fits(asked, step, player)));
    const key = [asked, this.typed, last, rows.length, pin?.letter, ...actions.map(({ label }) => label)].join("|");
    if (this.drawn === key) return;
    this.drawn = key;
    const hadFocus = this.card.contains(document.activeElement);
    put(this.name, "text", asked ? sayRef(asked) : this.typed ? `Nothing in this run is called “${this.typed}”.` : "Ask about a thing");
    put(this.now, "text", state);
    const pinned = pin ? `Unpin ${pin.letter}` : "Pin";
    putAll(this.pinButton, { text: pinned, title: pinned, "aria-label": pinned });
    this.pinButton.hidden = !asked;
    this.actions.replaceChildren(...actions.map(({ label, run }) => button(label, "", () => run(asked, this.step, player))));
    const first = Math.max(0, last + 1 - MOST_ROWS);
    const shown = rows.slice(first, last + 1).map((row, place) => this.rowOf(row, first + place === last));
    if (first > 0) shown.unshift(html("li", { class: "kit-life-faint", text: `${first} earlier ones are not shown.` }));
    if (asked && last < 0) shown.push(html("li", { class: "kit-life-faint", text: rows.length ? "Nothing has happened to it yet." : "It does not occur in this run." }));
    this.rows.replaceChildren(...shown);
    this.rows.scrollTop = this.rows.scrollHeight;
    const next = rows[last + 1];
    this.rest.replaceChildren(...(next ? [button(`Next: ${sayTime(this.lives.at[next.step])}`, "", () => this.player.moveTo(next.step)),
      html("span", { class: "kit-life-faint", text: `${rows.length - last - 1} more to come` })] : []));
    if (hadFocus && !this.card.contains(document.activeElement)) this.rows.focus({ preventScroll: true }); // its button is gone
  }

  rowOf({ step, said, state, why, place }, isNewest) {
    const when = button(sayTime(this.lives.at[step]), "", () => this.player.moveTo(step));
    putAll(when, { class: "kit-life-when", title: `Go to step ${step}`, "aria-label": `${sayTime(this.lives.at[step])}, go to step ${step}` });
    const told = html("span", { class: "kit-life-what" }, html("span", { text: said }));
    if (state) told.append(" ", html("span", { class: "kit-life-state", text: `→ ${state}` }));
    if (why) told.append(html("span", { class: "kit-life-why" }, html("span", { text: why }), " ", html("code", { text: place })));
    return html("li", { class: isNewest ? "kit-life-newest" : "" }, when, told);
  }

  // -- the tip -----------------------------------------------------------------------------------

  point(event) {
    const thing = event && event.buttons === 0 && !this.card.contains(event.target) ? thingAt(event.target) : null;
    if (thing?.ref !== this.pointed?.ref) this.pointed = thing;
    if (this.pointed) this.spot = [event.clientX, event.clientY];
    this.drawTip();
  }

  drawTip() {
    const { pointed, tip } = this;
    tip.hidden = !pointed || !this.lives;
    if (tip.hidden) return;
    const { row, state } = this.lives.after(pointed.ref, this.step);
    const when = row ? `${sayTime(this.lives.at[row.step])}: ${row.said}` : "nothing has happened to it yet";
    put(tip, "text", [sayRef(pointed.ref), state, when].filter(Boolean).join(" · "));
    const box = this.root.getBoundingClientRect();
    const [x, y] = [this.spot[0] - box.left, this.spot[1] - box.top];
    tip.style.left = `${Math.round(Math.max(4, Math.min(x + 12, box.width - tip.offsetWidth - 4)))}px`;
    tip.style.top = `${Math.round(y - tip.offsetHeight - 10 < 0 ? y + 20 : y - tip.offsetHeight - 10)}px`;
  }

  // -- pins --------------------------------------------------------------------------------------

  togglePin(ref, isKept = false) {
    const place = this.pins.findIndex((pin) => pin.ref === ref);
    if (place >= 0 && isKept) return;
    if (place >= 0) this.pins.splice(place, 1);
    else {
      const letter = [...LETTERS].find((one) => !this.pins.some((pin) => pin.letter === one));
      if (letter) this.pins.push({ ref, letter });
    }
    const hadFocus = this.pinned.contains(document.activeElement);
    this.makePins();
    if (hadFocus) this.root.focus({ preventScroll: true });
    this.drawRings();
    this.drawPins();
    this.drawCard();
  }

  makePins() {
    this.pinRows = this.pins.map(({ ref, letter }) => {
      const told = html("span", { class: "kit-pin-told" });
      const name = button(sayRef(ref), "", () => this.open(ref, elementsOf(this.root, ref)[0] ?? node));
      put(name, "title", "Show its life");
      const off = button("×", "", () => this.togglePin(ref));
      putAll(off, { "aria-label": `Unpin ${sayRef(ref)}`, title: `Unpin ${sayRef(ref)}` });
      const node = html("li", {}, html("span", { class: "kit-letter", text: letter }), name, told, off);
      return { ref, node, told };
    });
    this.pinned.replaceChildren(...this.pinRows.map(({ node }) => node));
  }

  drawPins() {
    for (const { ref, told } of this.pinRows ?? []) {
      const { row, rows, state } = this.lives?.after(ref, this.step) ?? {};
      const newest = row ? `${sayTime(this.lives.at[row.step])}: ${row.said}` : rows?.length ? "nothing has happened to it yet" : "not in this run";
      put(told, "text", [state, newest].filter(Boolean).join(" · "));
    }
  }

  // A ring with its letter around each element that stands for something pinned.
  drawRings() {
    const wanted = new Map(); // picture -> [[letter, element], ...]
    for (const { ref, letter } of this.pins) {
      for (const element of elementsOf(this.root, ref)) {
        const picture = pictureOf(element);
        if (picture) wanted.set(picture, [...(wanted.get(picture) ?? []), [letter, element]]);
      }
    }
    for (const layer of this.root.querySelectorAll(".kit-rings")) if (!wanted.has(layer.parentNode)) layer.remove();
    for (const [picture, things] of wanted) {
      let layer = picture.querySelector(":scope > .kit-rings");
      if (!layer) picture.append((layer = svg("g", { class: "kit-rings", "pointer-events": "none", "aria-hidden": "true" })));
      if (picture.lastChild !== layer) picture.append(layer);
      while (layer.children.length > things.length) layer.lastChild.remove();
      while (layer.children.length < things.length) layer.append(makeRing());
      things.forEach(([letter, element], place) => setRing(layer.children[place], letter, boxIn(picture, element)));
    }
  }
}

// The outermost picture that an element is in.
function pictureOf(element) {
  let picture = element.ownerSVGElement;
  while (picture?.ownerSVGElement) picture = picture.ownerSVGElement;
  return picture;
}

// Where an element lies, in its picture's own units; null where it is not shown.
function boxIn(picture, element) {
  const [outer, inner] = [picture.getScreenCTM(), element.getScreenCTM()];
  if (!outer || !inner) return null;
  const { x, y, width, height } = element.getBBox();
  if (width === 0 && height === 0) return null;
  const { a, d, e, f } = outer.inverse().multiply(inner);
  return { x: a * x + e, y: d * y + f, width: a * width, height: d * height };
}

function makeRing() {
  const frame = (attributes) => svg("rect", { fill: "none", rx: 4, ...attributes });
  return svg("g", {}, frame({ class: "paper-line", "stroke-width": 5.5 }), frame({ class: "ink-line", "stroke-width": 2.5 }),
    svg("circle", { class: "ink paper-line", r: 8, "stroke-width": 1.5 }),
    svg("text", { class: "paper", "text-anchor": "middle", "font-size": 11, "font-weight": "bold" }));
}

function setRing(node, letter, box) {
  show(node, box !== null);
  if (!box) return;
  const [halo, ring, disc, text] = node.children;
  const frame = { x: box.x - 2, y: box.y - 2, width: box.width + 4, height: box.height + 4 };
  const [x, y] = [Math.max(9, box.x - 1), Math.max(9, box.y - 4)];
  putAll(halo, frame);
  putAll(ring, frame);
  putAll(disc, { cx: x, cy: y });
  putAll(text, { x, y: y + 4, text: letter });
}
