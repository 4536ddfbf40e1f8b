// The player: knobs above, the pictures below, and a position in time.
// Scrubbing and playing use what the browser has already; only a knob, the seed, a fork and starting
// over ask the kernel. While one question is under way only the newest further one is kept.

const WIDE = 890; // CSS pixels: from here on there is room for knobs beside a picture
const REST_MS = 250; // how long no knob is turned until the pictures of all steps are asked for

class Player {
  constructor(model, root) {
    Object.assign(this, { model, root, at: -1, step: 0, playing: 0, asked: 0, waiting: null, isBusy: false, forked: "" });
    this.hatchName = newName("hatch");
    this.reels = [];
    // What is shown besides the reels: each has `nodes`, and may have load(run, film), draw(step), describe(step, run), move(place).
    const script = new ScriptPanel(this);
    this.above = [script.chips];
    this.below = [new LifePanel(this), script];
    this.make(this.hatchName);
    putAll(root, { ...KEYS_ARE_MINE, class: "kit-player", tabindex: 0, role: "region", "aria-label": `Player: ${model.get("heading").title}` });
    root.addEventListener("keydown", (event) => this.onKey(event));
    this.onTold = () => this.take();
    model.on("change:told", this.onTold);
    this.onStep = () => {
      const step = model.get("step");
      if (step !== this.at) this.pause(); // somebody else moves it
      this.moveTo(step);
    };
    model.on("change:step", this.onStep);
    this.take();
  }

  // On a wide page the knobs and the verdict stand beside the pictures, on a narrow one above them. What moves
  // through the run stays in sight however far one scrolls.
  make(hatchName) {
    const heading = this.model.get("heading");
    const isRun = heading.knobs.length > 0;
    const canFork = heading.knobs.some((knob) => knob.live);
    this.knobs = new KnobPanel(heading, () => this.askForRun());
    this.seed = html("input", { type: "number", min: 0, max: 999999, step: 1, "aria-label": "Seed", class: "kit-seed" });
    this.seed.addEventListener("change", () => this.askForRun());
    this.forkButton = button("Fork here", "", () => this.ask({ do: "fork", at: this.at }));
    this.overButton = button("Start over", "", () => this.ask({ do: "start over" }));
    this.mood = html("span", { class: "kit-mood", role: "status" });
    const actions = html("div", { class: "kit-actions" }, html("label", {}, "seed ", this.seed), ...(canFork ? [this.forkButton] : []), this.overButton, this.mood);
    this.error = html("p", { class: "kit-error", role: "alert", hidden: "" });
    this.verdict = new VerdictLine((step) => this.moveTo(step), () => { this.root.dataset.told = true; });
    this.outcome = new OutcomeLine();
    this.sentence = html("p", { class: "kit-said", "aria-live": "polite" });
    this.cut = html("p", { class: "kit-cut", hidden: "" });
    this.stepText = html("span", { class: "kit-step" });
    this.hatches = svg("svg", { class: "kit-unseen", "aria-hidden": "true" });
    this.transport = new Transport((to) => this.moveTo(to(this.at)), () => this.togglePlay());
    this.actors = new ActorStage(this.transport.clock, () => { this.root.focus({ preventScroll: true }); this.togglePlay(); });
    this.above.push(this.actors);
    this.controls = html("div", { class: "kit-bar" }, this.transport.buttons, this.transport.ruler.node);
    this.stage = html("div");
    const nodesOf = (panels) => panels.flatMap(({ nodes }) => nodes);
    this.live = new LivePanel(this.model);
    this.side = html("div", { class: "kit-side" }, ...(isRun ? [...this.knobs.nodes, actions, this.live.node] : []));
    this.deck = html("div", { class: "kit-deck" }, this.controls, html("div", { class: "kit-now" }, this.stepText, this.sentence), this.error);
    this.frame = html("div", { class: "kit-stage", role: "group", "aria-label": "Pictures" }, this.hatches, this.stage);
    const main = html("div", { class: "kit-main" }, this.deck, ...nodesOf(this.above), this.frame, this.actors.legend,
      ...nodesOf(this.below), this.cut);
    this.root.replaceChildren(
      html("h3", { text: heading.title }), html("p", { class: "kit-question", text: heading.question }), html("div", { class: "kit-body" }, this.side, main));
    let isNew = true;
    this.fit = new ResizeObserver(() => {
      this.arrange(isRun && this.root.clientWidth >= WIDE);
      if (isNew && isJustRun(this.root)) this.root.scrollIntoView({ block: "start" });
      isNew = false;
    });
    this.fit.observe(this.root);
    this.arrange(false);
  }

  arrange(isWide) {
    if (this.root.dataset.wide === `${isWide}`) return;
    this.root.dataset.wide = isWide;
    if (isWide) this.knobs.nodes[1].after(this.verdict.node);
    else this.deck.append(this.verdict.node);
    if (isWide) this.verdict.chips.after(this.outcome.node);
    else this.side.append(this.outcome.node);
    for (const node of [this.verdict.sentence, this.frame]) put(node, "tabindex", isWide ? null : 0); // there they scroll
  }

  // Another run: its pictures one below the other.
  load(run) {
    this.run = run;
    this.cut.hidden = run.cut === "";
    put(this.cut, "text", run.cut);
    const film = new Film(run, `url(#${this.hatchName})`);
    const hatch = film.make(run.hatch);
    hatch.id = this.hatchName;
    this.hatches.replaceChildren(svg("defs", {}, hatch));
    const scrub = (step) => { this.root.focus({ preventScroll: true }); this.moveTo(step); };
    while (this.reels.length < run.reels.length) this.reels.push(new ReelView(scrub, () => this.draw()));
    run.reels.forEach((reel, place) => this.reels[place].load(film, reel, run.isWhole));
    this.transport.load(run.clock, this.model.get("told").marks ?? []);
    for (const panel of this.panels) panel.load?.(run, film);
    const shown = this.shownReels.flatMap(({ nodes }) => nodes);
    const isSame = shown.length === this.stage.childNodes.length && shown.every((node) => node.parentNode === this.stage);
    if (!isSame) this.stage.replaceChildren(...shown); // put in again, what has the focus would lose it
  }

  get shownReels() {
    return this.reels.slice(0, this.run.reels.length);
  }

  get panels() {
    return [...this.above, ...this.below];
  }

  get last() {
    return (this.run?.said.length ?? 0) - 1;
  }

  // The kernel has answered (or the page has just opened): show what it says. What is packed is unpacked first.
  take() {
    const [told, frames] = [this.model.get("told"), this.model.get("frames")];
    if (isPacked(frames) && this.unpacked?.frames !== frames) {
      this.root.inert = !this.run; // there is nothing to play yet
      unpack(frames).then((bytes) => {
        if (this.model.get("frames") !== frames) return; // another run has come
        this.unpacked = { frames, bytes };
        this.root.inert = false;
        this.take();
      });
      return;
    }
    this.isBusy = told.number < this.asked;
    if (!this.isBusy) clearTimeout(this.patience);
    this.error.hidden = told.error === "";
    put(this.error, "text", told.error);
    if (told.error === "" || !this.run?.isWhole) {
      const wasLast = this.run && this.at >= this.last;
      this.load(JSON.parse(WORDS.decode(isPacked(frames) ? this.unpacked.bytes : frames)));
      this.verdict.draw(told.verdict);
      this.outcome.draw(told.outcome);
      this.at = -1;
      const isForked = this.run.forked_at >= 0;
      const isNew = this.told === undefined; // a view that opens later shows what the others show
      const start = isNew && this.model.get("step") >= 0 ? this.model.get("step") : told.at >= 0 ? told.at : wasLast ? this.last : this.step;
      this.moveTo(start);
      this.told = told;
      this.knobs.freeze(isForked);
      if (told.set) this.knobs.set(told);
      if (told.set || this.seed.value === "") this.seed.value = told.seed;
      this.seed.disabled = this.forkButton.disabled = isForked;
      this.forked = isForked ? `Forked: steps 0 to ${this.run.forked_at} stay, your changes act after them.` : "";
    }
    put(this.mood, "text", this.forked);
    if (this.root.dataset.answered !== `${told.number}`) this.root.dataset.answered = told.number;
    this.root.dataset.whole = this.run.isWhole;
    clearTimeout(this.resting);
    if (this.isBusy) return;
    if (this.waiting) {
      const next = this.waiting;
      this.waiting = null;
      this.ask(next);
    } else if (!this.run.isWhole) this.resting = setTimeout(() => this.model.send({ do: "complete" }), REST_MS);
  }

  askForRun() {
    const shown = this.at >= this.last ? 2 ** 31 : this.at; // the last step stays the last one
    this.ask({ do: "run", knobs: this.knobs.values, seed: this.seed.value, shown, chosen: this.reels[0].chosen });
  }

  ask(question) {
    this.pause();
    clearTimeout(this.resting);
    if (this.isBusy) {
      this.waiting = question;
      return;
    }
    this.isBusy = this.root.dataset.told = true;
    this.asked = Math.max(this.asked, this.model.get("told").number) + 1; // another view may have asked too
    this.model.send({ ...question, number: this.asked });
    this.patience = setTimeout(() => put(this.mood, "text", this.model.get("waiting") ?? "Waiting for the kernel. If it was restarted, run the cell again."), 2000);
  }

  moveTo(step) {
    const to = Math.max(Math.min(0, this.last), Math.min(step, this.last));
    if (to === this.at) return;
    if (this.at >= 0) this.root.dataset.played = this.root.dataset.told = true;
    else if (to > 0) this.root.dataset.told = true; // it opens where something is to be seen
    this.at = this.step = to;
    this.draw();
  }

  draw() {
    const { run, at } = this;
    for (const panel of [...this.shownReels, ...this.panels]) panel.draw?.(at);
    const sentence = at >= 0 ? run.said[at] : "The trace has no steps.";
    put(this.sentence, "text", sentence);
    put(this.stepText, "text", `after step ${at} of ${this.last}`);
    this.transport.show(at, run.said.length, this.playing ? "" : sentence);
    if (!this.playing) this.describe();
    this.root.dataset.step = at;
    this.share();
  }

  // Widgets that are linked in this page follow at once, the kernel when the step rests.
  share() {
    clearTimeout(this.sharing);
    if (this.at < 0) return;
    if (this.model.get("step") !== this.at) this.model.set("step", this.at);
    if (!this.playing) this.sharing = setTimeout(() => this.model.save_changes(), 200);
  }

  describe() {
    for (const panel of [...this.shownReels, ...this.panels]) panel.describe?.(this.at, this.run);
  }

  togglePlay() {
    if (this.playing) return this.pause();
    if (this.at >= this.last) this.moveTo(0);
    put(this.sentence, "aria-live", "off");
    this.root.dataset.played = this.root.dataset.told = true;
    this.transport.start(this.at);
    let last = performance.now();
    const tick = (now) => {
      const { step, place, isOver } = this.transport.advance(now - last);
      last = now;
      this.moveTo(step);
      for (const panel of this.panels) panel.move?.(place);
      if (isOver) this.pause();
      else this.playing = requestAnimationFrame(tick);
    };
    this.playing = requestAnimationFrame(tick);
  }

  pause() {
    if (!this.playing) return;
    cancelAnimationFrame(this.playing);
    this.playing = 0;
    this.transport.stop();
    put(this.sentence, "aria-live", "polite");
    this.describe();
    this.share();
  }

  // Arrow keys scrub and space plays, unless the focus is on a control that has its own use for them.
  onKey(event) {
    const tag = event.target.tagName;
    const isPress = /^(BUTTON|SUMMARY)$/.test(tag) && (event.key === " " || event.key === "Enter");
    const isControl = isPress || (/^(INPUT|SELECT|OPTION)$/.test(tag) && event.target !== this.transport.slider);
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (isControl) return event.stopPropagation(); // JupyterLab would take Enter for itself
    if (event.target === this.frame && this.frame.matches(":focus-visible") && /^Arrow/.test(event.key)) return; // it scrolls sideways
    const stride = event.shiftKey ? 10 : 1;
    const moves = {
      ArrowRight: () => this.moveTo(this.at + stride),
      ArrowLeft: () => this.moveTo(this.at - stride),
      Home: () => this.moveTo(0),
      End: () => this.moveTo(Infinity),
      "[": () => this.moveTo(this.transport.ruler.markFrom(this.at, -1)),
      "]": () => this.moveTo(this.transport.ruler.markFrom(this.at, 1)),
      " ": () => this.togglePlay(),
    };
    if (!moves[event.key]) return;
    if (event.key !== " ") this.pause();
    moves[event.key]();
    event.preventDefault();
    event.stopPropagation();
  }

  close() {
    this.pause();
    clearTimeout(this.patience);
    clearTimeout(this.resting);
    this.fit.disconnect();
    this.transport.ruler.fit.disconnect();
    clearTimeout(this.sharing);
    this.live.close();
    this.model.off("change:told", this.onTold);
    this.model.off("change:step", this.onStep);
  }
}

export default widget(Player);
