// What the acker did last with the shown tree's number, bit by bit, as kitlib/views/ledger.py draws it.

class Ledger {
  constructor(look, bits) {
    Object.assign(this, { look, bits });
    const { sideLeft, bitsTop } = look.geometry;
    this.name = svg("text", { class: "ink", y: 16, "font-size": 13, "font-weight": "bold" });
    this.title = svg("text", { class: "ink", y: 33, "data-ledger": "title" });
    this.numbers = ["before", "message", "after"].map((kind, index) => new BitNumber(look, bits, kind, index));
    this.bar = svg("rect", { rx: 3 });
    this.lines = Array.from({ length: 9 }, () => svg("text"));
    this.linesTop = bitsTop + (bits > 16 ? 112 : 3 * look.geometry.bitPitch + 4);
    this.node = svg("g", { transform: `translate(${sideLeft} 0)` },
      this.name, this.title, ...this.numbers.map((number) => number.node), this.bar, ...this.lines);
  }

  draw(forest, step) {
    const tree = forest.shownAt(step);
    show(this.node, tree >= 0);
    if (tree < 0) return;
    const { acker, tracked } = forest.trees[tree];
    put(this.name, "text", `What ${acker >= 0 ? forest.tasks[acker] : "the acker"} knows of it`);
    const row = forest.rowOf(tree, step);
    for (const number of this.numbers) number.draw(row);
    const isNow = row !== null && row.at === step;
    const title = row ? (isNow ? `now: ${row.title}` : `last, step ${row.at}: ${row.title}`)
      : tracked ? "The acker has heard nothing of it yet." : "No acker follows this record.";
    putAll(this.title, { text: title.length > 44 ? title.slice(0, 44) + "…" : title, class: row ? "ink" : "grey", "font-weight": isNow ? "bold" : null });
    this.drawLines(row ? row.lines : []);
  }

  // The sentences; those of a tone stand together on its colour.
  drawLines(told) {
    const { lineTall, sideWide } = this.look.geometry;
    const toned = told.filter(([, tone]) => this.look.tones[tone]);
    show(this.bar, toned.length > 0);
    if (toned.length) {
      const first = told.findIndex(([, tone]) => this.look.tones[tone]);
      putAll(this.bar, {
        x: -4, y: this.linesTop + first * lineTall + 3, width: sideWide + 8, height: toned.length * lineTall + 8, fill: this.look.tones[toned[0][1]][0],
      });
    }
    this.lines.forEach((line, index) => {
      const [text, tone] = told[index] ?? ["", "ink"];
      const paint = this.look.tones[tone];
      putAll(line, {
        text, y: this.linesTop + index * lineTall + (paint ? 18 : 11), "font-size": paint ? 12 : 11,
        class: paint ? null : tone, fill: paint ? paint[1] : null,
      });
    });
  }
}

// One of the three numbers: a row of cells with a digit each, or a square of 64.
class BitNumber {
  constructor(look, bits, kind, index) {
    Object.assign(this, { look, bits, kind });
    const { bitsTop, bitPitch, bitTall, gridCell, sideWide } = look.geometry;
    const isWide = bits > 16;
    const side = 8 * gridCell;
    const left = isWide ? index * (side + 22) : 0;
    const top = isWide ? bitsTop + 14 : bitsTop + index * bitPitch;
    this.label = svg("text", { class: "ink", "font-size": 11, x: left, y: isWide ? top - 4 : top + 10 });
    const cell = isWide ? gridCell : Math.min(30, Math.floor(sideWide / bits));
    this.cells = Array.from({ length: bits }, (_, place) => {
      const [down, across] = isWide ? [Math.floor(place / 8), place % 8] : [0, place];
      const x = left + across * cell;
      const frame = isWide
        ? { x: x + 0.5, y: top + down * cell + 0.5, width: cell - 1, height: cell - 1 }
        : { x: x + 0.5, y: top + 14, width: cell - 1, height: bitTall };
      const digit = isWide ? null : svg("text", { x: x + cell / 2, y: top + 28, "text-anchor": "middle", "font-size": 12 });
      return { frame: svg("rect", frame), digit };
    });
    const sign = isWide && index ? [svg("text", { class: "ink", x: left - 11, y: top + side / 2 + 5, "text-anchor": "middle", "font-size": 14, text: index === 1 ? "⊕" : "=" })] : [];
    this.hex = isWide ? [0, 1].map((line) => svg("text", { class: "ink", "font-size": 11, x: left, y: top + side + 14 + line * 13 })) : [];
    const parts = this.cells.flatMap(({ frame, digit }) => (digit ? [frame, digit] : [frame]));
    this.node = svg("g", { "data-number": kind }, this.label, ...sign, ...parts, ...this.hex);
  }

  draw(row) {
    show(this.node, row !== null);
    if (!row) return;
    const number = row[this.kind];
    const isZero = this.kind === "after" && number !== null && /^0+$/.test(number);
    put(this.label, "text", this.labelOf(number, isZero));
    const digits = bitsOf(number, this.bits);
    put(this.node, "data-bits", digits.trim());
    const flips = bitsOf(row.message, this.bits);
    this.cells.forEach(({ frame, digit }, place) => {
      const bit = digits[place];
      putAll(frame, this.paintOf(bit, isZero, row.isFalse, flips[place] === "1"));
      if (!digit) return;
      const isPaper = bit === "1" && this.kind !== "message";
      putAll(digit, { text: bit.trim(), class: bit === "0" ? "ink" : isPaper ? "paper" : null, fill: bit === "1" && !isPaper ? "#000000" : null });
    });
    const hex = number === null ? (this.kind === "before" ? "no entry" : "none") : number.padStart(16, "0");
    this.hex.forEach((line, index) => put(line, "text", hex.slice(8 * index, 8 * index + 8)));
  }

  labelOf(number, isZero) {
    const isWide = this.bits > 16;
    if (this.kind === "before") return number === null && !isWide ? "before: no entry, counts as 0" : "before";
    if (this.kind === "message") return isWide ? "message" : number === null ? "no number in it" : "⊕ message";
    return `${isWide ? "" : "= "}after${isZero ? ": zero" : number === null ? ": nothing" : ""}`;
  }

  paintOf(bit, isZero, isFalse, isFlipped) {
    const { flipped, red, blue } = this.look;
    if (bit === " ") return { fill: "none", class: "grey-line", stroke: null, "stroke-width": 0.7, "stroke-dasharray": "2 2" };
    const solid = { "stroke-dasharray": null };
    if (this.kind === "message" && bit === "1") return { ...solid, fill: flipped, class: null, stroke: "#000000", "stroke-width": 1 };
    if (isZero) return { ...solid, fill: "none", class: null, stroke: isFalse ? red : blue, "stroke-width": 2 };
    const isMarked = this.kind === "after" && isFlipped;
    const edge = isMarked ? { stroke: flipped, "stroke-width": 2 } : { stroke: null, "stroke-width": 1 };
    const classes = [...(bit === "1" ? ["ink"] : []), ...(isMarked ? [] : ["ink-line"])].join(" ");
    return { ...solid, ...edge, class: classes || null, fill: bit === "1" ? null : "none" };
  }
}

// The digits 0 and 1, the highest first; without a number, as many blanks.
function bitsOf(number, bits) {
  if (number === null) return " ".repeat(bits);
  const digits = [...number].map((digit) => parseInt(digit, 16).toString(2).padStart(4, "0")).join("");
  return digits.padStart(bits, "0").slice(-bits);
}
