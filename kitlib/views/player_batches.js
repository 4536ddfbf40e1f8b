// The rows of batches below a producer's lanes (waiting, in flight, remembered by the broker), its log,
// and the stage that puts all of it into one picture. See kitlib/views/lanes_picture.py.

class BatchBox {
  constructor(look, hatch) {
    Object.assign(this, { look, hatch, drawn: "" });
    const { boxWide, boxTall } = look.geometry;
    const middle = { x: boxWide / 2, "text-anchor": "middle", "font-size": 11 };
    this.frame = svg("rect", { x: 0.5, y: 0.5, width: boxWide - 1, height: boxTall - 1, rx: 3 });
    this.again = svg("path", { d: `M${boxWide - 13} 0H${boxWide}V13Z`, fill: look.red, stroke: "#000000", "stroke-linejoin": "round" });
    this.gone = svg("path", { d: `M0 ${boxTall}L${boxWide} 0`, stroke: look.red, "stroke-width": 1.4 });
    this.lines = [svg("text", { ...middle, y: 15 }), svg("text", { ...middle, y: 29 })];
    this.ring = ringAround(boxWide, boxTall);
    this.node = svg("g", {}, this.frame, this.again, this.gone, ...this.lines, this.ring);
  }

  draw(place, [code, ...words], isRinged) {
    const key = [place, code, ...words, isRinged].join("|");
    if (this.drawn === key) return;
    this.drawn = key;
    const look = this.look.byBox[code];
    put(this.node, "transform", `translate(${place * this.look.geometry.boxPitch} ${this.look.geometry.rowTop})`);
    put(this.node, "data-box", code);
    putAll(this.frame, framePaint(look, this.hatch));
    show(this.again, look.flag === "again");
    show(this.gone, look.flag === "cross");
    this.lines.forEach((line, index) => {
      const isBold = index === 0 && this.look.bold.some((begin) => words[index].startsWith(begin));
      putAll(line, { text: words[index], "font-weight": isBold ? "bold" : null, ...(look.flag === "cross" ? HALO : wordPaint(look.text)) });
    });
    show(this.ring, isRinged);
  }
}

function ringAround(wide, tall) {
  return svg("rect", { class: "ink-line", x: -2.5, y: -2.5, width: wide + 5, height: tall + 5, rx: 5, fill: "none", "stroke-width": 2 });
}

function framePaint(look, hatch) {
  return {
    fill: look.hatch ? hatch : look.fill,
    "stroke-width": look.fill === "none" && look.edge !== "grey" ? 1.6 : 1,
    "stroke-dasharray": look.dash || null,
    ...edgePaint(look.edge),
  };
}

// A row's or a log's title, and how many there are.
class Words {
  constructor(x) {
    this.title = svg("tspan", { "font-weight": "bold" });
    this.rest = svg("tspan", { dx: 8 });
    this.node = svg("text", { class: "ink", x, y: 12, "font-size": 12 }, this.title, this.rest);
  }

  draw(title, words) {
    put(this.title, "text", title);
    put(this.rest, "text", words);
  }
}

class BatchRow {
  constructor(look, hatch) {
    this.words = new Words(0);
    this.boxes = new Pool(() => new BatchBox(look, hatch));
    this.none = svg("path", { d: `M0 ${look.geometry.rowTop + look.geometry.boxTall / 2}h40`, class: "grey-line", "stroke-dasharray": "1 4" });
    this.node = svg("g", {}, this.words.node, this.none, this.boxes.node);
  }

  draw(scene, [title, x, y, words, boxes], step, top, seen) {
    put(this.node, "transform", `translate(${x} ${top + y})`);
    this.words.draw(title, valueAfter(words, step, "nothing"));
    const found = valueAfter(boxes, step, []);
    const rings = scene.rings[step] ?? [];
    this.boxes.begin();
    found.forEach((box, place) => {
      seen.add(`box ${scene.boxes[box][0]}`);
      this.boxes.next().draw(place, scene.boxes[box], rings.includes(box));
    });
    this.boxes.end();
    show(this.none, found.length === 0);
  }
}

class RecordBox {
  constructor(look, hatch) {
    Object.assign(this, { look, hatch, drawn: "" });
    const tall = look.geometry.recordTall;
    this.frame = svg("rect", { x: 0.5, y: 0.5, height: tall - 1, rx: 1 });
    this.number = svg("text", { y: 14, "text-anchor": "middle", "font-size": 11 });
    this.band = svg("rect", { x: 0.5, y: tall - 14.5, height: 14, stroke: "#000000" });
    this.flag = svg("text", { y: tall - 3.5, "text-anchor": "middle", "font-size": 11, fill: "#000000" });
    this.sign = svg("path", { fill: "none", "stroke-width": 1.8 });
    this.offset = svg("text", { class: "grey", x: 2, y: tall + 13, "font-size": 11 });
    this.node = svg("g", {}, this.frame, this.number, this.band, this.flag, this.sign, this.offset);
  }

  draw(place, wide, code, record, label) {
    const key = `${place} ${wide} ${code} ${record} ${label}`;
    if (this.drawn === key) return;
    this.drawn = key;
    const look = this.look.byBox[code];
    const { left, recordTall } = this.look.geometry;
    putAll(this.node, { transform: `translate(${left + place * wide} 0)`, "data-record": record, "data-code": code });
    putAll(this.frame, { width: wide - 1, ...framePaint(look, this.hatch) });
    const ink = look.hatch ? { ...HALO, "stroke-width": 4, fill: null } : { ...wordPaint(look.text), "stroke-linejoin": null };
    putAll(this.number, { text: record, x: wide / 2, ...ink });
    show(this.band, look.band !== "");
    putAll(this.band, { width: wide - 1, fill: look.band });
    putAll(this.flag, { text: look.flag, x: wide / 2 });
    show(this.sign, look.sign !== "");
    putAll(this.sign, { d: look.sign, transform: `translate(${wide / 2} ${recordTall - 7.5})`, stroke: look.band ? "#000000" : look.text });
    show(this.offset, label !== "");
    put(this.offset, "text", label);
  }
}

class LogStrip {
  constructor(look, hatch) {
    Object.assign(this, { look, hatch });
    const { left, strip, logTop, logBar, recordTall } = look.geometry;
    this.words = new Words(left);
    this.base = svg("path", { d: `M${left} ${logTop + logBar / 2}h${strip}`, class: "grey-line", "stroke-dasharray": "1 4" });
    this.pieces = new Pool(() => ({ node: svg("rect", { y: logTop, height: logBar, "stroke-width": 0.5 }) }));
    this.bracket = svg("rect", { class: "ink-line", y: logTop - 3, height: logBar + 6, rx: 2, fill: "none", "stroke-width": 1.8 });
    this.bar = svg("g", {}, this.base, this.pieces.node, this.bracket);
    this.none = svg("path", { d: `M${left} ${recordTall / 2}h40`, class: "grey-line", "stroke-dasharray": "1 4" });
    this.records = new Pool(() => new RecordBox(look, hatch));
    this.ring = ringAround(0, recordTall);
    this.row = svg("g", {}, this.none, this.records.node, this.ring);
    this.node = svg("g", {}, this.words.node, this.bar, this.row);
  }

  // Draw one log; its height.
  draw(scene, log, place, step, top, seen) {
    const { left, strip, logTop, logTall, logZoom, logBar } = this.look.geometry;
    put(this.node, "transform", `translate(0 ${top})`);
    this.words.draw(scene.logs.length > 1 ? `The log of ${log.name}` : "The log", valueAfter(log.words, step, "no record yet"));
    const alive = log.segments.filter(([, , , born, died]) => born <= step && (died < 0 || died > step)).sort((a, b) => a[0] - b[0]);
    const [start, from] = [valueAfter(log.start, step, log.base), valueAfter(log.window, step, log.base)];
    put(this.row, "transform", `translate(0 ${logTop + (log.hasBar ? logZoom : 0)})`);
    show(this.bar, log.hasBar === 1);
    this.pieces.begin();
    if (log.hasBar) {
      const scale = strip / Math.max(1, log.end - log.base);
      for (const [first, after, code] of piecesOf(alive, step, start)) {
        const look = this.look.byBox[code];
        const x = (left + (first - log.base) * scale).toFixed(1);
        const width = Math.max(1.5, (after - first) * scale).toFixed(1);
        putAll(this.pieces.next().node, { x, width, fill: look.hatch ? this.hatch : look.fill, ...edgePaint(look.edge) });
      }
      putAll(this.bracket, { x: left + (from - log.base) * scale - 1.5, width: log.boxes * scale + 3 });
    }
    this.pieces.end();
    this.records.begin();
    let labelEnd = -9;
    for (const segment of alive) {
      const [begin, first, last] = segment;
      const after = Math.min(begin + last - first + 1, from + log.boxes);
      for (let offset = Math.max(begin, from); offset < after; offset++) {
        const code = recordCode(segment, step, start, offset);
        seen.add(`box ${code}`);
        const x = left + (offset - from) * log.boxWide;
        const isLabelled = (offset === begin || offset === from) && x >= labelEnd;
        if (isLabelled) labelEnd = x + String(offset).length * this.look.char + 12;
        this.records.next().draw(offset - from, log.boxWide, code, first + offset - begin, isLabelled ? String(offset) : "");
      }
    }
    this.records.end();
    show(this.none, alive.length === 0);
    const spot = scene.spots[step];
    const [low, high] = spot && spot[0] === place ? [Math.max(spot[1], from), Math.min(spot[1] + spot[2], from + log.boxes)] : [0, 0];
    show(this.ring, high > low);
    if (high > low) putAll(this.ring, { transform: `translate(${left + (low - from) * log.boxWide} 0)`, width: (high - low) * log.boxWide + 5 });
    return logTall + (log.hasBar ? logZoom : 0);
  }
}

// The code of one record of a segment, as Segment.code_after of kitlib/views/lanes.py has it.
function recordCode([, , , , , copy, isLate, acked, failed], step, start, offset) {
  if (offset < start) return "G";
  if (copy > 1) return "2";
  if (isLate) return "O";
  if (failed >= 0 && failed <= step) return "I";
  return acked >= 0 && acked <= step ? "A" : "S";
}

// A log in pieces of one look each: [offset, one after the last, code].
function piecesOf(segments, step, start) {
  const pieces = [];
  for (const segment of segments) {
    const [begin, first, last] = segment;
    const after = begin + last - first + 1;
    const middle = Math.min(Math.max(start, begin), after);
    for (const [low, high] of [[begin, middle], [middle, after]]) {
      if (low === high) continue;
      const code = recordCode(segment, step, start, low);
      const before = pieces[pieces.length - 1];
      if (before && before[2] === code && before[1] === low) before[1] = high;
      else pieces.push([low, high, code]);
    }
  }
  return pieces;
}

// The signs, lines and boxes that a run has at one step or another.
function keysOf({ marks, ways, boxes, logs }) {
  const keys = new Set(ways.length ? ["way P"] : []);
  for (const mark of marks) if (mark) keys.add(`mark ${mark[0]}`);
  for (const way of ways) keys.add(`way ${way[5]}`).add(way[7] ? "mark L" : "way P");
  for (const [code] of boxes) keys.add(`box ${code}`);
  for (const { segments, start } of logs) {
    if (start[0].length > 1) keys.add("box G");
    for (const segment of segments) {
      keys.add(`box ${recordCode(segment, Infinity, 0, 0)}`);
      if (segment[5] === 1 && !segment[6]) keys.add("box S");
    }
  }
  return keys;
}

class ProducerStage {
  constructor(look, hatchName) {
    this.look = readLanesLook(look.lanes);
    const id = `${hatchName}-producer`;
    this.hatch = `url(#${id}-hatch)`;
    this.title = svg("title", { id: `${id}-title`, text: this.look.question });
    this.description = svg("desc", { id: `${id}-desc` });
    const hatch = svg("pattern", { id: `${id}-hatch`, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
      svg("path", { d: "M0 0V6", stroke: look.red, "stroke-width": 3 }));
    this.lanes = new LanesPicture(this.look);
    this.rows = new Pool(() => new BatchRow(this.look, this.hatch));
    this.logs = new Pool(() => new LogStrip(this.look, this.hatch));
    this.picture = svg("svg", { class: "kit", role: "img", "aria-labelledby": `${id}-title ${id}-desc` },
      this.title, this.description, svg("defs", {}, hatch), this.lanes.node, this.rows.node, this.logs.node);
    this.legend = new LanesLegend(this.look, this.hatch);
  }

  load(scene) {
    this.scene = scene;
    this.legend.keep(keysOf(scene));
  }

  draw(step) {
    const { scene } = this;
    const seen = new Set();
    this.lanes.draw(scene, step, seen);
    let top = scene.tall + 14;
    this.rows.begin();
    for (const row of scene.rows) this.rows.next().draw(scene, row, step, top, seen);
    this.rows.end();
    top += scene.rowsTall;
    this.logs.begin();
    scene.logs.forEach((log, place) => { top += 4 + this.logs.next().draw(scene, log, place, step, top + 4, seen); });
    this.logs.end();
    put(this.picture, "viewBox", `0 0 ${this.look.geometry.width} ${top}`);
    this.legend.draw(seen);
  }

  describe(step) {
    const told = this.scene.rows.map(([title, , , words]) => `${title.toLowerCase()}: ${valueAfter(words, step, "nothing")}`);
    for (const log of this.scene.logs) told.push(`the log of ${log.name}: ${valueAfter(log.words, step, "no record")}`);
    put(this.description, "text", `After step ${step}, ${told.join("; ")}.`);
  }
}

// What marks, lines and boxes mean, but for those that have a label; what does not occur now is dimmed.
class LanesLegend {
  constructor(look, hatch) {
    const entry = (kind, { code, meaning }, ...swatch) => ({
      key: `${kind} ${code}`,
      node: html("li", {}, svg("svg", { viewBox: "0 0 26 18", width: 26, height: 18, class: "kit", "aria-hidden": "true" }, ...swatch), html("span", { text: meaning })),
    });
    const explained = (kind, looks) => looks.filter(({ code }) => !look.quiet[kind].includes(code));
    this.entries = [
      ...explained("mark", look.marks).map((one) => entry("mark", one, svg("path", { ...signOf(one), transform: "translate(13 9)" }))),
      ...explained("way", look.ways).map((one) => entry("way", one,
        svg("path", { d: "M0 9H26", "stroke-width": one.thick, "stroke-dasharray": one.dash || null, ...edgePaint(one.edge) }))),
      ...explained("box", look.boxes).map((one) => entry("box", one, ...this.boxOf(look, one, hatch))),
    ];
    this.node = html("ul", { class: "kit-legend", "aria-label": "What the signs and boxes mean" });
  }

  boxOf(look, one, hatch) {
    const parts = [svg("rect", { x: 0.5, y: 0.5, width: 25, height: 17, rx: 2, ...framePaint(one, hatch) })];
    if (one.flag === "again") parts.push(svg("path", { d: "M17 0H26V9Z", fill: look.red, stroke: "#000000" }));
    else if (one.flag === "cross") parts.push(svg("path", { d: "M0 18L26 0", stroke: look.red, "stroke-width": 1.4 }));
    else {
      if (one.band) parts.push(svg("rect", { x: 0.5, y: 3.5, width: 25, height: 14, fill: one.band, stroke: "#000000" }));
      if (one.flag) parts.push(svg("text", { x: 13, y: 14.5, "text-anchor": "middle", "font-size": 11, fill: "#000000", text: one.flag }));
      if (one.sign) parts.push(svg("path", { d: one.sign, transform: "translate(13 10.5)", fill: "none", "stroke-width": 1.8, stroke: one.band ? "#000000" : one.text }));
    }
    return parts;
  }

  // Only what occurs in the run at all.
  keep(keys) {
    this.node.replaceChildren(...this.entries.filter(({ key }) => keys.has(key)).map(({ node }) => node));
  }

  draw(seen) {
    for (const one of this.entries) put(one.node, "class", seen.has(one.key) ? null : "kit-absent");
  }
}

function readLanesLook(look) {
  const byCode = (looks) => Object.fromEntries(looks.map((one) => [one.code, one]));
  return { ...look, byMark: byCode(look.marks), byWay: byCode(look.ways), byBox: byCode(look.boxes) };
}
