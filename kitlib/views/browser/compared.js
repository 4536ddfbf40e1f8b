// Two players of recorded runs beside each other, moved by one bar: each tick says which step either of them shows.

class Pair {
  constructor(model, root) {
    this.pair = model.get("pair");
    const player = (side) => {
      const node = html("div");
      return new Player(sideOf(model, side), node);
    };
    this.players = [player("first"), player("second")];
    const speeds = [1, 5, 20, 60, 200].map((speed) => [speed, `${speed} steps/s`]);
    this.bar = new Playback("Playback of both", "Moment of both runs", "Speed, steps per second", speeds, (to) => this.moveTo(to(this.at)), () => this.toggle());
    put(this.bar.slider, "max", this.pair.ticks.length - 1);
    this.bar.speed.value = 20;
    this.said = html("p", { class: "kit-parting" });
    put(this.said, "text", this.pair.sentence);
    const leap = button("Go to where they part", "", () => this.moveTo(this.pair.opening));
    root.replaceChildren(this.said, html("p", { class: "kit-parted", text: this.pair.changes }),
      html("div", { class: "kit-bar" }, this.bar.buttons, this.bar.slider, leap),
      html("div", { class: "kit-sides" }, ...this.players.map((one) => one.root)));
    putAll(root, { ...KEYS_ARE_MINE, class: "kit-player kit-pair", tabindex: 0, role: "region", "aria-label": "Two runs compared" });
    root.addEventListener("keydown", (event) => this.onKey(event), true);
    for (const one of this.players) putAll(one.root, { tabindex: -1 });
    this.moveTo(this.pair.opening);
  }

  moveTo(to) {
    const { ticks } = this.pair;
    this.at = Math.max(0, Math.min(to, ticks.length - 1));
    ticks[this.at].forEach((step, side) => this.players[side].moveTo(Math.max(0, step)));
    this.bar.slider.value = this.at;
    put(this.bar.slider, "aria-valuetext", this.players.map((one, side) => `${side ? "B" : "A"} at step ${one.at}: ${one.run.said[one.at]}`).join(" "));
  }

  toggle() {
    if (this.timer) return this.pause();
    if (this.at >= this.pair.ticks.length - 1) this.moveTo(0);
    this.bar.setPlaying(true);
    let [last, due] = [performance.now(), 0];
    const tick = (now) => {
      due += ((now - last) / 1000) * +this.bar.speed.value;
      last = now;
      const whole = Math.floor(due);
      due -= whole;
      if (whole) this.moveTo(this.at + whole);
      if (this.at >= this.pair.ticks.length - 1) this.pause();
      else this.timer = requestAnimationFrame(tick);
    };
    this.timer = requestAnimationFrame(tick);
  }

  pause() {
    cancelAnimationFrame(this.timer);
    this.timer = 0;
    this.bar.setPlaying(false);
  }

  onKey(event) {
    const isControl = /^(INPUT|SELECT|OPTION|BUTTON)$/.test(event.target.tagName) && event.target !== this.bar.slider;
    const moves = { ArrowRight: () => this.at + 1, ArrowLeft: () => this.at - 1, Home: () => 0, End: () => Infinity };
    if (isControl || event.ctrlKey || event.metaKey || event.altKey || !(moves[event.key] || event.key === " ")) return;
    if (event.key === " ") this.toggle();
    else this.moveTo(moves[event.key]());
    event.preventDefault();
    event.stopPropagation();
  }

  close() {
    this.pause();
    for (const one of this.players) one.close();
  }
}

// A model of one side, as a player wants it.
function sideOf(model, side) {
  const state = { frames: model.get(`${side}_frames`), ...model.get(side) };
  return recorded(state, "This run is compared with another one and does not change. Open it in a Player of its own.");
}

export default widget(Pair);
