// A failure map: the picture that Python drew, a slider for the third knob, and cells that can be chosen
// by a click, or by the arrow keys and Enter. Python escapes what it puts into the picture.

export default {
  render({ model, el }) {
    const labels = model.get("labels");
    const picture = document.createElement("div");
    Object.assign(picture, { tabIndex: 0 });
    picture.setAttribute("aria-label", "Failure map. Arrow keys move, Enter opens the run.");
    const slider = Object.assign(document.createElement("input"), { type: "range", min: 0, max: Math.max(0, labels.length - 1), value: model.get("at") });
    const name = document.createElement("span");
    const bar = document.createElement("label");
    bar.append(slider, " ", name);
    bar.style.display = labels.length > 1 ? "" : "none";
    el.append(bar, picture);
    for (const node of [slider, picture]) putAll(node, KEYS_ARE_MINE);
    el.addEventListener("keydown", typeOn, true);
    let marked = null;

    const cellAt = (column, row) => picture.querySelector(`[data-cell="${column},${row}"]`);
    const mark = (cell) => {
      if (!cell) return;
      if (marked) marked.style.outline = "";
      marked = cell;
      marked.style.outline = "2px solid"; // its number stays readable
    };
    const choose = (cell) => {
      mark(cell);
      model.set("chosen", [...cell.dataset.cell.split(",").map(Number), Date.now() % 1e9]);
      model.save_changes();
    };
    const draw = () => {
      const [column, row] = marked ? marked.dataset.cell.split(",") : [];
      picture.innerHTML = model.get("pictures")[model.get("at")];
      name.textContent = labels[model.get("at")] ?? "";
      marked = null;
      if (column) mark(cellAt(column, row));
    };
    slider.addEventListener("input", () => {
      model.set("at", Number(slider.value));
      model.save_changes();
    });
    model.on("change:at", draw);
    model.on("change:pictures", draw);
    picture.addEventListener("click", (event) => {
      const cell = event.target.closest("[data-cell]");
      if (cell) choose(cell);
    });
    picture.addEventListener("keydown", (event) => {
      const [right, up] = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key] ?? [0, 0];
      if (!right && !up && event.key !== "Enter") return;
      event.preventDefault();
      if (event.key === "Enter" && marked) choose(marked);
      const [column, row] = marked ? marked.dataset.cell.split(",").map(Number) : [-right, -up];
      mark(cellAt(column + right, row + up));
    });
    draw();
  },
};
