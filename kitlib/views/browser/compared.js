// Two players of recorded runs beside each other, moved by one bar: each tick says which step either of them shows.

class Pair {
  constructor(model, root) {
    this.pair = model.get("pair");
    const player = (side) => {
      const node = html("div");
      return new Player(sideOf(model, side), node);
    };
    this.players = [player("first"), player("second")];
    this.bar = new PairBar(this.pair.ticks.length, (to) => this.moveTo(to(this.at)), () => this.toggle());
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
    this.bar.play.setIcon("pause", "Pause");
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
    this.bar.play.setIcon("play", "Play");
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

// First, back, play, forward, last, the speed, and the slider over the moments of both.
class PairBar {
  constructor(count, onMove, onPlay) {
    this.play = button("Play", "play", onPlay);
    const step = (label, icon, to) => button(label, icon, () => onMove(to));
    this.speed = html("select", { class: "kit-speed", "aria-label": SPEED_NAMES.steps }, ...SPEEDS.steps.map(([value, text]) => html("option", { value, text })));
    this.speed.value = 20;
    this.slider = html("input", { type: "range", min: 0, max: count - 1, step: 1, "aria-label": "Moment of both runs", class: "kit-slider" });
    this.slider.addEventListener("input", () => onMove(() => +this.slider.value));
    this.buttons = html("div", { class: "kit-buttons", role: "group", "aria-label": "Playback of both" },
      step("First step", "first", () => 0), step("One step back", "back", (at) => at - 1), this.play,
      step("One step forward", "forward", (at) => at + 1), step("Last step", "last", () => Infinity), this.speed);
  }
}

// A model of one side, as a player wants it.
function sideOf(model, side) {
  const state = { frames: model.get(`${side}_frames`), ...model.get(side) };
  return recorded(state, "This run is compared with another one and does not change. Open it in a Player of its own.");
}

export default widget(Pair);
