// All experiments in one page. The first picture of each is a recording; Python loads beside it, and then its knobs are live.

import player from "./player.js";

const CATALOG = JSON.parse(document.getElementById("kit-catalog").textContent);
const GROUPS = CATALOG.groups;
const ALL = GROUPS.flatMap(({ experiments }) => experiments);
const LIST = document.getElementById("kit-list");
const STAGE = document.getElementById("kit-place");
const FOUND = document.getElementById("kit-found");
const SEARCH = document.getElementById("kit-search");

// Python in a web worker: how far it is, and one answer for each question.
class Engine {
  constructor() {
    this.waiting = new Map();
    this.count = 0;
    this.state = "loading";
    this.worker = new Worker("worker.js", { type: "module" });
    this.worker.onmessage = ({ data }) => this.take(data);
    this.worker.onerror = (event) => this.fail(event.message || "its script could not be fetched");
    this.worker.postMessage({ do: "load", bytes: CATALOG.bytes });
    this.show(0);
  }

  take(data) {
    const asked = this.waiting.get(data.id);
    if (data.kind === "progress") this.show(data.part);
    else if (data.kind === "ready") this.show(1, "live");
    else if (data.kind === "failed") this.fail(data.reason);
    else if (data.kind === "refused") asked?.refuse(data.sentence);
    else asked?.answer(data);
    this.waiting.delete(data.id);
  }

  fail(reason) {
    this.show(0, "failed");
    this.reason = `Python could not be loaded into this page (${reason}). The recorded runs can still be played; reload the page to try again.`;
    tell(this.reason);
    for (const { refuse } of this.waiting.values()) refuse(this.reason);
    this.waiting.clear();
  }

  show(part, state = "loading") {
    if (this.state !== "failed") this.state = state;
    const words = { loading: "Python is loading", live: "live: knobs run in this browser", failed: "recordings only" };
    document.getElementById("kit-lamp").dataset.state = this.state;
    document.getElementById("kit-lamp-text").textContent = words[this.state];
    const bar = document.getElementById("kit-loaded");
    bar.hidden = this.state !== "loading";
    bar.value = part;
  }

  // The answer to a message.
  call(message) {
    if (this.state === "failed") return Promise.reject(this.reason);
    const id = ++this.count;
    return new Promise((answer, refuse) => {
      this.waiting.set(id, { answer, refuse });
      this.worker.postMessage({ ...message, id });
    });
  }
}

// "#poison_record?records=60&seed=3" as its parts; "#script=..." as the text of a script, whose first line names the experiment.
function readAddress() {
  const script = new URLSearchParams(location.hash.slice(1)).get("script");
  if (script) return { name: script.split("\n").find((line) => /^\s*[^#\s]/.test(line))?.trim().split(/\s/)[0] ?? "", script, isDefault: false };
  const [name, settings = ""] = location.hash.slice(1).split("?");
  const knobs = Object.fromEntries(new URLSearchParams(settings));
  const seed = knobs.seed ?? "1";
  delete knobs.seed;
  return { name, seed, knobs, isDefault: settings === "" };
}

// The recording of an experiment's default run: a line of JSON, then the bytes of its pictures.
async function fetchRecording(name) {
  const answer = await fetch(`runs/${name}.run`);
  if (!answer.ok) throw new Error(`${answer.status} at ${answer.url}`);
  const bytes = new Uint8Array(await new Response(answer.body.pipeThrough(new DecompressionStream("gzip"))).arrayBuffer());
  const end = bytes.indexOf(10);
  return { ...JSON.parse(new TextDecoder().decode(bytes.subarray(0, end))), frames: bytes.subarray(end + 1) };
}

// One experiment: its recording at once, and its run in Python as soon as that is there.
class Stage {
  constructor(engine) {
    Object.assign(this, { engine, visit: 0, close: () => {} });
  }

  async open({ isDefault, ...asked }) {
    const { name } = asked;
    const visit = this.leave();
    this.name = name;
    const experiment = ALL.find((one) => one.name === name);
    document.title = `${experiment.title} - Delivery Lab`;
    const place = ALL.indexOf(experiment);
    const link = (one, text) => (one ? [html("a", { href: `#${one.name}`, title: one.title }, text)] : []);
    this.root = html("div");
    this.command = html("code");
    STAGE.replaceChildren(
      html("nav", { "aria-label": "Experiments" }, html("a", { href: "#" }, "All experiments"), ...link(ALL[place - 1], "Previous"), ...link(ALL[place + 1], "Next")),
      this.root, html("p", { class: "kit-note" }, "The same run in a terminal: ", this.command));
    const opened = this.engine.call({ do: "open", ...asked });
    opened.catch(() => {}); // told below
    try {
      const recording = await fetchRecording(name);
      if (visit !== this.visit) return;
      this.show(recording);
      if (!isDefault && this.engine.state === "loading") tell("This picture has the default knobs. Those of the address follow as soon as Python is there.");
    } catch (error) {
      console.error(error);
      if (visit === this.visit) tell(`The recording of ${name} could not be fetched (${error.message}). Its run follows as soon as Python is there.`);
    }
    try {
      const { heading, told, frames } = await opened;
      if (visit !== this.visit) return;
      if (!isDefault || !this.model) this.show({ heading, told, frames });
      tell("");
    } catch (sentence) {
      if (visit !== this.visit) return;
      tell(`${sentence}`);
      const run = this.engine.state === "live" ? await this.engine.call({ do: "open", name, seed: "1", knobs: {} }) : null;
      if (run && !this.model) this.show(run);
    }
  }

  show({ heading, told, frames }) {
    this.close();
    const state = { heading, told, frames, waiting: "Python is loading; your change follows." };
    this.model = new PageModel(state, (question) => this.ask(question));
    this.root.replaceChildren();
    this.close = player.render({ model: this.model, el: this.root });
    this.say(told);
  }

  async ask(question) {
    const { model, visit } = this;
    try {
      const { told, frames } = await this.engine.call(question);
      model.take({ told, frames });
      if (visit !== this.visit) return;
      if (!told.error && told.values) this.say(told, true);
    } catch (sentence) {
      const before = model.get("told");
      model.take({ told: { ...before, number: question.number ?? before.number, error: `${sentence}` } });
    }
  }

  // The address and the command follow the knobs.
  say({ seed, script }, isAddress = false) {
    this.command.textContent = script.command;
    if (!isAddress) return;
    const settings = `${new URLSearchParams([...Object.entries(script.knobs), ...(seed === "1" ? [] : [["seed", seed]])])}`;
    const address = script.done.length ? `script=${encodeURIComponent(script.text)}` : this.name + (settings && `?${settings}`);
    history.replaceState(null, "", `#${address}`);
  }

  leave() {
    this.close();
    this.close = () => {};
    this.model = undefined;
    tell("");
    return ++this.visit;
  }
}

// The list of all experiments by mechanism, and the search in it.
function fillList() {
  const rows = [];
  for (const { title, experiments } of GROUPS) {
    const items = experiments.map((one) => {
      const item = html("li", {}, html("a", { href: `#${one.name}` }, one.title), html("p", {}, one.question));
      rows.push({ item, words: `${title} ${one.name} ${one.title} ${one.question} ${one.knobs.join(" ")}`.toLowerCase() });
      return item;
    });
    LIST.append(html("section", {}, html("h2", {}, title), html("ul", {}, ...items)));
  }
  const search = () => {
    const wanted = SEARCH.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const { item, words } of rows) item.hidden = !wanted.every((word) => words.includes(word));
    for (const section of LIST.children) section.hidden = !section.querySelector("li:not([hidden])");
    const count = rows.filter(({ item }) => !item.hidden).length;
    FOUND.textContent = count ? `${count} of ${rows.length} experiments` : "No experiment has all of these words. Try fewer of them.";
  };
  SEARCH.addEventListener("input", search);
  search();
}

// The front page is one story that plays as the page opens, and then five to start with.
class Front {
  constructor(names) {
    this.name = names[0];
    this.place = document.getElementById("kit-hero");
    const links = names.map((name) => html("a", { href: `#${name}` }, ALL.find((one) => one.name === name).title));
    document.getElementById("kit-first").append(...links.flatMap((link) => [" ", link]));
  }

  async play() {
    if (this.close) return;
    this.close = () => {};
    const { heading, told, frames } = await fetchRecording(this.name);
    if (!this.close) return; // the reader has gone on
    const model = recorded({ heading: { ...heading, knobs: [], front: [], takes: [] }, told, frames }, "Open it to change it.");
    this.close = player.render({ model, el: this.place });
    this.place.append(html("p", {}, html("a", { href: `#${this.name}` }, "Turn its knobs")));
    if (!matchMedia("(prefers-reduced-motion: reduce)").matches) this.place.querySelector(".kit-begin").click();
  }

  leave() {
    this.close?.();
    this.close = null;
    this.place.replaceChildren();
  }
}

function visit() {
  const asked = readAddress();
  const isKnown = ALL.some(({ name }) => name === asked.name);
  document.getElementById("kit-index").hidden = isKnown;
  STAGE.hidden = !isKnown;
  if (isKnown) {
    front.leave();
    stage.open(asked);
    scrollTo(0, 0);
    return;
  }
  stage.leave();
  STAGE.replaceChildren();
  document.title = "Delivery Lab";
  front.play().catch((error) => console.error(error)); // the list is there all the same
  if (asked.name) tell(`There is no experiment "${asked.name.slice(0, 60)}". Choose one of the list.`);
}

const engine = new Engine();
const stage = new Stage(engine);
const front = new Front(CATALOG.first);
fillList();
tell("");
addEventListener("hashchange", visit);
visit();
