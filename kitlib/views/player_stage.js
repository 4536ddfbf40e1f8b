// A topology's part of the player: which tree is shown, the tree with the acker's ledger beside it, the
// maps below, and what the boxes mean. Made anew only when another run needs other room.

class TreeStage {
  constructor(look, hatchName, onChange) {
    Object.assign(this, { look: readTreeLook(look.tree), onChange, pinned: -1, made: "" });
    const id = `${hatchName}-tree`;
    this.hatch = `url(#${id}-hatch)`;
    this.choice = html("select", { "aria-label": "Which tree is shown" });
    this.choice.addEventListener("change", () => this.pin(+this.choice.value));
    this.chooser = html("div", { class: "kit-chooser" }, html("label", {}, "tree shown: ", this.choice));
    this.title = svg("title", { text: "The tree of tuples, the acker's number and the pending map", id: `${id}-title` });
    this.description = svg("desc", { id: `${id}-desc`, text: "No tree yet." });
    const hatch = svg("pattern", { id: `${id}-hatch`, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
      svg("path", { d: "M0 0V6", stroke: look.red, "stroke-width": 3 }));
    this.parts = svg("g");
    this.picture = svg("svg", { class: "kit", role: "img", "aria-labelledby": `${id}-title ${id}-desc` },
      this.title, this.description, svg("defs", {}, hatch), this.parts);
    this.legend = new TupleLegend(this.look, this.hatch);
  }

  load(data) {
    const forest = (this.forest = new Forest(data, this.look));
    const key = `${forest.bits} ${forest.tall} ${forest.chipRows} ${forest.buckets}`;
    if (this.made !== key) {
      this.made = key;
      this.tree = new TreePicture(this.look, this.hatch);
      this.ledger = new Ledger(this.look, forest.bits);
      this.maps = new BucketMaps(this.look, forest, (tree) => this.pin(tree === this.pinned ? -1 : tree));
      const { top, width } = this.look.geometry;
      put(this.maps.node, "transform", `translate(0 ${top + forest.tall + 10})`);
      this.parts.replaceChildren(this.tree.node, this.ledger.node, this.maps.node);
      const tall = top + forest.tall + 10 + Math.max(this.maps.pending.tall, this.maps.entries.tall);
      put(this.picture, "viewBox", `0 0 ${width} ${tall}`);
    }
    const trees = forest.trees.slice(0, 500).map(({ name: [name, , detail] }, value) => html("option", { value, text: `${name}, ${detail}` }));
    this.choice.replaceChildren(html("option", { value: -1, text: "the one that the step is about" }), ...trees);
    this.pinned = this.pinned < forest.trees.length ? this.pinned : -1;
    this.choice.value = this.pinned;
  }

  // Keep one tree in view, or with -1 follow the steps.
  pin(tree) {
    this.pinned = tree;
    this.choice.value = tree;
    this.onChange();
  }

  draw(step) {
    const { forest } = this;
    forest.pinned = this.pinned;
    const seen = { codes: new Set(), loose: false };
    this.tree.draw(forest, step, seen);
    this.ledger.draw(forest, step);
    this.maps.draw(forest, step);
    this.legend.draw(seen);
  }

  describe() {
    const { name, summary } = this.tree;
    const told = `${name.textContent}. ${summary.textContent}. ${this.ledger.title.textContent}.`;
    put(this.description, "text", told);
    return told;
  }
}

// What the boxes of the tree mean; the meanings that do not occur now are dimmed, never moved.
class TupleLegend {
  constructor(look, hatch) {
    const entry = (swatch, meaning, isSeen) => ({
      isSeen,
      node: html("li", {}, svg("svg", { viewBox: "0 0 26 18", width: 26, height: 18, class: "kit", "aria-hidden": "true" }, ...swatch), html("span", { text: meaning })),
    });
    const frame = (paint) => svg("rect", { x: 2, y: 0.5, width: 22, height: 17, rx: 2, ...paint });
    this.entries = [...look.looks].reverse().map((one) => {
      const sign = svg("path", { d: one.sign, fill: "none", "stroke-width": 2, transform: "translate(13 9)" });
      putAll(sign, linePaint(one.code === "L" ? one.edge : one.text));
      const box = frame({ fill: one.hatch ? hatch : one.fill });
      putAll(box, linePaint(one.edge));
      return entry([box, sign], one.meaning, (seen) => seen.codes.has(one.code));
    });
    const loose = frame({ fill: "none", class: "ink-line", "stroke-dasharray": "4 3" });
    this.entries.push(entry([loose], look.looseMeaning, (seen) => seen.loose));
    this.node = html("ul", { class: "kit-legend", "aria-label": "What the boxes of the tree mean" }, ...this.entries.map((one) => one.node));
  }

  draw(seen) {
    for (const one of this.entries) put(one.node, "class", one.isSeen(seen) ? null : "kit-absent");
  }
}

function readTreeLook(look) {
  return { ...look, byCode: Object.fromEntries(look.looks.map((one) => [one.code, one])) };
}
