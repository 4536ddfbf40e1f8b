// What crosses between a producer and its broker, as kitlib/views/lanes_picture.py draws it: lanes,
// messages as lines, marks with labels. The whole run is laid out already; a step is a window on it.

// Elements of one kind, made as they are needed and then changed.
class Pool {
  constructor(make) {
    Object.assign(this, { make, parts: [], used: 0, node: svg("g") });
  }

  begin() {
    this.used = 0;
  }

  next() {
    if (this.used === this.parts.length) {
      this.parts.push(this.make());
      this.node.append(this.parts[this.used].node);
    }
    const part = this.parts[this.used++];
    show(part.node, true);
    return part;
  }

  end() {
    for (let i = this.used; i < this.parts.length; i++) show(this.parts[i].node, false);
  }
}

// The class, fill and stroke of a sign whose colours may be the page's own.
function signPaint(fill, edge) {
  const isOwn = edge === "ink" || edge === "grey";
  const names = [...(isOwn ? [`${edge}-line`] : []), ...(fill === "paper" ? ["paper"] : [])];
  return { class: names.join(" ") || null, fill: fill === "paper" ? null : fill, stroke: isOwn ? null : edge };
}

function signOf(look) {
  return { d: look.path, "stroke-width": look.thick, "stroke-linejoin": "round", ...signPaint(look.fill, look.edge) };
}

// What the history [steps, values] says after a step.
function valueAfter([steps, values], step, otherwise) {
  const place = lastUpTo(steps, step);
  return place < 0 ? otherwise : values[place];
}

const HALO = { class: "ink paper-line", "stroke-width": 3, "paint-order": "stroke", "stroke-linejoin": "round" };

class LanesPicture {
  constructor(look) {
    this.look = look;
    this.names = new Pool(() => {
      const name = svg("text", { class: "ink", x: look.geometry.left, "font-size": 13, "font-weight": "bold" });
      const line = svg("path", { class: "grey-line", "stroke-width": 1 });
      return { name, line, node: svg("g", {}, name, line) };
    });
    this.axis = svg("path", { class: "grey-line", "stroke-width": 0.7 });
    this.ticks = new Pool(() => {
      const line = svg("path", { class: "grey-line", "stroke-width": 1 });
      const words = svg("text", { class: "grey", "font-size": 11 });
      return { line, words, node: svg("g", {}, line, words) };
    });
    this.now = svg("path", { class: "ink-line", "stroke-width": 1, "stroke-dasharray": "1 3" });
    this.ways = new Pool(() => new WayLine(look));
    this.marks = new Pool(() => new LaneMark(look));
    this.node = svg("g", {}, this.names.node, this.axis, this.ticks.node, this.now, this.ways.node, this.marks.node);
  }

  draw(scene, step, seen) {
    const { sceneLeft, sceneWide, nowAt } = this.look.geometry;
    const now = step >= 0 ? scene.x[step] : 0;
    const from = Math.max(0, now - nowAt);
    const shift = sceneLeft - from;
    const [first, last] = [scene.lanes[0][1], scene.lanes[scene.lanes.length - 1][1]];
    this.names.begin();
    for (const [name, y] of scene.lanes) {
      const lane = this.names.next();
      putAll(lane.name, { text: name, y: y + 4 });
      put(lane.line, "d", `M${sceneLeft} ${y}H${sceneLeft + sceneWide}`);
    }
    this.names.end();
    this.drawTicks(scene, from, now, shift);
    show(this.now, step >= 0);
    put(this.now, "d", `M${now + shift} ${first}V${last}`);
    this.ways.begin();
    for (const way of scene.ways) {
      if (way[4] > step) break; // they are in the order in which they set out
      if (way[2] > from && way[0] < now) this.ways.next().draw(way, from, now, shift, seen);
    }
    this.ways.end();
    this.marks.begin();
    let number = lastUpTo(scene.x, from - 1) + 1;
    for (; number <= step; number++) {
      const mark = scene.marks[number];
      if (!mark) continue;
      seen.add(`mark ${mark[0]}`);
      this.marks.next().draw(mark, scene.x[number] + shift, number === step);
    }
    this.marks.end();
  }

  drawTicks(scene, from, now, shift) {
    const { sceneLeft, sceneWide } = this.look.geometry;
    const [y, right] = [scene.tall - 4, sceneLeft + sceneWide];
    put(this.axis, "d", `M${sceneLeft} ${y - 13}H${right}`);
    this.ticks.begin();
    const begin = lastUpTo(scene.ticks, from - 1, (tick) => tick[0]) + 1;
    for (let i = begin; i < scene.ticks.length && scene.ticks[i][0] <= now; i++) {
      const [x, words] = scene.ticks[i];
      if (x + shift + words.length * this.look.char > right + 20) continue;
      const tick = this.ticks.next();
      put(tick.line, "d", `M${x + shift} ${y - 13}v4`);
      putAll(tick.words, { x: x + shift, y, text: words });
    }
    this.ticks.end();
  }
}

// A message, as far as it has come and as far as the window shows its way.
class WayLine {
  constructor(look) {
    this.look = look;
    this.line = svg("path", { fill: "none" });
    this.arrow = svg("path", { d: look.arrow });
    this.cross = svg("path", signOf(look.byMark.L));
    // Wider than the line, so that it can be pointed at.
    this.hit = svg("path", { fill: "none", stroke: "transparent", "stroke-width": 11, "pointer-events": "stroke" });
    this.node = svg("g", {}, this.hit, this.line, this.arrow, this.cross);
  }

  draw([beginX, beginY, endX, endY, , code, isOpen, hasCross, ref], from, now, shift, seen) {
    const { byWay, markRoom, mostDone } = this.look;
    const isOver = now >= endX && !isOpen;
    const look = byWay[isOver ? code : "P"];
    seen.add(`way ${look.code}`);
    const [wide, tall] = [endX - beginX, endY - beginY];
    const whole = Math.min(1, Math.max(0, (now - beginX) / Math.max(1, wide)));
    let part = isOpen ? Math.min(whole, mostDone) : whole;
    const isLost = isOver && code === "L";
    if (isOver && !isLost) part -= Math.min(0.5, markRoom / Math.max(1, Math.hypot(wide, tall)));
    const [x1, y1] = [beginX + wide * part, beginY + tall * part];
    let [x0, y0] = [beginX, beginY];
    if (x0 < from) {
      y0 += ((y1 - y0) * (from - x0)) / Math.max(1, x1 - x0);
      x0 = from;
    }
    putAll(this.node, { "data-way": look.code, "data-ref": ref || null });
    show(this.node, x1 - x0 >= (part < 1 && !isOver ? 1 : markRoom));
    const at = (x, y) => `${(x + shift).toFixed(1)} ${y.toFixed(1)}`;
    const path = `M${at(x0, y0)}L${at(x1, y1)}`;
    put(this.hit, "d", path);
    putAll(this.line, { d: path, "stroke-width": look.thick, "stroke-dasharray": look.dash || null, ...edgePaint(look.edge) });
    show(this.arrow, !isLost);
    show(this.cross, isLost && hasCross === 1);
    if (isLost && hasCross) {
      put(this.cross, "transform", `translate(${at(x1, y1)})`);
      seen.add("mark L");
    }
    const turn = (Math.atan2(tall, Math.max(1, wide)) * 180) / Math.PI;
    const isOwn = look.edge === "ink" || look.edge === "grey";
    putAll(this.arrow, { transform: `translate(${at(x1, y1)}) rotate(${turn.toFixed(1)})`, class: isOwn ? look.edge : null, fill: isOwn ? null : look.edge });
  }
}

// The sign of a step, a ring around that of the present one, and up to three lines of label.
class LaneMark {
  constructor(look) {
    this.look = look;
    this.sign = svg("path");
    this.tip = svg("title");
    this.ring = svg("circle", { class: "ink-line", r: 10, fill: "none", "stroke-width": 1.8 });
    this.lines = [0, 1, 2].map(() => svg("text", { ...HALO, "text-anchor": "middle", "font-size": 11 }));
    this.node = svg("g", {}, this.tip, this.sign, this.ring, ...this.lines);
  }

  draw([code, y, isAbove, ...words], x, isNow) {
    const look = this.look.byMark[code];
    put(this.node, "data-mark-code", code);
    put(this.tip, "text", look.meaning);
    putAll(this.sign, { ...signOf(look), d: look.long || look.path, transform: `translate(${x} ${y})` });
    show(this.ring, isNow);
    if (isNow) putAll(this.ring, { cx: x, cy: y });
    const { sceneLeft, line } = this.look.geometry;
    const wide = Math.max(0, ...words.map((word) => word.length)) * this.look.char;
    const isShown = x - wide / 2 >= sceneLeft - 4;
    const top = isAbove ? y - 16 - line * (words.length - 1) : y + 22;
    this.lines.forEach((node, index) => {
      const word = words[index];
      show(node, isShown && word !== undefined);
      if (!isShown || word === undefined) return;
      putAll(node, { text: word, x, y: top + line * index, "font-weight": this.look.bold.some((begin) => word.startsWith(begin)) ? "bold" : null });
    });
  }
}
