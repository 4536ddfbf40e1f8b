// Drop it yourself: what was done to this run stands as chips that can be taken away, and the run as a script that can be
// read, copied, edited and run. A deed (kitlib/experiments/deeds.py) is asked of the kernel, which writes the script's line.

const DEEDS = { lose: "Lose it", delay: "Deliver it late", double: "Send it twice", fail: "Fail it" };
const ACK_DEEDS = { lose: "Lose its ack", double: "Send its ack twice" };
const LATE_MS = 200; // by how much, until the reader says otherwise

class ScriptPanel {
  constructor(player) {
    Object.assign(this, { player, text: "" });
    const id = newName("script");
    this.done = html("ul", { class: "kit-did", "aria-label": "Done to this run" });
    this.doneRow = html("div", { class: "kit-did-row", hidden: "" }, html("span", { text: "Done to this run:" }), this.done);
    this.summary = html("summary", { ...KEYS_ARE_MINE, text: "Script of this run" });
    this.why = html("p", { class: "kit-script-why", hidden: "" });
    this.field = html("textarea", { ...KEYS_ARE_MINE, id, class: "kit-script-text", rows: 4, spellcheck: "false", autocomplete: "off", "aria-label": "Script of this run" });
    this.run = button("Run this script", "", () => player.ask({ do: "script", text: this.field.value }));
    this.copy = button("Copy", "", () => this.copyText());
    this.back = button("Put back", "", () => this.fill());
    this.told = html("span", { class: "kit-mood", role: "status" });
    this.takes = html("p", { class: "kit-script-takes" });
    this.edit = html("div", {}, this.field, html("div", { class: "kit-script-buttons" }, this.run, this.copy, this.back, this.told), this.takes);
    const details = html("details", { class: "kit-script" }, this.summary, this.why, this.edit);
    this.field.addEventListener("input", () => this.mark());
    // Keys that are typed here are the field's: neither the player nor the notebook takes them.
    for (const node of [this.field, this.summary]) node.addEventListener("keydown", (event) => event.stopPropagation());
    this.nodes = [details];
    // What was done to the run stands above the pictures, as a panel of its own.
    this.chips = { nodes: [this.doneRow], load() {}, draw() {}, describe() {} };
  }

  load() {
    const { script } = this.player.model.get("told");
    const { takes = [], knobs } = this.player.model.get("heading");
    this.run.hidden = this.takes.hidden = knobs.length === 0; // a recorded run is read, not run
    const wasEdited = this.field.value !== this.text;
    this.text = script.text;
    this.why.hidden = script.why === "";
    this.edit.hidden = script.text === "";
    put(this.why, "text", script.why);
    put(this.takes, "text", takes.length ? `A line does one thing: ${takes.join("; ")}.` : "This run takes no lines beyond its first: its script has seed and knobs alone.");
    this.doneRow.hidden = script.done.length === 0;
    this.done.replaceChildren(...script.done.map((line) => this.chip(line, knobs.length > 0)));
    if (!wasEdited || this.field.value === "") this.fill();
    this.mark();
  }

  draw() {}

  describe() {}

  chip(line, canChange) {
    if (!canChange) return html("li", {}, html("span", { text: line }));
    const off = button("×", "", () => this.player.ask({ do: "script", text: this.without(line) }));
    putAll(off, { title: "Leave this out, and run again", "aria-label": `Leave out: ${line}` });
    return html("li", {}, html("span", { text: line }), off);
  }

  without(line) {
    return this.text.split("\n").filter((each) => each !== line).join("\n");
  }

  fill() {
    this.field.value = this.text;
    put(this.field, "rows", Math.max(3, Math.min(12, this.text.split("\n").length + 1)));
    this.mark();
  }

  mark() {
    this.back.disabled = this.field.value === this.text;
    put(this.told, "text", "");
  }

  async copyText() {
    try {
      await navigator.clipboard.writeText(this.field.value);
      put(this.told, "text", "Copied.");
    } catch {
      this.field.focus();
      this.field.select();
      put(this.told, "text", "Selected: press Ctrl+C to copy.");
    }
  }
}

// The buttons for a thing: those forms of the experiment's lines that go with its kind.
function deedsOf(takes, kind) {
  const found = [];
  for (const form of takes) {
    const verb = form.slice(0, form.indexOf(" "));
    const rest = form.slice(verb.length + 1);
    if (rest.startsWith(`${kind} N`)) found.push([form, DEEDS[verb]]);
    else if (rest.startsWith(`ack of ${kind} N`)) found.push([form, ACK_DEEDS[verb]]);
  }
  return found.filter(([, label]) => label);
}

function askDeed(player, form, ref, step) {
  const ms = form.includes(" by D ms") ? LATE_MS : 0;
  player.ask({ do: "deed", form, ref, at: step, ms });
}
