// The tree that grew from one spout tuple, as kitlib/views/tree.py draws it. Elements are made once and
// then changed; a tree with more tuples than any before it makes more of them.

// The class, fill and stroke of a colour's name, for lines and for words.
function linePaint(edge) {
  return edge === "ink" || edge === "grey" ? { class: `${edge}-line`, stroke: null } : { class: null, stroke: edge };
}

function wordPaint(text, hasHalo = false) {
  if (text !== "ink" && text !== "grey") return { class: null, fill: text, "stroke-width": null, "paint-order": null };
  const halo = hasHalo ? { "stroke-width": 4, "paint-order": "stroke" } : { "stroke-width": null, "paint-order": null };
  return { class: hasHalo ? `${text} paper-line` : text, fill: null, ...halo };
}

class TreePicture {
  constructor(look, hatch) {
    Object.assign(this, { look, hatch, boxes: [], edges: [], heads: [] });
    const { left } = look.geometry;
    this.name = svg("text", { class: "ink", x: left, y: 16, "font-size": 13, "font-weight": "bold", "data-tree": "name" });
    this.summary = svg("text", { class: "ink", x: left, y: 33, "data-tree": "summary" });
    this.headRow = svg("g");
    this.edgeRow = svg("g");
    this.boxRow = svg("g");
    this.node = svg("g", {}, this.name, this.summary, this.headRow, this.edgeRow, this.boxRow);
  }

  // Draw the shown tree after a step; `seen` collects what the legend is to explain.
  draw(forest, step, seen) {
    const tree = forest.shownAt(step);
    const isThere = tree >= 0 && forest.isThere(tree, step);
    put(this.name, "text", tree < 0 ? "No record has been emitted yet." : forest.nameOf(tree));
    put(this.summary, "text", tree < 0 ? "" : isThere ? forest.summaryOf(tree, step) : "not emitted yet");
    const { nodes, box, heads } = tree < 0 ? { nodes: [], box: [0, 0, 0, 0, 0], heads: [] } : forest.trees[tree];
    const codes = isThere ? forest.codesOf(tree, step) : nodes.map(() => ".");
    const [wide, tall, lines, isGrid] = box;
    this.grow(this.heads, heads.length, this.headRow, () => new Head());
    this.heads.forEach((head, index) => head.draw(heads[index], this.look.geometry.top));
    this.grow(this.boxes, nodes.length, this.boxRow, () => new TupleBox(this.look, this.hatch));
    let edges = 0;
    nodes.forEach(([tuple, x, y, isLoose, task, id, ...parents], index) => {
      const code = x < 0 ? "." : codes[index];
      const fault = forest.faults.get(tuple);
      const flag = fault && fault.step <= step ? fault.kind : "";
      const isCurrent = tuple >= 0 && forest.current[step] === tuple;
      const values = tuple < 0 ? "" : forest.values[tuple];
      this.boxes[index].draw({ values, tuple, x, y, isLoose, task, id, wide, tall, lines, code, flag, isCurrent });
      if (code === ".") return;
      if (tuple >= 0 || !isLoose) seen.codes.add(code);
      if (isLoose) seen.loose = true;
      for (const parent of isGrid ? [] : parents) {
        this.grow(this.edges, edges + 1, this.edgeRow, () => new Edge(this.look));
        this.edges[edges++].draw(nodes[parent], { x, y, wide, lines, isLoose, code });
      }
    });
    for (const extra of this.boxes.slice(nodes.length)) show(extra.node, false);
    for (const extra of this.edges.slice(edges)) show(extra.node, false);
  }

  grow(parts, count, row, make) {
    while (parts.length < count) {
      parts.push(make());
      row.append(parts[parts.length - 1].node);
    }
  }
}

// The component above a column of small boxes.
class Head {
  constructor() {
    this.node = svg("text", { class: "grey", "font-size": 11 });
  }

  draw(head, top) {
    show(this.node, head !== undefined);
    if (head) putAll(this.node, { x: head[0], y: top + 9, text: head[1] });
  }
}

// The way of a tuple from where it was sent to its box.
class Edge {
  constructor(look) {
    this.look = look;
    this.node = svg("path", { fill: "none" });
  }

  draw([, fromX, fromY], { x, y, wide, lines, isLoose, code }) {
    const half = Math.floor(wide / 2);
    const [left, right] = [fromX + half, x - half];
    const middle = Math.floor((left + right) / 2);
    show(this.node, true);
    const isOut = code === "P";
    const paint = code === "L" ? linePaint(this.look.byCode.L.edge)
      : isOut ? linePaint(isLoose ? "ink" : this.look.byCode.P.fill) : linePaint("grey");
    putAll(this.node, {
      d: `M${left} ${fromY}C${middle} ${fromY} ${middle} ${y} ${right} ${y}`,
      "stroke-dasharray": isLoose ? "4 3" : null,
      "stroke-width": isOut ? (lines && !isLoose ? 3 : 1.5) : code === "L" ? 1.5 : 1.2,
      ...paint,
    });
  }
}

// The box of one tuple: its task, its id, its sign; a flag with the planted fault that met it.
class TupleBox {
  constructor(look, hatch) {
    Object.assign(this, { look, hatch, drawn: "" });
    this.frame = svg("rect");
    this.rows = [0, 1, 2].map((row) => svg("text", { "font-size": 11, "font-weight": row ? null : "bold" }));
    this.sign = svg("path", { fill: "none", "stroke-width": 2, "stroke-linecap": "round", "stroke-linejoin": "round" });
    this.flag = svg("rect", { rx: 2, height: 14, fill: look.red, stroke: "#000000" });
    this.flagText = svg("text", { "text-anchor": "middle", "font-size": 11, fill: "#000000" });
    this.flagMark = svg("path", { fill: look.red, stroke: "#000000", "stroke-width": 0.5 });
    this.ring = svg("rect", { class: "ink-line", rx: 5, fill: "none", "stroke-width": 2.5 });
    this.tip = svg("title");
    this.node = svg("g", {}, this.tip, this.frame, ...this.rows, this.sign, this.flag, this.flagText, this.flagMark, this.ring);
  }

  draw(told) {
    const key = Object.values(told).join("|");
    if (this.drawn === key) return;
    this.drawn = key;
    const { values, tuple, x, y, isLoose, task, id, wide, tall, lines, code, flag, isCurrent } = told;
    putAll(this.node, { "data-tuple": tuple, "data-code": code });
    show(this.node, code !== ".");
    if (code === ".") return;
    const look = this.look.byCode[code];
    put(this.tip, "text", values ? `${values}: ${look.meaning}` : look.meaning);
    const paint = isLoose ? { ...this.look.loosePaint, ...(code === "L" ? { edge: look.edge } : {}) } : look;
    const fill = !isLoose && look.hatch ? this.hatch : paint.fill;
    const [left, top] = [x - wide / 2, y - tall / 2];
    putAll(this.frame, {
      x: left, y: top, width: wide, height: tall, rx: tuple < 0 && lines ? 9 : 2, fill,
      "stroke-dasharray": paint.dash || null, "stroke-width": fill === "none" || look.hatch ? 1.5 : 1, ...linePaint(paint.edge),
    });
    const words = lines >= 2 ? [task, ...id.split("\n")] : lines ? [task] : [];
    const first = lines >= 2 ? y - 7.5 * words.length + 12 : y + 4;
    const ink = wordPaint(paint.text, look.hatch);
    this.rows.forEach((row, index) => {
      show(row, index < words.length);
      if (index >= words.length) return;
      putAll(row, { text: words[index], x: left + 6, y: first + 15 * index, "font-weight": index || lines < 2 ? null : "bold", ...ink });
    });
    const [signX, signY] = lines >= 2 ? [left + wide - 11, y + tall / 2 - 10] : lines ? [left + wide - 11, y] : [x, y];
    putAll(this.sign, { d: look.sign, transform: `translate(${signX} ${signY})`, ...linePaint(code === "L" ? look.edge : paint.text) });
    this.drawFlag(flag, x + wide / 2, top, lines < 2);
    show(this.ring, isCurrent);
    if (isCurrent) putAll(this.ring, { x: left - 3.5, y: top - 3.5, width: wide + 7, height: tall + 7 });
  }

  drawFlag(kind, right, top, isSmall) {
    for (const part of [this.flag, this.flagText]) show(part, kind !== "" && !isSmall);
    show(this.flagMark, kind !== "" && isSmall);
    const wide = 7 * kind.length + 8;
    putAll(this.flag, { x: right - wide + 6, y: top - 13, width: wide });
    putAll(this.flagText, { x: right + 6 - wide / 2, y: top - 2, text: kind });
    put(this.flagMark, "d", `M${Math.round(right)} ${Math.round(top)}l-8 0l8 8Z`);
  }
}
