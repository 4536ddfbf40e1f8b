// The whole log as a bar: runs of alike records, the two positions, and where the close-up looks.

class LogBar {
  constructor(look, hatch) {
    Object.assign(this, { look, hatch, runs: [], again: [] });
    const { bar_y, bar_tall } = look.geometry;
    this.beam = svg("path", { class: "grey", opacity: 0.13 });
    this.pieces = svg("g");
    this.bracket = svg("rect", { class: "ink-line", y: bar_y - 3, height: bar_tall + 6, rx: 2, fill: "none", "stroke-width": 2 });
    this.emitted = svg("path", { class: "ink" });
    this.committed = svg("path", { class: "ink-line", fill: look.blue, "stroke-width": 0.8 });
    this.labels = svg("g"); // above the bracket, which may cross them
    this.node = svg("g", {}, this.beam, this.pieces, this.bracket, this.labels, this.emitted, this.committed);
  }

  draw(places, ranks, flags) {
    const { left, strip, bar_y, bar_tall, strip_y, zoom, cells } = this.look.geometry;
    const scale = strip / Math.max(1, flags.length);
    const at = (offset) => left + Math.min(Math.max(0, offset - places.base), flags.length) * scale;
    const bottom = bar_y + bar_tall;
    const [from, to] = [at(places.window), at(places.window + places.boxes)];
    put(this.beam, "d", `M${from} ${bottom}L${left} ${strip_y + zoom}H${left + strip}L${to} ${bottom}Z`);
    putAll(this.bracket, { x: from - 1.5, width: to - from + 3 });
    put(this.emitted, "d", `M${at(places.emitted)} ${bar_y - 4}l-4 -6h8Z`);
    put(this.committed, "d", `M${at(places.committed)} ${bottom + 4}l-4 6h8Z`);
    const limit = Math.max(1, Math.floor((cells * ranks.length) / Math.max(1, flags.length)));
    const size = Math.max(1, Math.ceil(ranks.length / limit));
    const runs = runsOf(ranks, size, (rank) => rank);
    runs.forEach(([first, after, rank], index) => {
      this.runs[index] ??= new BarRun(this.look, this.pieces, this.labels, this.hatch);
      this.runs[index].draw(this.look.looks[rank], places.base + first, places.base + after - 1, left + first * scale, (after - first) * scale);
    });
    for (let i = runs.length; i < this.runs.length; i++) this.runs[i].hide();
    const twice = runsOf(flags.subarray(0, ranks.length), size, (value) => (value & this.look.twice ? 0 : 1)).filter((run) => run[2] & this.look.twice);
    twice.forEach(([first, after], index) => {
      this.again[index] ??= this.pieces.parentNode.insertBefore(
        svg("rect", { y: bottom - 5, height: 5, fill: this.look.pink, stroke: "#000000", "stroke-width": 0.5 }), this.bracket);
      show(this.again[index], true);
      putAll(this.again[index], { x: left + first * scale, width: Math.max(3, (after - first) * scale) });
    });
    for (let i = twice.length; i < this.again.length; i++) show(this.again[i], false);
  }
}

// [first index, one after the last, item]: cells of `size` items, each shown by its most alarming one
// (the smallest rank), neighbours of the same rank merged.
function runsOf(items, size, rank) {
  const runs = [];
  let lastRank = -1;
  for (let first = 0; first < items.length; first += size) {
    const after = Math.min(first + size, items.length);
    let worst = items[first];
    for (let i = first + 1; i < after; i++) if (rank(items[i]) < rank(worst)) worst = items[i];
    if (runs.length && lastRank === rank(worst)) runs[runs.length - 1][1] = after;
    else runs.push([first, after, worst]);
    lastRank = rank(worst);
  }
  return runs;
}

// A piece of the bar that stands for several records, with its letter and its range where they fit.
class BarRun {
  constructor(look, pieces, labels, hatch) {
    this.hatch = hatch;
    const { bar_y, bar_tall } = look.geometry;
    this.middle = bar_y + bar_tall / 2;
    this.line = svg("path", { class: "grey-line", "stroke-dasharray": "1 4" });
    this.frame = svg("rect", { y: bar_y, height: bar_tall });
    this.cross = svg("path", { "stroke-width": 1.2 });
    this.words = svg("text", { y: bar_y + 14, "text-anchor": "middle" });
    this.node = svg("g", {}, this.line, this.frame, this.cross);
    pieces.append(this.node);
    labels.append(this.words);
  }

  hide() {
    show(this.node, false);
    show(this.words, false);
  }

  draw(look, first, last, x, width) {
    const isDot = look.shape === "dot";
    const isCross = look.shape === "cross" && width < 14;
    show(this.node, true);
    show(this.line, isDot);
    show(this.frame, !isDot);
    show(this.cross, isCross);
    if (isDot) {
      put(this.line, "d", `M${x} ${this.middle}h${width}`);
      return show(this.words, false);
    }
    putAll(this.frame, { x, width });
    paintFrame(this.frame, look, this.hatch);
    if (isCross) {
      const [side, centre] = [Math.min(width, 10) / 2, x + width / 2];
      put(this.cross, "d", `M${centre - side} ${this.middle - 5}l${2 * side} 10m0 -10l${-2 * side} 10`);
      putAll(this.cross, edgePaint(look.edge));
    }
    const letter = look.shape === "cross" ? "×" : look.shape === "empty" ? "" : look.code;
    const range = first === last ? `${first}` : `${first} to ${last}`;
    const label = width >= 7 * (range.length + 3) ? `${letter} ${range}`.trim() : width >= 14 ? letter : "";
    show(this.words, label !== "");
    putAll(this.words, { text: label, x: x + width / 2, ...textPaint({ ...look, hatch: true }) });
  }
}
