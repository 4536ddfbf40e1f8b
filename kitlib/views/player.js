// The player: knobs above, the pictures below, and a position in time.
// Scrubbing and playing use what the browser has already; only a knob, the seed, a fork and starting
// over ask the kernel. While one question is under way only the newest further one is kept.

class Player {
  constructor(model, root) {
    Object.assign(this, { model, root, look: model.get("look"), at: -1, step: 0, playing: 0, asked: 0, waiting: null, isBusy: false, forked: "" });
    this.hatchName = newName("hatch");
    this.reels = [];
    // What is shown besides the reels: each has `nodes`, load(run), draw(step) and describe(step, run).
    this.above = [];
    this.below = [new LifePanel(this)];
    this.make(this.hatchName);
    putAll(root, { ...KEYS_ARE_MINE, class: "kit-player", tabindex: 0, role: "region", "aria-label": `Player: ${model.get("heading").title}` });
    root.addEventListener("keydown", (event) => this.onKey(event));
    this.onTold = () => this.take();
    model.on("change:told", this.onTold);
    this.take();
  }

  make(hatchName) {
    const heading = this.model.get("heading");
    const isRun = heading.knobs.length > 0;
    const canFork = heading.knobs.some((knob) => knob.live);
    this.knobs = heading.knobs.map((knob) => new KnobControl(knob, () => this.askForRun(), (help) => put(this.help, "text", help)));
    this.seed = html("input", { type: "number", min: 0, max: 999999, step: 1, "aria-label": "Seed", class: "kit-seed" });
    this.seed.addEventListener("change", () => this.askForRun());
    this.forkButton = button("Fork here", "", () => this.ask({ do: "fork", at: this.at }));
    this.overButton = button("Start over", "", () => this.ask({ do: "start over" }));
    this.mood = html("span", { class: "kit-mood", role: "status" });
    const actions = html("div", { class: "kit-actions" }, html("label", {}, "seed ", this.seed), ...(canFork ? [this.forkButton] : []), this.overButton, this.mood);
    this.help = html("p", { class: "kit-help", "aria-hidden": "true", text: "Point at a knob to read what it does." });
    const knobs = html("div", { class: "kit-knobs" }, ...this.knobs.map((knob) => knob.node));
    this.error = html("p", { class: "kit-error", role: "alert", hidden: "" });
    this.verdict = new VerdictLine((step) => this.moveTo(step));
    this.sentence = html("p", { class: "kit-said", "aria-live": "polite" });
    this.cut = html("p", { class: "kit-cut", hidden: "" });
    this.stepText = html("span", { class: "kit-step" });
    this.hatches = svg("svg", { class: "kit-unseen", "aria-hidden": "true" });
    this.transport = new Transport((to) => this.moveTo(to(this.at)), () => this.togglePlay());
    this.trees = new TreeStage(this.look, hatchName, () => this.draw());
    this.producer = new ProducerStage(this.look, hatchName);
    this.controls = html("div", { class: "kit-bar" }, this.transport.buttons, this.transport.slider);
    this.question = html("b", { text: "Where is each record?" });
    this.stage = html("div");
    const nodesOf = (panels) => panels.flatMap(({ nodes }) => nodes);
    this.root.replaceChildren(
      html("h3", { text: heading.title }), html("p", { class: "kit-question", text: heading.question }),
      ...(isRun ? [knobs, this.help, actions] : []), this.error, this.verdict.node,
      html("p", { class: "kit-heading" }, this.question, this.stepText), this.sentence,
      ...nodesOf(this.above), this.controls, html("div", { class: "kit-stage" }, this.hatches, this.stage), ...nodesOf(this.below), this.cut);
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
    while (this.reels.length < run.reels.length) this.reels.push(new ReelView((step) => { this.root.focus({ preventScroll: true }); this.moveTo(step); }));
    run.reels.forEach((reel, place) => this.reels[place].load(film, reel, run.isWhole));
    for (const panel of this.panels) panel.load(run);
    const { forest, space_time: scene } = run;
    if (forest) this.trees.load(forest);
    if (scene) this.producer.load(scene);
    const first = forest ? [this.trees.chooser, this.trees.picture, this.trees.legend.node] : scene ? [this.producer.picture, this.producer.legend.node] : [];
    put(this.question, "text", forest ? "Which tuples are out, and is the number zero?" : scene ? this.producer.look.question : run.reels[0].question);
    const below = this.shownReels.flatMap(({ nodes }) => nodes);
    this.stage.replaceChildren(...first, ...(first.length ? below : below.slice(1)));
  }

  get shownReels() {
    return this.reels.slice(0, this.run.reels.length);
  }

  get panels() {
    return [...this.above, ...this.below];
  }

  get last() {
    return this.run.said.length - 1;
  }

  // The kernel has answered (or the page has just opened): show what it says.
  take() {
    const told = this.model.get("told");
    this.isBusy = told.number < this.asked;
    if (!this.isBusy) clearTimeout(this.patience);
    this.error.hidden = told.error === "";
    put(this.error, "text", told.error);
    if (told.error === "" || !this.run?.isWhole) {
      const wasLast = this.run && this.at >= this.last;
      this.load(JSON.parse(WORDS.decode(this.model.get("frames"))));
      this.verdict.draw(told.verdict);
      this.at = -1;
      const isForked = this.run.forked_at >= 0;
      const start = told.at >= 0 ? told.at : wasLast ? this.last : this.step;
      this.moveTo(start);
      this.told = told;
      for (const knob of this.knobs) knob.freeze(isForked && !knob.knob.live);
      if (told.set) this.knobs.forEach((knob) => knob.set(told.values[knob.knob.name]));
      if (told.set || this.seed.value === "") this.seed.value = told.seed;
      this.seed.disabled = this.forkButton.disabled = isForked;
      this.forked = isForked ? `Forked: steps 0 to ${this.run.forked_at} stay, your changes act after them.` : "";
    }
    put(this.mood, "text", this.forked);
    if (this.root.dataset.answered !== `${told.number}`) this.root.dataset.answered = told.number;
    this.root.dataset.whole = this.run.isWhole;
    if (this.waiting && !this.isBusy) {
      const next = this.waiting;
      this.waiting = null;
      this.ask(next);
    }
  }

  askForRun() {
    const values = Object.fromEntries(this.knobs.filter((knob) => !knob.input.disabled).map((knob) => [knob.knob.name, knob.value]));
    const shown = this.at >= this.last ? 2 ** 31 : this.at; // the last step stays the last one
    this.ask({ do: "run", knobs: values, seed: this.seed.value, shown });
  }

  ask(question) {
    this.pause();
    if (this.isBusy) {
      this.waiting = question;
      return;
    }
    this.isBusy = true;
    this.asked = Math.max(this.asked, this.model.get("told").number) + 1; // another view may have asked too
    this.model.send({ ...question, number: this.asked });
    this.patience = setTimeout(() => put(this.mood, "text", "Waiting for the kernel. If it was restarted, run the cell again."), 2000);
  }

  moveTo(step) {
    const to = Math.max(Math.min(0, this.last), Math.min(step, this.last));
    if (to === this.at) return;
    this.at = this.step = to;
    this.draw();
  }

  draw() {
    const { run, at } = this;
    for (const panel of [...this.shownReels, ...this.panels]) panel.draw(at);
    if (run.forest) this.trees.draw(at);
    if (run.space_time) this.producer.draw(at);
    const sentence = at >= 0 ? run.said[at] : "The trace has no steps.";
    put(this.sentence, "text", sentence);
    put(this.stepText, "text", `after step ${at} of ${this.last}`);
    this.transport.show(at, run.said.length, this.playing ? "" : sentence);
    if (!this.playing) this.describe();
    this.root.dataset.step = at;
  }

  describe() {
    for (const panel of [...this.shownReels, ...this.panels]) panel.describe(this.at, this.run);
    if (this.run.forest) this.trees.describe();
    if (this.run.space_time) this.producer.describe(this.at);
  }

  togglePlay() {
    if (this.playing) return this.pause();
    if (this.at >= this.last) this.moveTo(0);
    put(this.sentence, "aria-live", "off");
    this.transport.setPlaying(true);
    let last = performance.now();
    let due = 0; // steps, with a fraction
    const tick = (now) => {
      due += ((now - last) / 1000) * +this.transport.speed.value;
      last = now;
      const whole = Math.floor(due);
      due -= whole;
      if (whole > 0) this.moveTo(this.at + whole);
      if (this.at >= this.last) this.pause();
      else this.playing = requestAnimationFrame(tick);
    };
    this.playing = requestAnimationFrame(tick);
  }

  pause() {
    if (!this.playing) return;
    cancelAnimationFrame(this.playing);
    this.playing = 0;
    this.transport.setPlaying(false);
    put(this.sentence, "aria-live", "polite");
    this.describe();
  }

  // Arrow keys scrub and space plays, unless the focus is on a control that has its own use for them.
  onKey(event) {
    const tag = event.target.tagName;
    const isPress = tag === "BUTTON" && (event.key === " " || event.key === "Enter");
    const isControl = isPress || (/^(INPUT|SELECT|OPTION)$/.test(tag) && event.target !== this.transport.slider);
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (isControl) {
      if (!event.shiftKey) event.stopPropagation(); // JupyterLab would take Enter for itself
      return;
    }
    const stride = event.shiftKey ? 10 : 1;
    const moves = {
      ArrowRight: () => this.moveTo(this.at + stride),
      ArrowLeft: () => this.moveTo(this.at - stride),
      Home: () => this.moveTo(0),
      End: () => this.moveTo(Infinity),
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
    this.model.off("change:told", this.onTold);
  }
}

export default {
  render({ model, el }) {
    const root = html("div");
    el.append(root);
    const player = new Player(model, root);
    return () => player.close();
  },
};
