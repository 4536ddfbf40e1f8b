// All that happened, as a list that one can page through: each step with its time and its sentence. The picture of a long
// run shows what is near the present; here every event is found, and a press on its time goes there.

const PAGE = 60; // events that are in the list at once

class EventList {
  constructor(player, life) {
    Object.assign(this, { player, life, said: [], first: -1, step: -1 });
    this.summary = html("summary", { text: "All events" });
    this.rows = html("ol", { ...KEYS_ARE_MINE, class: "kit-life-rows kit-events", tabindex: 0, "aria-label": "Events of this run" });
    this.earlier = button("Earlier", "", () => this.page(this.first - PAGE));
    this.later = button("Later", "", () => this.page(this.first + PAGE));
    this.here = button("At this step", "", () => this.follow());
    this.where = html("span", { role: "status" });
    const details = html("details", { class: "kit-event-list" }, this.summary, this.rows,
      html("div", { class: "kit-script-buttons" }, this.earlier, this.later, this.here, this.where));
    details.addEventListener("toggle", () => { this.isOpen = details.open; this.follow(); });
    for (const node of [this.summary, this.rows]) node.addEventListener("keydown", (event) => event.stopPropagation());
    this.nodes = [details];
  }

  load({ said }) {
    this.said = said;
    this.first = -1; // the rows are another run's
  }

  draw(step) {
    this.step = step;
    if (this.isOpen) this.follow();
  }

  describe() {}

  // Show the page on which the step is, with the step in sight.
  follow() {
    const { first, step } = this;
    if (!this.isOpen || step < 0) return;
    if (first < 0 || step < first || step >= first + PAGE) this.page(step - (step % PAGE));
    const row = this.rows.children[step - this.first];
    for (const other of this.rows.querySelectorAll("[aria-current]")) if (other !== row) other.removeAttribute("aria-current");
    row.setAttribute("aria-current", "step");
    const [above, below] = [row.offsetTop - this.rows.offsetTop, row.offsetTop - this.rows.offsetTop + row.offsetHeight];
    if (above < this.rows.scrollTop) this.rows.scrollTop = above;
    else if (below > this.rows.scrollTop + this.rows.clientHeight) this.rows.scrollTop = below - this.rows.clientHeight;
  }

  page(from) {
    const { said } = this;
    this.first = Math.max(0, Math.min(from, said.length - 1));
    const shown = said.slice(this.first, this.first + PAGE);
    this.rows.replaceChildren(...shown.map((sentence, place) => {
      const step = this.first + place;
      const at = this.life.lives?.at[step];
      const when = html("button", { type: "button", class: "kit-life-when", text: at === undefined ? `step ${step}` : sayTime(at), title: `Go to step ${step}` });
      when.addEventListener("click", () => this.player.moveTo(step));
      return html("li", step === this.step ? { "aria-current": "step" } : {}, when, html("span", { text: sentence }));
    }));
    this.rows.scrollTop = 0;
    this.earlier.disabled = this.first === 0;
    this.later.disabled = this.first + PAGE >= said.length;
    put(this.where, "text", `events ${this.first} to ${this.first + shown.length - 1} of ${said.length - 1}`);
  }
}
