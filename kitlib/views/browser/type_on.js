// Lets Shift+Enter in the widgets beside this one go on to the next cell.

export default {
  render({ el }) {
    requestAnimationFrame(() => el.parentElement?.addEventListener("keydown", typeOn, true));
  },
};
