// The number that the experiment asks for, and what changed against which run.

class OutcomeLine {
  constructor() {
    this.figure = html("p", { class: "kit-figure" });
    this.changes = html("p", { class: "kit-changes", role: "status" });
    this.node = html("div", { class: "kit-outcome" }, this.figure, this.changes);
  }

  draw(outcome) {
    put(this.figure, "text", outcome.figure);
    this.figure.hidden = outcome.figure === "";
    this.changes.replaceChildren(html("span", { text: outcome.lead }), html("b", { text: outcome.changes }));
  }
}
