// Stands in for the widget's model where there is no kernel: get, set, on, off and send, as anywidget gives them.
// What is sent goes to `onSend`; what comes back is taken, and the player hears of it.

class PageModel extends EventTarget {
  on = this.addEventListener;
  off = this.removeEventListener;

  constructor(state, onSend) {
    super();
    Object.assign(this, { state, send: onSend });
  }

  get(name) {
    return this.state[name];
  }

  set(name, value) {
    this.take({ [name]: value });
  }

  save_changes() {}

  // All changes first, then who listens: a listener may look at several of them.
  take(changes) {
    const changed = Object.keys(changes).filter((name) => this.state[name] !== changes[name]);
    Object.assign(this.state, changes);
    for (const name of changed) this.dispatchEvent(new Event(`change:${name}`));
  }
}

// What the page itself has to say, above all; "" is nothing.
function tell(sentence) {
  const status = document.getElementById("kit-status");
  status.textContent = sentence;
  status.className = "kit-told";
  status.hidden = sentence === "";
}

// The model of a run that is only looked at: whatever is asked is answered by the sentence that says why not.
function recorded(state, sentence) {
  const model = new PageModel({ step: 0, ...state }, ({ number }) =>
    setTimeout(() => model.take({ told: { ...model.get("told"), number, error: sentence } })));
  return model;
}
