// Pictures as kitlib/views/film.py keeps them: numbered nodes, each an element with the numbers of what is inside
// it. The picture of a step is made from that of the step before by changing what differs, and nothing here knows
// what is drawn. Nodes come as lists and text goes in as text, so nothing is read as markup.

const WORDS = new TextDecoder();

// Pictures come as JSON, those of a long run packed with gzip.
function isPacked(bytes) {
  return new Uint8Array(bytes.buffer, bytes.byteOffset, 1)[0] === 0x1f;
}

function unpack(bytes) {
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}

const DRAWN_TAGS = new Set(["g", "path", "rect", "text", "tspan", "circle", "title", "pattern"]);

class Film {
  constructor({ heads, nodes }, hatch) {
    const isSafe = ([name]) => !/^on|href/.test(name);
    const own = ([name, value]) => [name, value === "url(#hatch)" ? hatch : value];
    this.heads = heads.map(([tag, attributes]) => ({
      tag: DRAWN_TAGS.has(tag) ? tag : "g", attributes: Object.fromEntries(Object.entries(attributes).filter(isSafe).map(own)),
    }));
    // What is inside a node is told by how far back it lies, or below zero by its number.
    const numberOf = (part, number) => (typeof part === "string" ? part : part < 0 ? -1 - part : number - part);
    this.nodes = nodes.map(([head, ...inside], number) => [head, ...inside.map((part) => numberOf(part, number))]);
  }

  // The element of a node, or text.
  make(part) {
    if (typeof part === "string") return document.createTextNode(part);
    const [head, ...inside] = this.nodes[part];
    const { tag, attributes } = this.heads[head];
    const made = document.createElementNS(SVG_SPACE, tag);
    for (const name in attributes) made.setAttribute(name, attributes[name]);
    made.append(...inside.map((one) => this.make(one)));
    return made;
  }

  // Turn the element of one node into that of another one; what stays is not touched.
  change(made, from, to) {
    if (from === to) return;
    const [before, after] = [from, to].map((part) => (typeof part === "string" ? [] : this.nodes[part] ?? []));
    const [was, is] = [this.heads[before[0]], this.heads[after[0]]];
    if (was === undefined || was.tag !== is?.tag) {
      made.replaceWith(this.make(to));
      return;
    }
    if (was !== is) {
      for (const name in was.attributes) if (!(name in is.attributes)) made.removeAttribute(name);
      for (const name in is.attributes) if (was.attributes[name] !== is.attributes[name]) made.setAttribute(name, is.attributes[name]);
    }
    while (made.childNodes.length > after.length - 1) made.lastChild.remove();
    for (let i = 1; i < after.length; i++) {
      if (i < before.length) this.change(made.childNodes[i - 1], before[i], after[i]);
      else made.append(this.make(after[i]));
    }
  }
}

// One picture: what stays, a cursor that scrubs where there is one, what a step shows, and what its signs mean;
// where there are several things to show, a list to choose from.
class ReelView {
  constructor(onScrub, onChoice) {
    Object.assign(this, { onChoice, chosen: -1 });
    const id = newName("reel");
    this.heading = html("p", { class: "kit-heading" }, html("b"));
    this.title = svg("title", { id: `${id}-title` });
    this.description = svg("desc", { id: `${id}-desc` });
    this.pad = svg("rect", { fill: "transparent" });
    this.back = svg("g");
    this.body = svg("g", {}, this.pad, this.back);
    this.future = svg("rect", { class: "paper", "pointer-events": "none" });
    this.cursor = svg("g", { "data-reel": "cursor", "pointer-events": "none" });
    this.front = svg("g", { "data-reel": "shown" });
    this.picture = svg("svg", { class: "kit", role: "img", "aria-labelledby": `${id}-title ${id}-desc` },
      this.title, this.description, this.body, this.future, this.cursor, this.front);
    this.legend = html("ul", { class: "kit-legend", "aria-label": "What the signs and boxes mean" });
    this.choice = html("select");
    this.chooser = html("div", { class: "kit-chooser" }, html("label", {}, html("span"), this.choice));
    this.nodes = [this.heading, this.chooser, this.picture, this.legend];
    this.listen(onScrub);
  }

  // Dragging on the picture scrubs: the step is the last one at or left of the pointer. A click on what stands for a
  // choice makes it, and unmakes it.
  listen(onScrub) {
    const scrub = (event) => {
      if (!this.reel.cursor || !(event.buttons & 1)) return;
      const box = this.picture.getBoundingClientRect();
      const x = ((event.clientX - box.left) / box.width) * this.reel.width;
      onScrub(Math.max(0, lastUpTo(this.reel.cursor.x, x + 1)));
      event.preventDefault();
    };
    let pressed = null; // on a thing: a click asks about it, and only dragging scrubs
    this.body.addEventListener("pointerdown", (event) => {
      this.body.setPointerCapture(event.pointerId);
      pressed = thingAt(event.target) && event;
      if (!pressed) scrub(event);
    });
    this.body.addEventListener("pointermove", (event) => {
      if (pressed && Math.hypot(event.clientX - pressed.clientX, event.clientY - pressed.clientY) < DRAGGED) return;
      pressed = null;
      scrub(event);
    });
    this.choice.addEventListener("change", () => this.choose(+this.choice.value));
    this.front.addEventListener("click", (event) => {
      const choice = +(event.target.closest("[data-choice]")?.dataset.choice ?? NaN);
      if (choice >= 0) this.choose(choice === this.chosen ? -1 : choice);
    });
  }

  // Of the first step that is there of another run the legend and the choices are not known yet: those of the last run stay.
  load(film, reel, isWhole) {
    Object.assign(this, { film, reel, isWhole });
    const { cursor, chooser } = reel;
    put(this.heading.firstChild, "text", reel.question);
    put(this.picture, "viewBox", `0 0 ${reel.width} ${reel.tall}`);
    put(this.title, "text", reel.title);
    this.back.replaceChildren(...(reel.back < 0 ? [] : [film.make(reel.back)]));
    this.tracks = reel.tracks.map((track) => new Track(film, track));
    this.front.replaceChildren(...this.tracks.map(({ node }) => node));
    put(this.body, "class", cursor ? "kit-scrub" : null);
    show(this.pad, cursor);
    show(this.future, cursor?.future.length);
    show(this.cursor, cursor);
    if (cursor) {
      const [x, height] = [Math.min(cursor.x[0] ?? 0, cursor.right), cursor.tall];
      putAll(this.pad, { x, width: cursor.right - x, y: cursor.top, height });
      putAll(this.future, { y: cursor.top, height, opacity: cursor.dim });
      this.tracks.push(new Track(film, cursor.track));
      this.cursor.replaceChildren(this.tracks.at(-1).node);
    }
    if (!isWhole) return;
    this.items = reel.legend.map(([swatch, meaning]) => html("li", {},
      svg("svg", { viewBox: "0 0 26 18", width: 26, height: 18, class: "kit", "aria-hidden": "true" }, film.make(swatch)), html("span", { text: meaning })));
    this.legend.replaceChildren(...this.items);
    this.seen = reel.seen.map(([steps, bits]) => [sumsOf(steps), bits]);
    const { names, label, otherwise } = chooser ?? { names: [], label: "", otherwise: "" };
    put(this.chooser.firstChild.firstChild, "text", label);
    this.chooser.hidden = !chooser;
    this.choice.replaceChildren(...[otherwise, ...names].map((text, place) => html("option", { value: place - 1, text })));
    if (this.chosen >= names.length) this.chosen = -1;
    this.choice.value = this.chosen;
  }

  // Show one thing at all steps, or with -1 what each step is about.
  choose(choice) {
    this.choice.value = this.chosen = choice;
    this.onChoice();
  }

  draw(step) {
    const { cursor, chooser } = this.reel;
    if (cursor) {
      const x = cursor.x[step] ?? cursor.right;
      const future = cursor.future[step] ?? x;
      putAll(this.future, { x: future, width: Math.max(0, cursor.right - future) });
      put(this.cursor, "transform", `translate(${x} 0)`);
    }
    const choice = this.chosen >= 0 ? this.chosen : chooser?.default[step] ?? 0;
    for (const track of this.tracks) track.draw(step, choice);
    if (!this.isWhole || !this.items.length) return;
    // The meanings that do not occur now are dimmed, never moved.
    const [steps, bits] = this.seen[choice] ?? [[], []];
    const now = bits[lastUpTo(steps, step)] ?? 0;
    this.items.forEach((item, place) => put(item, "class", now & (1 << place) ? null : "kit-absent"));
  }

  // A picture without words of its own says what stands in its rows.
  describe(step, { said }) {
    const { words, wordsOf } = this.reel;
    const rows = () => [...this.front.querySelectorAll(":scope > g > text")].map(({ childNodes }) => [...childNodes].map((part) => part.textContent).join(": ")).join(", ");
    const told = words[wordsOf[step]] ?? rows();
    put(this.description, "text", step < 0 ? "There are no steps." : `After step ${step} of ${said.length - 1}: ${said[step]} ${told}`.trim());
  }
}

// Rows of pieces, each of which becomes another one at some steps; which row is shown depends on what was chosen.
class Track {
  constructor(film, [head, rows, of, moved]) {
    Object.assign(this, { film, of, moved: sumsOf(moved), rows: rows.map((row) => row.map((slot) => slot.map(sumsOf))), node: film.make(head), shown: [] });
  }

  draw(step, choice) {
    const row = this.rows[this.of.length ? this.of[choice] : 0] ?? [];
    if (this.moved.length) put(this.node, "transform", `translate(${this.moved[step] ?? this.moved.at(-1)} 0)`);
    while (this.shown.length < row.length) {
      this.node.append(svg("g"));
      this.shown.push(-1);
    }
    this.shown.forEach((was, place) => {
      const [steps, nodes] = row[place] ?? [[], []];
      const node = nodes[lastUpTo(steps, step)] ?? -1;
      if (node === was) return;
      if (node >= 0) this.film.change(this.node.childNodes[place], was, node);
      else this.node.childNodes[place].replaceWith(svg("g"));
      this.shown[place] = node;
    });
  }
}

function sumsOf(numbers) {
  let sum = 0;
  return numbers.map((number) => (sum += number));
}

// The place of the last number that is not above `step`, or -1.
function lastUpTo(steps, step, stepOf = (one) => one) {
  let [low, high] = [0, steps.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (stepOf(steps[middle]) <= step) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
