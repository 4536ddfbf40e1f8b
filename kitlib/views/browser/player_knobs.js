// The knobs: the lesson's own beside the picture, all others folded, each with its way back.

// A knob. A slider's positions are the knob's stops: {value, label} pairs made by the kernel, so that
// 64-bit values stay exact and the last stop may be called "unlimited".
class KnobControl {
  constructor(knob, onMove, onLook) {
    Object.assign(this, { knob, stops: [...knob.stops] });
    const id = newName("knob");
    const help = html("div", { class: "kit-unseen", id: `${id}-help`, text: knob.help });
    this.shown = html("output", { for: id, class: "kit-value" });
    if (knob.kind === "bool") this.input = html("input", { type: "checkbox" });
    else if (knob.kind === "choice") this.input = html("select", {}, ...this.stops.map((stop) => html("option", { value: stop.value, text: stop.label })));
    else this.input = html("input", { type: "range", min: 0, max: this.stops.length - 1, step: 1 });
    putAll(this.input, { id, "data-knob": knob.name, "aria-describedby": `${id}-help` });
    const words = knob.name.split(/(?<=_)/).flatMap((word) => [word, html("wbr")]); // long names break at underscores
    const label = html("label", { for: id }, ...words);
    const opening = this.labelOf(knob.value);
    this.back = button(`Put ${knob.name} back to ${opening}`, "", () => { this.set(knob.value); this.input.focus(); onMove(); });
    put(this.back, "text", `\u21ba ${knob.kind === "choice" ? "" : (opening.match(/[\d.,]+/)?.[0] ?? opening)}`.trim());
    this.back.classList.add("kit-back");
    this.node = html("div", { class: "kit-knob" }, html("div", {}, label, this.shown), html("div", {}, this.input, this.back), help);
    for (const event of ["pointerenter", "focusin"]) this.node.addEventListener(event, () => onLook(`${knob.name}: ${knob.help}`));
    this.set(knob.value);
    this.input.addEventListener(knob.isSlow ? "change" : "input", () => { this.tell(); onMove(); });
    if (knob.isSlow) this.input.addEventListener("input", () => this.tell());
  }

  get value() {
    if (this.knob.kind === "bool") return this.input.checked;
    if (this.knob.kind === "choice") return this.input.value;
    return this.stops[+this.input.value].value;
  }

  get isChanged() {
    return this.value !== this.knob.value;
  }

  // A value that was set in Python may lie between two stops; then it becomes one.
  set(value, label = "") {
    if (this.knob.kind === "bool") this.input.checked = value;
    else if (this.knob.kind === "choice") this.input.value = value;
    else this.input.value = this.placeOf(value, label);
    this.tell();
  }

  placeOf(value, label) {
    const known = this.stops.findIndex((stop) => stop.value === value);
    if (known >= 0) return known;
    const after = this.stops.findIndex((stop) => +stop.value > +value);
    const place = after < 0 ? this.stops.length : after;
    this.stops.splice(place, 0, { value, label });
    put(this.input, "max", this.stops.length - 1);
    return place;
  }

  labelOf(value) {
    if (this.knob.kind === "bool") return value ? "yes" : "no";
    return this.stops.find((stop) => stop.value === value)?.label ?? "";
  }

  // Say the value, and mark it when it is another one than the player opened with.
  tell() {
    put(this.node, "data-changed", this.isChanged ? "" : null);
    this.onTell?.();
    if (this.knob.kind === "choice") return;
    const label = this.labelOf(this.value);
    put(this.shown, "text", label);
    if (this.knob.kind !== "bool") put(this.input, "aria-valuetext", label);
  }

  // A knob that shapes a run from its first step cannot change at a fork.
  freeze(isFrozen) {
    this.input.disabled = this.back.disabled = isFrozen;
    put(this.node, "title", isFrozen ? "This cannot change in the middle of a run. Start over to change it." : null);
  }
}

// The front row, what the knob at hand does, and the rest behind "More settings".
class KnobPanel {
  constructor(heading, onMove) {
    const help = html("p", { class: "kit-help", "aria-hidden": "true", text: "Point at a knob to read what it does." });
    const make = (knob) => new KnobControl(knob, onMove, (told) => put(help, "text", told));
    const byName = new Map(heading.knobs.map((knob) => [knob.name, make(knob)]));
    this.knobs = [...byName.values()];
    const front = heading.front.map((name) => byName.get(name));
    const folded = this.knobs.filter((control) => !front.includes(control));
    const row = (controls) => html("div", { class: "kit-knobs" }, ...controls.map(({ node }) => node));
    const summary = html("summary", {});
    this.more = html("details", { class: "kit-more" }, summary, row(folded));
    const tell = () => {
      const changed = folded.filter(({ isChanged }) => isChanged).length;
      put(summary, "text", `More settings (${folded.length}${changed ? `, ${changed} changed` : ""})`);
    };
    for (const control of folded) control.onTell = tell;
    tell();
    this.nodes = [row(front), help, ...(folded.length ? [this.more] : [])];
  }

  freeze(isForked) {
    for (const control of this.knobs) control.freeze(isForked && !control.knob.live);
  }

  set({ values, labels }) {
    for (const control of this.knobs) control.set(values[control.knob.name], labels[control.knob.name]);
  }

  // What is asked for: at a fork only what can change there.
  get values() {
    return Object.fromEntries(this.knobs.filter(({ input }) => !input.disabled).map((control) => [control.knob.name, control.value]));
  }
}
