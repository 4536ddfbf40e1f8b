// The spout's pending map and the acker's, as kitlib/views/buckets.py draws them. A click on a box shows its tree.

class BucketMaps {
  constructor(look, forest, onPick) {
    const { left, wide, sideLeft, sideWide, pendingChip } = look.geometry;
    this.pending = new BucketMap(look, forest, { left, wide, chipWide: pendingChip, isSpout: true, labels: look.labels.pending }, onPick);
    this.entries = new BucketMap(look, forest, { left: sideLeft, wide: sideWide, chipWide: forest.ackerChip, isSpout: false, labels: look.labels.entries }, onPick);
    this.node = svg("g", {}, this.pending.node, this.entries.node);
  }

  draw(forest, step) {
    const tree = forest.shownAt(step);
    const { spout, acker } = tree < 0 ? { spout: -1, acker: -1 } : forest.trees[tree];
    show(this.pending.node, spout >= 0);
    show(this.entries.node, acker >= 0);
    if (spout >= 0) {
      const found = forest.pendingAt(spout, step);
      const told = `${countOf(found).toLocaleString("en")} pending, ${forest.endedSoFar(step)}`;
      const chips = found.map((bucket) => bucket.map((one) => [one, `${forest.trees[one].name[1]}: ${forest.countsOf(one, step).open} open`]));
      this.pending.draw(`${forest.tasks[spout]}'s pending map`, told, chips, tree);
    }
    if (acker >= 0) {
      const found = forest.entriesAt(acker, step);
      const count = countOf(found);
      const chips = found.map((bucket) => bucket.map((one) => {
        const [, name, its, , , ...value] = forest.entries[one];
        return [its, `${name}: ${forest.valueAt(value, step, "")}`];
      }));
      this.entries.draw(`${forest.tasks[acker]}'s map`, `${count.toLocaleString("en")} ${count === 1 ? "entry" : "entries"}`, chips, tree);
    }
  }
}

// Entries in all buckets but the last one, which holds what was dropped.
function countOf(buckets) {
  return buckets.slice(0, -1).reduce((sum, bucket) => sum + bucket.length, 0);
}

class BucketMap {
  constructor(look, forest, place, onPick) {
    Object.assign(this, { look, rowCount: forest.chipRows, ...place });
    const { chipTall, chipGap, mapLabel, mapTop } = look.geometry;
    this.across = Math.floor((this.wide + chipGap) / (this.chipWide + chipGap));
    this.name = svg("text", { class: "ink", x: this.left, y: 16, "font-size": 13, "font-weight": "bold" });
    this.told = svg("text", { class: "ink", x: this.left, y: 33 });
    const pitch = mapLabel + this.rowCount * (chipTall + chipGap) + 4;
    const count = forest.buckets[this.isSpout ? 0 : 1];
    this.rows = Array.from({ length: count + 1 }, (_, index) => {
      const y = mapTop + index * pitch;
      const isDropped = index === count;
      const text = this.labels[isDropped ? 3 : index === 0 ? 0 : index === count - 1 ? 2 : 1];
      const down = y + mapLabel + this.rowCount * (chipTall + chipGap);
      const chips = Array.from({ length: this.across * this.rowCount }, (_, slot) => {
        const [row, column] = [Math.floor(slot / this.across), slot % this.across];
        const fill = !this.isSpout ? "none" : isDropped ? look.red : look.flipped;
        return new Chip(this.left + column * (this.chipWide + chipGap), y + mapLabel + row * (chipTall + chipGap), this.chipWide, chipTall, fill, onPick);
      });
      const label = svg("text", { class: "grey", x: this.left, y: y + 11, "font-size": 11, text });
      const line = svg("path", { class: "grey-line", "stroke-width": 0.7, d: isDropped ? "" : `M${this.left} ${down}H${this.left + this.wide}` });
      return { node: svg("g", { "data-bucket": isDropped ? "dropped" : index }, label, line, ...chips.map((chip) => chip.node)), chips, isDropped };
    });
    this.tall = mapTop + (count + 1) * pitch;
    this.node = svg("g", { "data-map": this.isSpout ? "pending" : "entries" }, this.name, this.told, ...this.rows.map((row) => row.node));
  }

  draw(name, told, buckets, tree) {
    put(this.name, "text", name);
    put(this.told, "text", told);
    this.rows.forEach(({ node, chips, isDropped }, index) => {
      const bucket = buckets[index];
      show(node, !isDropped || bucket.length > 0);
      const { kept, more } = chosen(bucket, chips.length, tree);
      chips.forEach((chip, slot) => {
        if (slot < kept.length) chip.draw(...kept[slot], kept[slot][0] === tree);
        else chip.tell(slot === kept.length && more ? `and ${more.toLocaleString("en")} more` : "");
      });
    });
  }
}

// Those that fit, the shown tree's among them, and how many there are besides.
function chosen(chips, room, tree) {
  if (chips.length <= room) return { kept: chips, more: 0 };
  const kept = chips.slice(0, room - 1);
  const mine = chips.find(([one]) => one === tree);
  if (mine && !kept.includes(mine)) kept[kept.length - 1] = mine;
  return { kept, more: chips.length - kept.length };
}

// A small box for one tree.
class Chip {
  constructor(x, y, wide, tall, fill, onPick) {
    Object.assign(this, { wide, tree: -1 });
    const isHollow = fill === "none";
    this.frame = svg("rect", { x, y, width: wide, height: tall - 2, rx: 3, fill, ...(isHollow ? { class: "ink-line" } : { stroke: "#000000" }) });
    this.text = svg("text", { x: x + wide / 2, y: y + 14, "text-anchor": "middle", "font-size": 11, ...(isHollow ? { class: "ink" } : { fill: "#000000" }) });
    this.more = svg("text", { class: "ink", x: x + 4, y: y + 15, "font-size": 11 });
    this.ring = svg("rect", { class: "ink-line", x: x - 2.5, y: y - 2.5, width: wide + 5, height: tall + 3, rx: 5, fill: "none", "stroke-width": 2.5 });
    this.box = svg("g", { class: "kit-pick" }, this.frame, this.text, this.ring);
    this.node = svg("g", {}, this.box, this.more);
    this.box.addEventListener("click", () => onPick(this.tree));
  }

  draw(tree, text, isShown) {
    this.tree = tree;
    const room = Math.floor(this.wide / 7);
    show(this.node, true);
    show(this.box, true);
    put(this.text, "text", text.length > room ? text.slice(0, room - 1) + "…" : text);
    show(this.ring, isShown);
    put(this.more, "text", "");
  }

  // No box: there is nothing here, or a word about what did not fit.
  tell(text) {
    show(this.node, text !== "");
    show(this.box, false);
    put(this.more, "text", text);
  }
}
