// What the reader turns and presses. Each control has a label that a screen reader speaks.

// A name that nothing else in the page has. The page itself counts: each player's script is loaded
// anew, so a count of its own would begin at 1 in every player.
function newName(kind) {
  window.kitNames = (window.kitNames ?? 0) + 1;
  return `kit-${kind}-${window.kitNames}`;
}

const ICONS = {
  first: "M4 3V13M13 3L6 8L13 13Z",
  back: "M12 3L5 8L12 13Z",
  play: "M4 2L14 8L4 14Z",
  pause: "M5 3V13M11 3V13",
  forward: "M4 3L11 8L4 13Z",
  last: "M12 3V13M3 3L10 8L3 13Z",
};

function button(label, icon, onPress) {
  const node = html("button", { type: "button", class: "kit-button", title: label, "aria-label": label });
  const path = svg("path", { d: ICONS[icon] ?? "" });
  if (icon) node.append(svg("svg", { viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true" }, path));
  else put(node, "text", label);
  node.addEventListener("click", onPress);
  node.setIcon = (name, text) => { put(path, "d", ICONS[name]); putAll(node, { title: text, "aria-label": text }); };
  return node;
}

const SPEEDS = [[0.25, "¼ speed"], [0.5, "½ speed"], [1, "speed 1"], [2, "speed 2"], [5, "speed 5"]];

// First, back, play, forward, last, the speed, and the axis of the run with its marks.
class Transport {
  constructor(onMove, onPlay) {
    this.play = button("Play", "play", onPlay);
    this.play.classList.add("kit-play");
    const step = (told, icon, to) => button(told, icon, () => onMove(to));
    this.speed = html("select", { class: "kit-speed", "aria-label": "Speed of time" }, ...SPEEDS.map(([value, text]) => html("option", { value, text })));
    this.slider = html("input", { type: "range", min: 0, step: 1, "aria-label": "Step", class: "kit-slider" });
    this.slider.addEventListener("input", () => onMove(() => +this.slider.value));
    this.buttons = html("div", { class: "kit-buttons", role: "group", "aria-label": "Playback" },
      step("First step", "first", () => 0), step("One step back", "back", (at) => at - 1), this.play,
      step("One step forward", "forward", (at) => at + 1), step("Last step", "last", () => Infinity), this.speed);
    this.clock = new PlayTime();
    this.ruler = new Ruler(this.clock, this.slider, onMove);
    this.speed.value = this.clock.isStill ? 0.5 : 1;
  }

  setPlaying(isPlaying) {
    this.play.setIcon(isPlaying ? "pause" : "play", isPlaying ? "Pause" : "Play");
  }

  load(clock, marks) {
    this.clock.load(clock);
    this.ruler.load(clock, marks);
  }

  start(step) {
    this.clock.start(step);
    this.setPlaying(true);
  }

  stop() {
    this.clock.stop();
    this.setPlaying(false);
  }

  // Some milliseconds of play: {step, place, isOver}.
  advance(ms) {
    const reached = this.clock.advance(ms, +this.speed.value);
    this.ruler.show(reached.step, reached.place);
    return reached;
  }

  show(step, steps, sentence) {
    put(this.slider, "max", Math.max(0, steps - 1));
    this.slider.value = Math.max(0, step);
    if (!this.clock.isPlaying) this.ruler.show(Math.max(0, step));
    put(this.slider, "aria-valuetext", `step ${step} of ${steps - 1}: ${sentence}`);
  }
}

// The verdict on the whole run: its sentence, and a button for each anomaly that leads to its first witness.
class VerdictLine {
  constructor(onJump, onShow) {
    this.onJump = onJump;
    const cover = html("div", { class: "kit-cover" }, html("b", { text: "What will happen?" }), " Guess, then play it. ", button("Show the verdict", "", onShow));
    this.sentence = html("p", { class: "kit-sentence" });
    this.reasons = html("div", { class: "kit-reasons" });
    this.chips = html("div", { class: "kit-chips" });
    this.node = html("section", { class: "kit-verdict", "aria-label": "Verdict on the whole run" }, cover, this.chips, this.sentence, this.reasons);
  }

  draw(verdict) {
    put(this.sentence, "text", verdict.sentence);
    this.reasons.replaceChildren(...verdict.anomalies.filter(({ short }) => short).map(({ kind, short, reason }) =>
      html("details", {}, html("summary", { text: `${kind}: ${short}` }), reason)));
    this.chips.replaceChildren(...verdict.anomalies.map((anomaly) => {
      const mark = anomaly.count === 0 ? "" : anomaly.isViolation ? ": violation!" : ", explained";
      const found = `${anomaly.count.toLocaleString("en")} ${anomaly.kind}`;
      const text = found + mark;
      const cls = anomaly.count === 0 ? "kit-chip" : anomaly.isViolation ? "kit-chip kit-bad" : "kit-chip kit-some";
      const words = [found, html("span", { class: anomaly.isViolation ? null : "kit-why", text: mark })];
      if (anomaly.witness === null) return html("span", { class: cls }, ...words);
      const label = `${text}, go to the first one at step ${anomaly.witness}`;
      const chip = html("button", { type: "button", class: cls, title: anomaly.reason || label, "aria-label": label }, ...words);
      chip.addEventListener("click", () => this.onJump(anomaly.witness));
      return chip;
    }));
  }
}
