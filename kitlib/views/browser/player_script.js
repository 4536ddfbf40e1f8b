// Drop it yourself: what was done to this run stands as chips that can be taken away, and the run as a script that can be
// read, edited and run. A deed (kitlib/experiments/script.py) is asked of the kernel, which writes the script's line.

const LATE_MS = 200; // how late a message is delivered; the script's line can say another time
const DEEDS = { lose: "Lose it", delay: `Deliver it ${LATE_MS} ms late`, double: "Send it twice", fail: "Fail it" };
const FROZEN_MS = 2_000; // for how long a process stands still
const ACK_DEEDS = { lose: "Lose its ack", double: "Send its ack twice" };

class ScriptPanel {
  constructor(player) {
    Object.assign(this, { player, text: "", isRun: false });
    const id = newName("script");
    this.done = html("ul", { class: "kit-did", "aria-label": "Done to this run" });
    this.doneRow = html("div", { class: "kit-did-row", hidden: "" }, html("span", { text: "Done to this run:" }), this.done);
    this.summary = html("summary", { ...KEYS_ARE_MINE, text: "Script of this run" });
    this.why = html("p", { class: "kit-script-why", hidden: "" });
    this.field = html("textarea", { ...KEYS_ARE_MINE, id, class: "kit-script-text", rows: 4, spellcheck: "false", autocomplete: "off", "aria-label": "Script of this run" });
    this.run = button("Run this script", "", () => { this.isRun = true; player.ask({ do: "script", text: this.field.value }); });
    this.back = button("Put back", "", () => this.fill());
    this.takes = html("p", { class: "kit-script-takes" });
    this.edit = html("div", {}, this.field, html("div", { class: "kit-script-buttons" }, this.run, this.back), this.takes);
    const details = html("details", { class: "kit-script" }, this.summary, this.why, this.edit);
    this.field.addEventListener("input", () => { this.isRun = false; this.mark(); });
    // Keys that are typed here are the field's: neither the player nor the notebook takes them.
    for (const node of [this.field, this.summary]) node.addEventListener("keydown", (event) => event.stopPropagation());
    this.nodes = [details];
    // What was done to the run stands above the pictures, as a panel of its own.
    this.chips = { nodes: [this.doneRow] };
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
    if (this.isRun || !wasEdited || this.field.value === "") this.fill(); // what is being written stays
    this.isRun = false;
    this.mark();
  }

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
  }
}

// What can be done to a thing: its buttons in the card that tells its life, as far as the experiment's lines take them.
for (const kind of ["request", "answer", "record", "tuple"]) {
  ACTIONS[kind] = [[kind, DEEDS], [`ack of ${kind}`, ACK_DEEDS]].flatMap(([thing, labels]) => Object.entries(labels).map(([verb, label]) => ({
    label, fits: (ref, step, player) => Boolean(formOf(player, `${verb} ${thing} N`)),
    run: (ref, step, player) => askDeed(player, formOf(player, `${verb} ${thing} N`), ref, step),
  })));
}
ACTIONS.process = [
  ...[["break", "Break"], ["freeze", `Freeze for ${FROZEN_MS / 1000} s`], ["kill", "Kill"]].map(([verb, label]) => ({
    label, fits: (ref, step, player) => Boolean(processFormOf(player, verb, ref)),
    run: (ref, step, player) => askDeed(player, processFormOf(player, verb, ref), ref, step),
  })),
  { label: "Mend", fits: (ref, step, player) => isBroken(player, ref), run: (ref, step, player) => askDeed(player, "mend", ref, step) },
];

function formOf(player, begin) {
  const { takes = [], knobs } = player.model.get("heading");
  return knobs.length ? takes.find((form) => form === begin || form.startsWith(`${begin} by `)) : undefined;
}

// A form names its process ("break broker at ..."), or has a word in capitals for any of that sort ("freeze MEMBER at ...").
const NO_PROCESSES = /^(broker|log|topic|group|network|controller|coordinator|run|monitor|operator|table|zookeeper|database|application|read_\w+)$/;

function processFormOf(player, verb, ref) {
  const { takes = [], knobs } = player.model.get("heading");
  const name = ref.slice("process:".length);
  return knobs.length ? takes.find((form) => {
    if (form.startsWith(`${verb} ${name} at `)) return true;
    const sort = form.match(/^(\w+) ([A-Z]+) at /);
    if (sort?.[1] !== verb || NO_PROCESSES.test(name)) return false;
    return !["BROKER", "PRODUCER"].includes(sort[2]) || name.startsWith(sort[2].toLowerCase());
  }) : undefined;
}

// Whether the script breaks it at all; at which moments it is down, the kernel knows.
function isBroken(player, ref) {
  return player.model.get("told").script.done.some((line) => line.startsWith(`break ${ref.slice("process:".length)} at `));
}

function askDeed(player, form, ref, step) {
  player.ask({ do: "deed", form, ref, at: step, ms: form.includes(" by D ms") ? LATE_MS : form.startsWith("freeze ") ? FROZEN_MS : 0 });
}
