// A scene: the picture of a whole run, as kitlib/views/scene.py lays it out. The body is made once; a
// step moves the cursor and the paper over the future, and puts its panel's pieces below. Drawing comes
// as nested lists [tag, attributes, children ...], so nothing is read as markup.

const SCENE_TAGS = new Set(["g", "path", "rect", "text", "tspan", "circle", "title"]);

class SceneStage {
  constructor(look, hatchName, onScrub) {
    Object.assign(this, { hatch: `url(#${hatchName}-scene-hatch)`, made: new Map(), shown: -2 });
    const id = `${hatchName}-scene`;
    this.title = svg("title", { id: `${id}-title` });
    this.description = svg("desc", { id: `${id}-desc` });
    const hatch = svg("pattern", { id: `${id}-hatch`, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
      svg("path", { d: "M0 0V6", stroke: look.red, "stroke-width": 3 }));
    this.pad = svg("rect", { fill: "transparent" });
    this.drawn = svg("g");
    this.body = svg("g", { class: "kit-scrub" }, this.pad, this.drawn);
    this.future = svg("rect", { class: "paper", "pointer-events": "none" });
    this.line = svg("path", { class: "ink-line", "stroke-width": 1.5 });
    this.foot = svg("path", { class: "ink" });
    this.cursor = svg("g", { "data-scene": "cursor" }, this.line, this.foot);
    this.panel = svg("g", { "data-scene": "panel" });
    this.legend = svg("g");
    this.picture = svg("svg", { class: "kit", role: "img", "aria-labelledby": `${id}-title ${id}-desc` },
      this.title, this.description, svg("defs", {}, hatch), this.body, this.future, this.cursor, this.panel, this.legend);
    this.controls = html("div", { class: "kit-lanebar" });
    this.listen(onScrub);
  }

  // Dragging on the picture scrubs: the step is the last one at or left of the pointer.
  listen(onScrub) {
    const scrub = (event) => {
      if (!(event.buttons & 1)) return;
      const box = this.picture.getBoundingClientRect();
      const x = ((event.clientX - box.left) / box.width) * this.scene.width;
      onScrub(Math.max(0, lastUpTo(this.scene.x, x + 1)));
      event.preventDefault();
    };
    this.body.addEventListener("pointerdown", (event) => { this.body.setPointerCapture(event.pointerId); scrub(event); });
    this.body.addEventListener("pointermove", scrub);
  }

  load(scene) {
    this.scene = scene;
    this.made.clear();
    this.shown = -2;
    const { width, height, tall, top, foot, right, dim } = scene;
    put(this.picture, "viewBox", `0 0 ${width} ${tall}`);
    put(this.title, "text", scene.title);
    this.drawn.replaceChildren(this.build(scene.body));
    this.legend.replaceChildren(this.build(scene.legend));
    putAll(this.future, { y: top, height: foot - top, opacity: dim });
    put(this.line, "d", `M0 ${top}V${foot}`);
    put(this.foot, "d", `M0 ${foot}l-5 7h10Z`);
    put(this.panel, "transform", `translate(0 ${height})`);
    putAll(this.pad, { width: right, y: top, height: foot - top });
  }

  // Elements from [tag, attributes, children ...]; what is no drawing is left out.
  build([tag, attributes, ...children]) {
    if (!SCENE_TAGS.has(tag)) return "";
    const kept = Object.entries(attributes).filter(([name]) => !/^on|href/.test(name));
    const known = kept.map(([name, value]) => [name, value === "url(#hatch)" ? this.hatch : value]);
    const inside = children.map((child) => (typeof child === "string" ? document.createTextNode(child) : this.build(child)));
    return svg(tag, Object.fromEntries(known), ...inside);
  }

  draw(step) {
    const { scene } = this;
    const x = step >= 0 ? scene.x[step] : scene.x[0] ?? scene.right;
    const future = step >= 0 ? scene.future[step] : x;
    putAll(this.future, { x: future, width: Math.max(0, scene.right - future) });
    put(this.cursor, "transform", `translate(${x} 0)`);
    const number = step >= 0 ? scene.panelOf[step] : -1;
    if (number === this.shown) return;
    this.shown = number;
    const pieces = number < 0 ? [] : scene.panels[number];
    for (const piece of pieces) if (!this.made.has(piece)) this.made.set(piece, this.build(scene.pieces[piece]));
    this.panel.replaceChildren(...pieces.map((piece) => this.made.get(piece)));
  }

  describe(step, timeline) {
    const words = step >= 0 ? this.scene.words[this.scene.panelOf[step]] : "";
    put(this.description, "text", `After step ${step} of ${timeline.steps - 1}: ${timeline.said[step] ?? ""} ${words}`.trim());
  }
}
