// A few numbers over the run, with a cursor. Dragging on the curves scrubs.

class Plot {
  constructor(look, onScrub) {
    this.look = look;
    const { plot_left, plot_right } = look.geometry;
    this.rows = [];
    this.rowGroup = svg("g");
    this.cursorLine = svg("path", { class: "ink-line", "stroke-width": 1.5 });
    this.cursorFoot = svg("path", { class: "ink" });
    this.cursor = svg("g", {}, this.cursorLine, this.cursorFoot);
    this.when = svg("text", { class: "ink" });
    this.forkLine = svg("path", { class: "ink-line", "stroke-dasharray": "3 3" });
    this.fork = svg("g", {}, this.forkLine, svg("text", { class: "grey", x: 4, y: -1, "font-size": 11, text: "forked here" }));
    const pad = (this.pad = svg("rect", { class: "kit-scrub", x: plot_left, y: -6, width: plot_right - plot_left, fill: "transparent" }));
    const group = svg("g", { transform: "translate(0 16)" }, this.rowGroup, this.fork, this.cursor, this.when, pad);
    this.title = svg("title");
    this.node = svg("svg", { class: "kit", role: "img" }, this.title, group);
    const scrub = (event) => {
      if (!(event.buttons & 1)) return;
      const box = pad.getBoundingClientRect();
      const part = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
      onScrub(Math.round(part * (this.timeline.steps - 1)));
      event.preventDefault();
    };
    pad.addEventListener("pointerdown", (event) => { pad.setPointerCapture(event.pointerId); scrub(event); });
    pad.addEventListener("pointermove", scrub);
  }

  // A row for each curve that this kind of trace has.
  makeRows(plots) {
    const kind = plots.map(({ name }) => name).join(", ");
    if (this.kind === kind) return;
    this.kind = kind;
    const { plot_left, plot_right, row, rise, width } = this.look.geometry;
    this.rows = plots.map(({ name, meaning, colour }, index) => {
      const curve = {
        value: svg("text", { class: "ink", x: plot_left - 10, y: 12, "text-anchor": "end", "font-weight": "bold" }),
        high: svg("text", { class: "grey", x: 20, y: 27, "font-size": 11 }),
        area: svg("path", { fill: colour, opacity: 0.15 }),
        line: svg("path", { fill: "none", stroke: colour, "stroke-width": 2 }),
      };
      curve.node = svg("g", { transform: `translate(0 ${index * row})` },
        svg("title", { text: `${name}: ${meaning}` }),
        svg("path", { class: "grey-line", "stroke-width": 0.7, d: `M${plot_left} ${rise}H${plot_right}` }),
        curve.area, curve.line, curve.value, curve.high,
        svg("text", { class: "ink", x: 20, y: 12, "font-weight": "bold", text: name }));
      return curve;
    });
    this.rowGroup.replaceChildren(...this.rows.map((curve) => curve.node));
    const bottom = row * plots.length;
    put(this.cursorLine, "d", `M0 -6V${bottom}`);
    put(this.cursorFoot, "d", `M0 ${bottom}l-5 7h10Z`);
    put(this.forkLine, "d", `M0 -6V${bottom}`);
    put(this.when, "y", bottom + 20);
    put(this.pad, "height", bottom + 6);
    put(this.node, "viewBox", `0 0 ${width} ${bottom + 44}`);
    put(this.title, "text", `${kind} over the run`);
  }

  // Take another trace: the curves are ready-made paths.
  load(timeline) {
    this.timeline = timeline;
    this.makeRows(timeline.plots);
    const { plot_left, rise } = this.look.geometry;
    this.rows.forEach((curve, index) => {
      const { path, values } = timeline.plots[index];
      put(curve.line, "d", path);
      put(curve.area, "d", path && `${path}V${rise}H${plot_left}Z`);
      put(curve.high, "text", `highest ${values.reduce((high, value) => Math.max(high, value), 0).toLocaleString("en")}`);
    });
    show(this.fork, timeline.forked_at >= 0);
    put(this.fork, "transform", `translate(${this.xOf(timeline.forked_at)} 0)`);
  }

  xOf(step) {
    const { plot_left, plot_right } = this.look.geometry;
    return plot_left + (plot_right - plot_left) * (this.timeline.steps > 1 ? Math.max(0, step) / (this.timeline.steps - 1) : 0);
  }

  draw(step) {
    const { plot_left, plot_right } = this.look.geometry;
    const x = this.xOf(step);
    put(this.cursor, "transform", `translate(${x} 0)`);
    const anchor = x < plot_left + 90 ? "start" : x > plot_right - 90 ? "end" : "middle";
    const ms = (this.timeline.at_ms[step] ?? 0).toLocaleString("en");
    putAll(this.when, { x, "text-anchor": anchor, text: step < 0 ? "no steps" : `step ${step}, ${ms} ms` });
    this.rows.forEach((curve, index) => {
      const value = this.timeline.plots[index].values[step] ?? 0;
      put(curve.value, "text", value.toLocaleString("en"));
    });
  }
}
