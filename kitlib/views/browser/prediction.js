// A question before a run: the form, then the run is played, then how far off the answer was. Until it is answered the
// browser has nothing of the run but the number of its records.

class Asking {
  constructor(model, root) {
    Object.assign(this, { model, root, asked: model.get("asked"), number: 0 });
    const { title, question, kind } = this.asked;
    const forms = { number: NumberForm, choice: ChoiceForm, commit: CommitForm };
    this.form = new forms[kind](this.asked);
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
    const answer = this.form.answer;
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
    this.player.below.push({ nodes: [], load() {}, describe() {}, draw: (step) => { if (step >= this.player.last) this.reveal(told); } });
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

class NumberForm {
  constructor({ unit }) {
    this.missing = "Type a number first.";
    this.input = html("input", { type: "number", step: "any", inputmode: "decimal", "aria-label": `Your prediction, ${unit}` });
    this.node = html("p", {}, this.input, ` ${unit}`);
  }

  get answer() {
    return this.input.value === "" ? null : +this.input.value;
  }
}

class ChoiceForm {
  constructor({ choices }) {
    this.missing = "Choose one of the answers first.";
    const name = newName("choice");
    this.inputs = choices.map((value) => html("input", { type: "radio", name, value }));
    this.node = html("div", { class: "kit-choices" }, ...this.inputs.map((input) => html("label", {}, input, html("span", { text: input.value }))));
  }

  get answer() {
    return this.inputs.find((input) => input.checked)?.value ?? null;
  }
}

// The log as boxes in lines: a press, a drag or the keyboard says which. One box has the focus; the arrows move it.
class Boxes {
  constructor(count, onPress) {
    this.focused = 0;
    this.boxes = Array.from({ length: count }, (_, offset) => html("button", { type: "button", class: "kit-box", tabindex: offset ? -1 : 0, text: offset, "data-offset": offset }));
    this.node = html("div", { class: "kit-boxes", role: "group" }, ...this.boxes);
    const of = (event) => (event.target.dataset.offset === undefined ? null : +event.target.dataset.offset);
    this.node.addEventListener("pointerdown", (event) => {
      if (of(event) === null) return;
      event.target.releasePointerCapture?.(event.pointerId); // so that a drag meets other boxes
      onPress(of(event), true);
    });
    this.node.addEventListener("pointerover", (event) => { if (event.buttons & 1 && of(event) !== null) onPress(of(event), false); });
    this.node.addEventListener("click", (event) => { if (event.detail === 0 && of(event) !== null) onPress(of(event), true); }); // from the keyboard
    this.node.addEventListener("keydown", (event) => {
      const to = { ArrowRight: this.focused + 1, ArrowLeft: this.focused - 1, Home: 0, End: count - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      put(this.boxes[this.focused], "tabindex", -1);
      this.focused = Math.max(0, Math.min(to, count - 1));
      put(this.boxes[this.focused], "tabindex", 0);
      this.boxes[this.focused].focus();
    });
  }
}

// Where the commit will be: everything left of the marker is claimed.
class CommitForm {
  constructor({ boxes }) {
    this.missing = "Move the marker first: all records left of it are committed.";
    this.range = html("input", { type: "range", min: 0, max: boxes, step: 1, value: 0, "aria-label": "Committed offset" });
    this.shown = html("output", { class: "kit-value" });
    this.log = new Boxes(boxes, (offset) => this.set(offset));
    put(this.log.node, "aria-label", "The log; press the first record that is not committed");
    this.node = html("div", {}, this.log.node, html("p", { class: "kit-marker" }, html("span", { text: "commit: " }), this.range, this.shown));
    this.range.addEventListener("input", () => this.set(+this.range.value));
    put(this.shown, "text", "not placed yet");
    this.answer = null;
  }

  set(offset) {
    this.answer = offset;
    this.range.value = offset;
    put(this.shown, "text", `offset ${offset}`);
    this.log.boxes.forEach((box, place) => put(box, "class", place < offset ? "kit-box kit-done" : place === offset ? "kit-box kit-next" : "kit-box"));
  }
}

export default widget(Asking);
