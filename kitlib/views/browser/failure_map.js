// A failure map: the picture that Python drew, with cells that can be chosen by a click, or by the arrow keys and Enter.
// Python escapes what it puts into the picture.

export default {
  render({ model, el }) {
    const picture = html("div", { ...KEYS_ARE_MINE, tabindex: 0, "aria-label": "Failure map. Arrow keys move, Enter opens the run." });
    el.append(picture);
    el.addEventListener("keydown", typeOn, true);
    let column, row;
    const cell = () => picture.querySelector(`[data-cell="${column},${row}"]`);
    const mark = (next) => {
      if (!picture.querySelector(`[data-cell="${next}"]`)) return;
      if (cell()) cell().style.outline = "";
      [column, row] = next;
      cell().style.outline = "2px solid"; // its number stays readable
    };
    const choose = () => {
      model.set("chosen", [column, row, Date.now() % 1e9]);
      model.save_changes();
    };
    const draw = () => {
      picture.innerHTML = model.get("picture");
      mark([column, row]);
    };
    model.on("change:picture", draw);
    picture.addEventListener("click", (event) => {
      const pressed = event.target.closest("[data-cell]");
      if (!pressed) return;
      mark(pressed.dataset.cell.split(",").map(Number));
      choose();
    });
    picture.addEventListener("keydown", (event) => {
      const [right, up] = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key] ?? [0, 0];
      if (!right && !up && event.key !== "Enter") return;
      event.preventDefault();
      if (event.key === "Enter" && cell()) choose();
      mark(cell() ? [column + right, row + up] : [0, 0]);
    });
    draw();
  },
};
