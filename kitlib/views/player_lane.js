// One partition as a strip of boxes, below a bar of the whole log where the strip is too short for it.
// The same picture as kitlib/views/partition.py draws; all elements are made once and then changed.

class LaneStrip {
  constructor(look, lane, hatch) {
    Object.assign(this, { look, lane, hatch, geometry: look.geometry });
    const { left, name_y, strip_y, zoom, lane_tall } = this.geometry;
    this.name = svg("text", { class: "ink", x: left, y: name_y, "font-size": 13, "font-weight": "bold" });
    this.summary = svg("text", { class: "ink", x: left, y: name_y + 17 });
    this.bar = new LogBar(look, hatch);
    this.boxes = [];
    this.row = svg("g");
    this.marks = ["emitted", "committed", "start", "end"].map((kind) => new Mark(look, kind));
    this.strip = svg("g", {}, this.row, ...this.marks.map((mark) => mark.node));
    this.node = svg("g", {}, this.name, this.summary, this.bar.node, this.strip);
    this.measure = (hasBar) => {
      put(this.strip, "transform", `translate(0 ${strip_y + (hasBar ? zoom : 0)})`);
      return lane_tall + (hasBar ? zoom : 0);
    };
  }

  // A short log has more and narrower boxes than a long one.
  makeBoxes(count) {
    if (this.boxes.length === count) return;
    this.boxes = Array.from({ length: count }, (_, index) => new Box(this.look, index, this.geometry.strip / count, this.hatch));
    this.row.replaceChildren(...this.boxes.map((box) => box.node));
  }

  // Draw the lane at `top` and return its height; `seen` collects the codes and badges that occur.
  draw(timeline, top, seen) {
    const { ranks, badges, looks } = this.look;
    const places = timeline.placesOf(this.lane);
    const flags = timeline.flags[this.lane];
    const length = Math.max(0, Math.min(places.logEnd - places.base, flags.length));
    const found = new Uint8Array(length); // each offset's place in `looks`
    const counts = new Uint32Array(looks.length);
    let badgesSeen = 0;
    for (let i = 0; i < length; i++) {
      const offset = places.base + i;
      const rank = ranks[flags[i] | (offset < places.start) << 8 | (offset < places.committed) << 9 | (offset < places.emitted) << 10];
      found[i] = rank;
      counts[rank] += 1;
      badgesSeen |= 1 << badges[flags[i]];
    }
    looks.forEach((look, rank) => counts[rank] && seen.codes.add(look.code));
    seen.badges |= badgesSeen;
    put(this.node, "transform", `translate(0 ${top})`);
    put(this.name, "text", places.name.length > 48 ? places.name.slice(0, 48) + "…" : places.name);
    const told = looks.flatMap((look, rank) => (look.code !== "." && counts[rank] ? [`${counts[rank].toLocaleString("en")} ${look.name}`] : []));
    put(this.summary, "text", told.reverse().join(", ") || "the log is empty");
    const hasBar = places.end - places.base > places.boxes;
    const height = this.measure(hasBar);
    show(this.bar.node, hasBar);
    if (hasBar) this.bar.draw(places, found, flags);
    const current = timeline.currentOf(this.lane);
    this.makeBoxes(places.boxes);
    this.boxes.forEach((box, index) => {
      const at = places.window - places.base + index;
      const offset = places.window + index;
      box.draw(at < length ? looks[found[at]].code : "", offset, at < length ? +badges[flags[at]] : 0, offset === current);
    });
    const positions = { emitted: places.emitted, committed: places.committed, start: places.start, end: places.logEnd };
    for (const mark of this.marks) mark.draw(positions[mark.kind], places);
    return height;
  }
}

// The box of one record.
class Box {
  constructor(look, index, width, hatch) {
    Object.assign(this, { look, width, hatch, drawn: "" });
    const { tall, left } = look.geometry;
    this.middle = Math.floor(width / 2);
    const middle = { x: this.middle, "text-anchor": "middle" };
    this.dot = svg("circle", { class: "grey", cx: this.middle, cy: tall / 2, r: 2 });
    this.frame = svg("rect", { x: 1, y: 0, width: width - 2, height: tall });
    this.digits = svg("text", { ...middle, y: 13 });
    this.longDigits = svg("text", { class: "grey", x: 1, y: tall + 11, "font-size": 11 });
    this.shape = svg("path", { "stroke-width": 3 });
    this.letter = svg("text", { ...middle, y: 30, "font-size": 15, "font-weight": "bold" });
    this.band = svg("rect", { x: 1, y: tall - 14, width: width - 2, height: 14, stroke: "#000000" });
    this.bandText = svg("text", { ...middle, y: tall - 3, "font-size": 11, fill: "#000000" });
    this.ring = svg("rect", { class: "ink-line", x: -1, y: -3, width: width + 2, height: tall + 6, rx: 3, fill: "none", "stroke-width": 2.5 });
    this.node = svg("g", { transform: `translate(${left + index * width} 0)` },
      this.dot, this.frame, this.digits, this.longDigits, this.shape, this.letter, this.band, this.bandText, this.ring);
  }

  draw(code, offset, badge, isCurrent) {
    const key = `${code} ${offset} ${badge} ${isCurrent}`;
    if (this.drawn === key) return;
    this.drawn = key;
    put(this.node, "data-offset", offset);
    put(this.node, "data-code", code);
    show(this.node, code !== "");
    if (code === "") return;
    const look = this.look.byCode[code];
    const isDot = look.shape === "dot";
    const digits = String(offset);
    show(this.dot, isDot);
    show(this.frame, !isDot);
    const fits = digits.length * 7 <= this.width;
    show(this.digits, !isDot && fits);
    show(this.longDigits, !isDot && !fits && offset % 5 === 0);
    const isDrawn = look.shape === "cross" || look.shape === "slash";
    show(this.shape, isDrawn);
    show(this.letter, look.shape === "letter");
    show(this.band, badge > 0 && !isDot);
    show(this.bandText, badge > 0 && !isDot);
    show(this.ring, isCurrent && !isDot);
    if (isDot) return;
    paintFrame(this.frame, look, this.hatch);
    put(this.digits, "text", digits);
    put(this.digits, "font-size", digits.length > 2 ? 11 : 12);
    put(this.longDigits, "text", digits);
    putAll(this.digits, textPaint(look));
    if (look.shape === "letter") {
      put(this.letter, "text", code);
      putAll(this.letter, textPaint(look));
    }
    if (isDrawn) {
      const [left, right] = [this.middle - Math.min(7, this.middle - 3), this.middle + Math.min(7, this.middle - 3)];
      const [cross, slash] = [`M${left} 18L${right} 33M${right} 18L${left} 33`, `M${left} 33L${right} 18`];
      put(this.shape, "d", look.shape === "cross" ? cross : slash);
      putAll(this.shape, edgePaint(look.edge));
    }
    if (badge > 0) {
      put(this.band, "fill", this.look.bands[badge].colour);
      put(this.bandText, "text", this.look.bands[badge].text);
    }
  }
}

function paintFrame(frame, look, hatch) {
  putAll(frame, edgePaint(look.edge));
  put(frame, "fill", look.hatch ? hatch : look.fill);
  put(frame, "stroke-dasharray", look.dash || null);
  put(frame, "stroke-width", look.shape === "cross" || look.shape === "slash" || look.hatch ? 1.5 : 1);
}

// One of the four positions: a triangle or a thick line where it is, an arrow when it is out of sight.
class Mark {
  constructor(look, kind) {
    Object.assign(this, { look, kind });
    this.isEnd = kind === "start" || kind === "end";
    const paint = kind === "committed" ? { class: "ink-line", fill: look.blue, "stroke-width": 0.8 } : { class: "ink" };
    this.arrow = svg("path", paint);
    this.line = svg("path", { class: "ink-line", "stroke-width": 3 });
    this.words = svg("text", { class: this.isEnd ? "grey" : "ink" });
    this.node = svg("g", { "data-mark": kind }, this.arrow, this.line, this.words);
  }

  draw(offset, { window, boxes }) {
    const { left, strip, tall, width } = this.look.geometry;
    const index = offset - window;
    const side = index < 0 ? -1 : index > boxes ? 1 : 0;
    const x = side < 0 ? left : side > 0 ? left + strip : left + (index * strip) / boxes;
    put(this.node, "data-x", x);
    if (this.isEnd) this.drawEnd(offset, x, side);
    else {
      const [tip, foot] = this.kind === "emitted" ? [-4, -14] : [tall + 4, tall + 14];
      const middle = (tip + foot) / 2;
      put(this.arrow, "d", side
        ? `M${x + side * 7} ${middle}L${x - side * 3} ${middle - 5}V${middle + 5}Z`
        : `M${x} ${tip}L${x - 6} ${foot}H${x + 6}Z`);
      const isLeft = x < width / 2;
      putAll(this.words, { text: `${this.kind} to ${offset}`, x: x + (isLeft ? 11 : -11), y: middle + 4, "text-anchor": isLeft ? null : "end" });
    }
  }

  drawEnd(offset, x, side) {
    const { left, tall, strip } = this.look.geometry;
    const [right, y] = [left + strip, tall + 34];
    show(this.line, side === 0);
    show(this.arrow, side !== 0);
    if (side === 0) put(this.line, "d", `M${x} -4V${tall + 24}`);
    else put(this.arrow, "d", `M${x + side * 7} ${y - 4}L${x - side * 3} ${y - 9}V${y + 1}Z`);
    // The two labels keep out of each other's way.
    const [at, anchor] = side
      ? side < 0 ? [x + 11, null] : [x - 11, "end"]
      : this.kind === "start"
        ? x < right - 200 ? [x + 4, null] : [Math.min(x - 4, right - 105), "end"]
        : x > left + 200 ? [x - 4, "end"] : [Math.max(x + 4, left + 105), null];
    putAll(this.words, { text: `log ${this.kind} ${offset}`, x: at, y, "text-anchor": anchor });
  }
}
