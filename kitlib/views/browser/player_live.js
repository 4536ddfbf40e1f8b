// The switch between model and real broker, the progress of a real run, and whether the two agree.

class LivePanel {
  constructor(model) {
    this.model = model;
    const choice = (label, what) => button(label, "", ({ currentTarget: node }) => node.ariaPressed !== "true" && this.say(what));
    [this.onModel, this.onBroker] = [choice("model", "model"), choice("real broker", "real")];
    this.stop = button("Cancel", "", () => this.say("cancel"));
    this.bar = html("progress", { "aria-label": "Run on the real broker" });
    this.elapsed = html("span", {});
    this.progress = html("div", { class: "kit-progress" }, this.bar, this.elapsed, this.stop);
    this.told = html("p", { role: "status" });
    this.node = html("div", { class: "kit-live", role: "group", "aria-label": "Where it runs" },
      html("div", { class: "kit-switch" }, this.onModel, this.onBroker), this.progress, this.told);
    this.onLive = () => this.draw();
    model.on("change:live", this.onLive);
    this.draw();
  }

  say(what) {
    this.model.send({ do: what });
  }

  // Where an experiment has nothing real to run on, and in a page without a kernel, there is no switch.
  draw() {
    const { state, doing, elapsed_s: seconds, sentence } = this.model.get("live") || {};
    this.node.hidden = state === undefined;
    if (this.node.hidden) return;
    const isOnBroker = ["running", "agrees", "parts"].includes(state);
    put(this.onModel, "aria-pressed", `${!isOnBroker}`);
    put(this.onBroker, "aria-pressed", `${isOnBroker}`);
    this.progress.hidden = state !== "running";
    put(this.elapsed, "text", `${seconds} s`);
    put(this.told, "text", state === "running" ? doing : sentence);
    put(this.told, "data-live", state);
  }

  close() {
    this.model.off("change:live", this.onLive);
  }
}
