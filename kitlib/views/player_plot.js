// Commit lag, pending and retries over the run, with a cursor. Dragging on the curves scrubs.

class Plot {
  constructor(look, onScrub) {
    this.look = look;
    const { plot_left, plot_right, row, rise } = look.geometry;
    this.rows = look.curves.map(({ name, meaning, colour }, index) => {
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
    this.bottom = row * look.curves.length;
    this.cursor = svg("g", {},
      svg("path", { class: "ink-line", "stroke-width": 1.5, d: `M0 -6V${this.bottom}` }),
      svg("path", { class: "ink", d: `M0 ${this.bottom}l-5 7h10Z` }));
    this.when = svg("text", { class: "ink", y: this.bottom + 20 });
    this.fork = svg("g", {},
      svg("path", { class: "ink-line", "stroke-dasharray": "3 3", d: `M0 -6V${this.bottom}` }),
      svg("text", { class: "grey", x: 4, y: -1, "font-size": 11, text: "forked here" }));
    const pad = svg("rect", { class: "kit-scrub", x: plot_left, y: -6, width: plot_right - plot_left, height: this.bottom + 6, fill: "transparent" });
    const group = svg("g", { transform: "translate(0 16)" }, ...this.rows.map((curve) => curve.node), this.fork, this.cursor, this.when, pad);
    this.title = svg("title", { text: "Commit lag, pending and retries over the run" });
    this.node = svg("svg", { class: "kit", role: "img", viewBox: `0 0 ${look.geometry.width} ${this.bottom + 44}` }, this.title, group);
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

  // Take another trace: the curves are ready-made paths.
  load(timeline) {
    this.timeline = timeline;
    const { plot_left, plot_right, rise } = this.look.geometry;
    this.rows.forEach((curve, index) => {
      const path = timeline.curves[index];
      put(curve.line, "d", path);
      put(curve.area, "d", path && `${path}V${rise}H${plot_left}Z`);
      const values = timeline[this.look.curves[index].attribute];
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
      const value = this.timeline[this.look.curves[index].attribute][step] ?? 0;
      put(curve.value, "text", value.toLocaleString("en"));
    });
  }
}
