// The number that the experiment asks for, what changed against the run that is compared with, and which run that is.

class OutcomeLine {
  constructor(isRun, onAsk) {
    this.figure = html("p", { class: "kit-figure" });
    this.changes = html("p", { class: "kit-changes", role: "status" });
    this.keep = button("Compare with this one", "", () => onAsk("keep"));
    this.drop = button("Drop the comparison", "", () => onAsk("drop"));
    this.node = html("div", { class: "kit-outcome" }, this.figure, this.changes,
      ...(isRun ? [html("div", { class: "kit-compare" }, this.keep, this.drop)] : []));
  }

  draw(outcome) {
    put(this.figure, "text", outcome.figure);
    this.figure.hidden = outcome.figure === "";
    this.changes.replaceChildren(html("span", { text: outcome.lead }), html("b", { text: outcome.changes }));
    this.drop.hidden = !outcome.hasGhost;
  }
}
