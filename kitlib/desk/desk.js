// The desk: knobs and buttons that act on running parts, the charts that Python draws, and three lamps.

class DeskPage {
  constructor(model, root) {
    this.model = model;
    const heading = model.get("heading");
    this.panel = new KnobPanel(heading, () => this.turned());
    this.told = html("p", { class: "kit-error", role: "alert" });
    this.picture = html("div", { class: "kit-charts" });
    this.sentence = html("p", { role: "status", "aria-live": "off" });
    this.lamps = model.get("look").lamps.map(({ name }) => html("span", { class: "kit-lamp", text: name }));
    this.happened = html("ol", { class: "kit-happened", "aria-label": "What has happened" });
    const deeds = heading.deeds.map((deed) => this.button(deed, () => this.ask({ ask: "do", deed })));
    this.drain = this.button("drain and compare", () => this.ask({ ask: this.model.get("look").phase === "drained" ? "resume" : "drain" }));
    this.stop = this.button("stop", () => this.ask({ ask: "stop" }));
    this.buttons = [...deeds, this.drain, this.stop];
    root.classList.add("kit-player", "kit-desk");
    root.append(
      html("h3", { text: "The desk" }), ...this.panel.nodes,
      html("div", { class: "kit-actions", role: "group", "aria-label": "Faults and the end" }, ...this.buttons),
      this.told, this.picture,
      html("div", { class: "kit-lamps", role: "group", "aria-label": "Do the three counts agree?" }, ...this.lamps),
      this.sentence, this.happened,
    );
    this.onLook = () => this.draw();
    this.onTold = () => this.follow();
    model.on("change:look", this.onLook);
    model.on("change:told", this.onTold);
    this.follow();
    this.draw();
  }

  button(label, onPress) {
    const node = button(label[0].toUpperCase() + label.slice(1), "", onPress);
    node.dataset.deed = label;
    return node;
  }

  ask(question) {
    put(this.told, "text", "");
    this.told.hidden = true;
    this.model.send(question);
  }

  // Only what differs from what the parts have: a slider that somebody else moves stays theirs.
  turned() {
    const known = this.model.get("told").values;
    const values = Object.fromEntries(Object.entries(this.panel.values).filter(([name, value]) => value !== known[name]));
    if (Object.keys(values).length) this.ask({ ask: "set", values });
  }

  follow() {
    const told = this.model.get("told");
    this.panel.set(told);
    put(this.told, "text", told.error);
    this.told.hidden = !told.error;
  }

  draw() {
    const { phase, picture, sentence, lamps, happened } = this.model.get("look");
    const drawn = new DOMParser().parseFromString(picture, "image/svg+xml").documentElement;
    this.picture.replaceChildren(document.importNode(drawn, true));
    put(this.sentence, "text", sentence);
    lamps.forEach(({ name, state, sentence: said }, place) => {
      const lamp = { dark: "off", agrees: "agrees", differs: "parts", unknown: "unknown" }[state];
      putAll(this.lamps[place], { "data-lamp": lamp, title: said || `${name}: nothing was compared yet` });
    });
    this.happened.replaceChildren(...happened.map((text) => html("li", { text })));
    put(this.drain, "text", phase === "drained" ? "Go on" : phase === "draining" ? "Draining" : "Drain and compare");
    const isOver = phase === "stopped", isBusy = ["new", "starting", "draining"].includes(phase);
    for (const node of this.buttons) node.disabled = isOver || (isBusy && node !== this.stop);
    this.panel.freeze(false);
    for (const { input, back } of this.panel.knobs) input.disabled = back.disabled = isOver;
  }

  close() {
    this.model.off("change:look", this.onLook);
    this.model.off("change:told", this.onTold);
  }
}

export default widget(DeskPage);
