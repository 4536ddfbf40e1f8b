// The time axis of a run below its pictures: where its steps lie, the silences that were cut short, and the marks worth
// jumping to. What is where was decided in Python (kitlib/views/play_clock.py, marks.py).

const LABEL_PEN = document.createElement("canvas").getContext("2d"); // knows how wide a label is
const LABEL_GAP = 8; // CSS pixels between two labels, at least
const MOST_MS_A_PICTURE = 100; // a page that slept does not leap

class PlayTime {
  constructor() {
    this.isPlaying = false;
    this.stillness = matchMedia("(prefers-reduced-motion: reduce)");
  }

  load({ places, length }) {
    this.places = sumsOf(places);
    this.length = length;
  }

  get last() {
    return this.places.length - 1;
  }

  // Nothing travels: things are where they come from, or where they arrive.
  get isStill() {
    return this.stillness.matches;
  }

  placeOf(step) {
    return this.places[step] ?? 0;
  }

  stepAt(place) {
    return Math.max(0, lastUpTo(this.places, place));
  }

  // How far along the axis a step lies, 0 to 1.
  share(step) {
    return this.last < 1 ? 0 : this.placeOf(step) / this.places[this.last];
  }

  stepNear(share) {
    const place = share * this.places[this.last];
    const before = this.stepAt(place);
    const isAfter = before < this.last && this.places[before + 1] - place < place - this.places[before];
    return isAfter ? before + 1 : before;
  }

  start(step) {
    this.isPlaying = true;
    this.place = this.placeOf(step);
  }

  stop() {
    this.isPlaying = false;
  }

  // Time passes: the step and the place that are reached, and whether that is the end.
  advance(ms, speed) {
    const seconds = Math.min(ms, MOST_MS_A_PICTURE) / 1000;
    this.place = Math.min(this.length, this.place + 100 * seconds * speed);
    return { step: this.stepAt(this.place), place: this.place, isOver: this.place >= this.length };
  }
}

// The line below the pictures. The slider over it is the one that the keyboard and screen readers use; it is not seen.
class Ruler {
  constructor(clock, slider, onMove) {
    Object.assign(this, { clock, slider, onMove, marks: [], labels: [], breaks: [], shown: -1 });
    this.line = html("div", { class: "kit-line" });
    this.done = html("div", { class: "kit-passed" });
    this.thumb = html("div", { class: "kit-thumb" });
    this.signs = html("div", { class: "kit-signs" });
    this.times = html("div", { class: "kit-times", "aria-hidden": "true" });
    this.pad = html("div", { class: "kit-pad" }, this.line, this.done, this.thumb);
    this.node = html("div", { class: "kit-ruler" }, this.signs, this.slider, this.pad, this.times);
    this.wide = 0;
    this.fit = new ResizeObserver(([{ contentRect: { width } }]) => {
      if (width === this.wide) return;
      LABEL_PEN.font = `11px ${getComputedStyle(this.node).fontFamily}`;
      this.wide = width;
      if (this.clock.places) this.lay(); // it may be seen before its run has come
    });
    this.fit.observe(this.node);
    const scrub = (event) => {
      if (!(event.buttons & 1)) return;
      const box = this.pad.getBoundingClientRect();
      const share = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
      this.onMove(() => this.clock.stepNear(share));
      event.preventDefault();
    };
    this.pad.addEventListener("pointerdown", (event) => { this.pad.setPointerCapture(event.pointerId); this.slider.focus({ preventScroll: true }); scrub(event); });
    this.pad.addEventListener("pointermove", scrub);
  }

  load(clock, marks) {
    Object.assign(this, { marks, labels: clock.labels, breaks: clock.breaks });
    this.steps = [...new Set(marks.flatMap(({ steps }) => steps))].sort((a, b) => a - b);
    this.lay();
  }

  // Put everything to its place.
  lay() {
    const { clock } = this;
    const at = (share) => `left: ${(100 * share).toFixed(2)}%`;
    const sides = this.sides();
    this.signs.replaceChildren(...this.marks.map(({ steps, label, isAlarm }, place) => {
      const [text, share] = [`${label}, step ${steps[0]}`, clock.share(steps[0])];
      const side = sides[place] < 0 ? " kit-leftward" : "";
      const sign = html("button", { type: "button", tabindex: -1, class: `kit-mark${isAlarm ? " kit-alarm" : ""}${side}`, style: at(share), title: `${text}. Keys: [ and ]`, "aria-label": `Go to ${text}` },
        ...(sides[place] ? [html("span", { text: label })] : []));
      sign.addEventListener("click", () => this.onMove(() => steps[0]));
      return sign;
    }));
    const end = clock.places[clock.last] || 1;
    let taken = 0; // up to here by a silence's label
    const fits = (share, half) => share * this.wide - half >= taken && (taken = share * this.wide + half + LABEL_GAP);
    const gaps = this.breaks.map(([from, to, label, isTold]) => html("div", { class: "kit-gap", style: at((from + to) / 2 / end), title: `a silence of ${label}` },
      svg("svg", { viewBox: "-8 -7 16 14", width: 16, height: 14, "aria-hidden": "true" }, svg("path", { d: "M-8 0H-5l2.5 -5l5 10l2.5 -5H8" })), ...(isTold && fits((from + to) / 2 / end, LABEL_PEN.measureText(`+${label}`).width / 2) ? [html("span", { text: `+${label}` })] : [])));
    this.line.replaceChildren(...gaps);
    const near = (share) => this.breaks.some(([from, to]) => Math.abs((from + to) / 2 / end - share) < 0.075);
    let free = 0; // right of the label before
    const hasRoom = ([share, told]) => {
      const long = LABEL_PEN.measureText(told).width, from = share * this.wide - (share < 0.04 ? 0 : share > 0.96 ? long : long / 2);
      if (near(share) || from < free) return false;
      free = from + long + LABEL_GAP;
      return true;
    };
    this.times.replaceChildren(...this.labels.map(([step, told]) => [clock.share(step), told]).filter(hasRoom).map(([share, told]) => {
      const side = share < 0.04 ? "kit-first" : share > 0.96 ? "kit-last" : "";
      return html("span", { class: side, style: at(share), text: told });
    }));
    this.shown = -1;
  }

  // On which side of each mark its label stands, 1 or -1; 0 for one that would meet another label or leave the axis.
  // What alarms is laid first.
  sides() {
    const taken = [], sides = this.marks.map(() => 0);
    const order = [...this.marks.keys()].sort((a, b) => this.marks[b].isAlarm - this.marks[a].isAlarm || a - b);
    for (const place of order) {
      const x = this.clock.share(this.marks[place].steps[0]) * this.wide, long = LABEL_PEN.measureText(this.marks[place].label).width + 1;
      for (const [side, from] of [[1, x - 2], [-1, x + 2 - long]]) {
        if (sides[place] || from < 0 && side < 0 || from + long > this.wide) continue;
        if (taken.some(([begin, end]) => from < end + LABEL_GAP && begin < from + long + LABEL_GAP)) continue;
        taken.push([from, from + long]);
        sides[place] = side;
      }
    }
    return sides;
  }

  show(step, place) {
    const { clock } = this;
    const end = clock.places[clock.last] || 1;
    const share = place === undefined ? clock.share(step) : Math.min(1, place / end);
    if (share === this.shown) return;
    this.shown = share;
    this.thumb.style.left = `${(100 * share).toFixed(2)}%`;
    this.done.style.width = `${(100 * share).toFixed(2)}%`;
  }

  // The next marked step in a direction, or where we are.
  markFrom(step, direction) {
    const found = direction > 0 ? this.steps.find((one) => one > step) : this.steps.findLast((one) => one < step);
    return found ?? step;
  }
}
