// The player: knobs above, the trees, the partitions and the curves below, and a position in time.
// Scrubbing and playing use what the browser has already; only a knob, the seed, a fork and starting
// over ask the kernel. While one question is under way only the newest further one is kept.

class Player {
  constructor(model, root) {
    Object.assign(this, { model, root, look: readLook(model.get("look")), at: -1, step: 0, playing: 0, asked: 0, waiting: null, isBusy: false, forked: "" });
    const hatchName = newName("hatch");
    this.hatch = `url(#${hatchName})`;
    this.lanes = [];
    this.make(hatchName);
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
    this.title = svg("title", { text: "Where is each record?" });
    this.description = svg("desc");
    const hatch = svg("pattern", { id: hatchName, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
      svg("path", { d: "M0 0V6", stroke: this.look.red, "stroke-width": 3 }));
    this.strips = svg("g");
    this.picture = svg("svg", { class: "kit", role: "img" }, this.title, this.description, svg("defs", {}, hatch), this.strips);
    putAll(this.title, { id: `${hatchName}-title` });
    putAll(this.description, { id: `${hatchName}-desc` });
    put(this.picture, "aria-labelledby", `${hatchName}-title ${hatchName}-desc`);
    this.transport = new Transport((to) => this.moveTo(to(this.at)), () => this.togglePlay());
    this.trees = new TreeStage(this.look, hatchName, () => this.draw());
    this.producer = new ProducerStage(this.look, hatchName);
    this.scene = new SceneStage(this.look, hatchName, (step) => { this.root.focus({ preventScroll: true }); this.moveTo(step); });
    this.plot = new Plot(this.look, (step) => { this.root.focus({ preventScroll: true }); this.moveTo(step); });
    this.legend = new Legend(this.look, this.hatch);
    this.question = html("b", { text: "Where is each record?" });
    this.plotHeading = html("p", { class: "kit-heading" }, html("b"));
    this.stage = html("div");
    this.root.replaceChildren(
      html("h3", { text: heading.title }), html("p", { class: "kit-question", text: heading.question }),
      ...(isRun ? [knobs, this.help, actions] : []), this.error, this.verdict.node,
      html("p", { class: "kit-heading" }, this.question, this.stepText), this.sentence,
      html("div", { class: "kit-stage" }, this.stage), this.cut);
  }

  // What the pictures are depends on the trace: partitions, and trees where it follows them.
  arrange() {
    const { forest, lanes, space_time: scene, scene: whole } = this.timeline;
    const hasRecords = !whole && lanes.some(([, base, end]) => end > base);
    const kind = `${Boolean(forest)} ${hasRecords} ${Boolean(scene)} ${Boolean(whole)}`;
    put(this.plotHeading.firstChild, "text", this.timeline.question);
    this.cut.hidden = this.timeline.cut === "";
    put(this.cut, "text", this.timeline.cut);
    if (forest) this.trees.load(forest);
    if (scene) this.producer.load(scene);
    if (whole) {
      this.scene.load(whole);
      put(this.question, "text", whole.question);
    }
    if (this.kind === kind) return;
    this.kind = kind;
    const { picture, transport, plot, trees, producer } = this;
    const records = forest || scene ? [html("p", { class: "kit-heading" }, html("b", { text: "Where is each record?" })), picture] : [picture];
    if (!whole) put(this.question, "text", forest ? "Which tuples are out, and is the number zero?" : "Where is each record?");
    if (whole) {
      this.scene.controls.replaceChildren(transport.buttons, transport.slider);
      this.stage.replaceChildren(this.scene.controls, this.scene.picture);
    } else if (scene) {
      put(this.question, "text", producer.look.question);
      producer.controls.replaceChildren(transport.buttons, transport.slider);
      this.stage.replaceChildren(producer.controls, producer.picture, producer.legend.node, this.plotHeading, plot.node, ...(hasRecords ? records : []));
    } else if (forest) {
      trees.chooser.prepend(transport.buttons);
      this.stage.replaceChildren(trees.chooser, trees.picture, trees.legend.node, this.plotHeading, transport.slider, plot.node, ...(hasRecords ? records : []));
    } else this.stage.replaceChildren(...records, transport.buttons, this.plotHeading, transport.slider, plot.node);
    this.legend.node.remove();
    if (hasRecords || (!forest && !scene && !whole)) this.root.append(this.legend.node);
  }

  // The kernel has answered (or the page has just opened): show what it says.
  take() {
    const told = this.model.get("told");
    this.isBusy = told.number < this.asked;
    if (!this.isBusy) clearTimeout(this.patience);
    this.error.hidden = told.error === "";
    put(this.error, "text", told.error);
    if (told.error === "" || !this.timeline) {
      const wasLast = this.timeline && this.at >= this.timeline.steps - 1;
      this.timeline = new Timeline(this.model.get("frames"));
      this.arrange();
      this.plot.load(this.timeline);
      this.verdict.draw(told.verdict);
      this.at = -1;
      const isForked = this.timeline.forked_at >= 0;
      const start = told.at >= 0 ? told.at : wasLast ? this.timeline.steps - 1 : this.step;
      this.moveTo(start);
      this.told = told;
      for (const knob of this.knobs) knob.freeze(isForked && !knob.knob.live);
      if (told.set) this.knobs.forEach((knob) => knob.set(told.values[knob.knob.name]));
      if (told.set || this.seed.value === "") this.seed.value = told.seed;
      this.seed.disabled = this.forkButton.disabled = isForked;
      this.forked = isForked ? `Forked: steps 0 to ${this.timeline.forked_at} stay, your changes act after them.` : "";
    }
    put(this.mood, "text", this.forked);
    this.root.dataset.answered = told.number;
    if (this.waiting && !this.isBusy) {
      const next = this.waiting;
      this.waiting = null;
      this.ask(next);
    }
  }

  askForRun() {
    const values = Object.fromEntries(this.knobs.filter((knob) => !knob.input.disabled).map((knob) => [knob.knob.name, knob.value]));
    this.ask({ do: "run", knobs: values, seed: this.seed.value });
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
    const to = Math.max(Math.min(0, this.timeline.steps - 1), Math.min(step, this.timeline.steps - 1));
    if (to === this.at) return;
    this.at = this.step = to;
    this.timeline.moveTo(to);
    this.draw();
  }

  draw() {
    const { timeline, at } = this;
    const seen = { codes: new Set(), badges: 0 };
    while (this.lanes.length < timeline.lanes.length) {
      this.lanes.push(new LaneStrip(this.look, this.lanes.length, this.hatch));
      this.strips.append(this.lanes[this.lanes.length - 1].node);
    }
    let top = 0;
    this.lanes.forEach((lane, index) => {
      const isThere = index < timeline.lanes.length;
      show(lane.node, isThere);
      if (isThere) top += lane.draw(timeline, top, seen);
    });
    put(this.picture, "viewBox", `0 0 ${this.look.geometry.width} ${Math.max(top, 20)}`);
    if (timeline.forest) this.trees.draw(at);
    if (timeline.space_time) this.producer.draw(at);
    if (timeline.scene) this.scene.draw(at);
    const sentence = at >= 0 ? timeline.said[at] : "The trace has no steps.";
    put(this.sentence, "text", sentence);
    put(this.stepText, "text", `after step ${at} of ${timeline.steps - 1}`);
    this.plot.draw(at);
    this.legend.draw(seen);
    this.transport.show(at, timeline.steps, this.playing ? "" : sentence);
    if (!this.playing) this.describe();
    this.root.dataset.step = at;
  }

  describe() {
    const told = this.lanes.slice(0, this.timeline.lanes.length).map((lane) => `${lane.name.textContent}: ${lane.summary.textContent}`);
    if (this.timeline.forest) this.trees.describe();
    if (this.timeline.space_time) this.producer.describe(this.at);
    if (this.timeline.scene) this.scene.describe(this.at, this.timeline);
    put(this.description, "text", `After step ${this.at} of ${this.timeline.steps - 1}, ${told.join("; ")}.`);
  }

  togglePlay() {
    if (this.playing) return this.pause();
    if (this.at >= this.timeline.steps - 1) this.moveTo(0);
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
      if (this.at >= this.timeline.steps - 1) this.pause();
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

// The meaning of all codes, as the kernel wrote it, made quick to look up.
function readLook(look) {
  const byCode = Object.fromEntries(look.looks.map((one) => [one.code, one]));
  // The looks are in the order of alarm, so a code's rank is its place among them.
  const ranks = Uint8Array.from(look.table, (code) => look.looks.indexOf(byCode[code]));
  return { ...look, byCode, ranks };
}

export default {
  render({ model, el }) {
    const root = html("div");
    el.append(root);
    const player = new Player(model, root);
    return () => player.close();
  },
};
