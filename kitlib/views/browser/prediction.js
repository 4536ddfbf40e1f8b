// A question before a run: the form, then the run is played, then how far off the answer was. Until it is answered the
// browser has nothing of the run but the number of its records.

class Asking {
  constructor(model, root) {
    Object.assign(this, { model, root, asked: model.get("asked"), number: 0 });
    const { title, question, kind } = this.asked;
    this.form = FORMS[kind](this.asked);
    this.send = html("button", { type: "submit", class: "kit-button kit-send", text: "That is my prediction" });
    this.error = html("p", { class: "kit-error", role: "alert", hidden: "" });
    this.result = html("p", { class: "kit-result", role: "status", tabindex: -1 });
    this.score = html("p", { class: "kit-score" });
    this.leap = button("Show the result now", "", () => this.player.moveTo(Infinity));
    this.leap.hidden = true;
    this.stage = html("div");
    const form = html("form", {}, html("fieldset", { class: "kit-form" }, html("legend", { text: question }), this.form.node, this.send));
    this.fields = form.firstChild;
    form.addEventListener("submit", (event) => { event.preventDefault(); this.submit(); });
    form.noValidate = true;
    putAll(root, { class: "kit-player kit-predict", role: "region", "aria-label": `Predict: ${question}` });
    root.replaceChildren(html("p", { class: "kit-kicker", text: title ? `Predict · ${title}` : "Predict" }), form, this.error, this.leap, this.result, this.score, this.stage);
    // JupyterLab takes no key from a form.
    root.addEventListener("keydown", (event) => { if (event.target.closest("form")) event.stopPropagation(); });
    this.onTold = () => this.take();
    model.on("change:told", this.onTold);
    if (model.get("told").result) this.take();
  }

  submit() {
    const answer = this.form.answer();
    if (answer === null) return this.complain(this.form.missing);
    this.number = this.model.get("told").number + 1;
    this.send.disabled = this.isAnswering = true;
    this.model.send({ number: this.number, answer });
    this.patience = setTimeout(() => {
      this.send.disabled = false;
      this.complain("The kernel does not answer. Run this cell (Shift+Enter) and answer again.");
    }, 5000);
  }

  complain(sentence) {
    this.error.hidden = sentence === "";
    put(this.error, "text", sentence);
  }

  take() {
    clearTimeout(this.patience);
    const told = this.model.get("told");
    this.send.disabled = false;
    this.complain(told.error);
    if (told.error) return;
    this.fields.disabled = true;
    this.root.dataset.result = "hidden";
    if (!this.model.get("frames").byteLength) return this.reveal(told); // nothing was run, so nothing is played
    const node = html("div");
    const run = { frames: this.model.get("frames"), ...this.model.get("run") };
    this.player?.close();
    this.player = new Player(recorded(run, "This is the run that was predicted. Open it in a Player to change it."), node);
    this.stage.replaceChildren(node);
    this.leap.hidden = false;
    this.keepFocus(this.leap);
    // The result is told when the run has been seen to its end.
    this.player.below.push({ nodes: [], draw: (step) => { if (step >= this.player.last) this.reveal(told); } });
    if (this.player.last <= 0 || matchMedia("(prefers-reduced-motion: reduce)").matches) return this.player.at >= this.player.last ? this.reveal(told) : this.player.moveTo(Infinity);
    // As slow as is shorter than ten seconds.
    const { clock, speed } = this.player.transport;
    const speeds = [...speed.options].map(({ value }) => +value);
    speed.value = speeds.find((each) => clock.length / 100 / each < 10) ?? speeds.at(-1);
    this.player.togglePlay();
  }

  reveal(told) {
    if (this.root.dataset.result === "shown") return;
    this.root.dataset.result = "shown";
    this.leap.hidden = true;
    put(this.result, "text", told.result);
    put(this.result, "class", !told.score ? "kit-result" : told.isRight ? "kit-result kit-right" : "kit-result kit-wrong"); // no score: not known yet
    put(this.score, "text", told.score);
    if (this.isAnswering) this.keepFocus(this.result); // and not when a later cell says what is right
    this.isAnswering = false;
  }

  // What had the focus is disabled or hidden now: it stays in the cell, unless it is elsewhere already.
  keepFocus(node) {
    if (document.activeElement === document.body || this.root.contains(document.activeElement)) node.focus({ preventScroll: true });
  }

  close() {
    clearTimeout(this.patience);
    this.player?.close();
    this.model.off("change:told", this.onTold);
  }
}

// The forms: what to type, choose or move, what is said where nothing was, and the answer; null where there is none yet.
const FORMS = {
  number({ unit }) {
    const input = html("input", { type: "number", step: "any", inputmode: "decimal", "aria-label": `Your prediction, ${unit}` });
    return { node: html("p", {}, input, ` ${unit}`), missing: "Type a number first.", answer: () => (input.value === "" ? null : +input.value) };
  },

  choice({ choices }) {
    const name = newName("choice");
    const inputs = choices.map((value) => html("input", { type: "radio", name, value }));
    const node = html("div", { class: "kit-choices" }, ...inputs.map((input) => html("label", {}, input, html("span", { text: input.value }))));
    return { node, missing: "Choose one of the answers first.", answer: () => inputs.find((input) => input.checked)?.value ?? null };
  },

  // Everything below that offset is claimed.
  commit({ end }) {
    let placed = null;
    const range = html("input", { type: "range", min: 0, max: end, step: 1, value: 0, "aria-label": "Committed offset" });
    const shown = html("output", { class: "kit-value", text: "not placed yet" });
    range.addEventListener("input", () => put(shown, "text", `offset ${(placed = +range.value)}`));
    const node = html("p", { class: "kit-marker" }, html("span", { text: "commit: " }), range, shown);
    return { node, missing: "Move the marker first: all records left of it are committed.", answer: () => placed };
  },
};

export default widget(Asking);
