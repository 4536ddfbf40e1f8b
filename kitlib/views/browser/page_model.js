// Stands in for the widget's model where there is no kernel: get, set, on, off and send, as anywidget gives them.
// What is sent goes to `onSend`; what comes back is taken, and the player hears of it.

class PageModel {
  constructor(state, onSend) {
    Object.assign(this, { state, onSend, listeners: new Map() });
  }

  get(name) {
    return this.state[name];
  }

  set(name, value) {
    this.take({ [name]: value });
  }

  save_changes() {}

  on(event, listener) {
    if (!this.listeners.has(event)) this.listeners.set(event, new Set());
    this.listeners.get(event).add(listener);
  }

  off(event, listener) {
    this.listeners.get(event)?.delete(listener);
  }

  send(question) {
    this.onSend(question);
  }

  // All changes first, then who listens: a listener may look at several of them.
  take(changes) {
    const changed = Object.keys(changes).filter((name) => this.state[name] !== changes[name]);
    Object.assign(this.state, changes);
    for (const name of changed) for (const listener of this.listeners.get(`change:${name}`) ?? []) listener();
  }
}

// The model of a run that is only looked at: whatever is asked is answered by the sentence that says why not.
function recorded(state, sentence) {
  const model = new PageModel({ step: 0, ...state }, ({ number }) =>
    setTimeout(() => model.take({ told: { ...model.get("told"), number, error: sentence } })));
  return model;
}
