// Making and changing elements. Text goes in by textContent only, so nothing a record holds is markup.

const SVG_SPACE = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) put(node, name, value);
  for (const child of children) node.append(child);
  return node;
}

function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG_SPACE, tag), attributes, children);
}

// JupyterLab asks the focused element itself whether it may take a key; else its arrow keys move cells.
const KEYS_ARE_MINE = { "data-lm-suppress-shortcuts": "true" };

function html(tag, attributes = {}, ...children) {
  const keys = /^(input|select|button|summary)$/.test(tag) ? KEYS_ARE_MINE : {};
  return fill(document.createElement(tag), { ...keys, ...attributes }, children);
}

// Set an attribute (or the text) only when it differs from what was set last: the page's layout is
// computed anew only for what changed. null takes the attribute away.
function put(node, name, value) {
  const known = (node.kitKnown ??= new Map());
  if (known.get(name) === value) return;
  known.set(name, value);
  if (name === "text") node.textContent = value;
  else if (value === null || value === undefined) node.removeAttribute(name);
  else node.setAttribute(name, value);
}

function show(node, isShown) {
  put(node, "display", isShown ? null : "none");
}

function putAll(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) put(node, name, value);
}

// Shift+Enter goes on to the next cell, and does not run the widget's own again.
function typeOn(event) {
  const cell = event.key === "Enter" && event.shiftKey && event.target.closest(".jp-Cell");
  if (!cell) return;
  event.preventDefault();
  event.stopPropagation();
  cell.focus();
  cell.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowDown", keyCode: 40, bubbles: true }));
}

// Whether Shift+Enter has just run this widget's cell: the next one is active. JupyterLab then shows the widget's foot.
function isJustRun(root) {
  const cell = root.closest(".jp-Cell");
  return cell?.querySelector(".kit-player") === root && cell.nextElementSibling?.classList.contains("jp-mod-active");
}

// A widget that shows one of these in an element of its own, until it is closed.
const widget = (Kind) => ({
  render({ model, el }) {
    const root = html("div");
    el.append(root);
    el.addEventListener("keydown", typeOn, true);
    const shown = new Kind(model, root);
    return () => shown.close();
  },
});
