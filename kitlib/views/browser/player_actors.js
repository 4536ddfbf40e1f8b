// The stage: actors at their places, and what travels between them. All that is shown was decided in Python
// (kitlib/views/stage/picture.py); here things are moved along their paths, by their transform alone.
// Times are hundredths of a second of play, as the run's clock counts them.

const SPACE = 7; // from a bubble to its actor
const HOP = 60; // hundredths of a second: what takes longer is in flight and waits
const PLACES = [[0, 2], [1, -1], [-1, -1], [0, -1], [-1, 0], [0, 0], [1, 0], [0, 1], [-1, 1], [1, 1], [0, -2]]; // of lanes -5 to 5: column, row
const GRAVITY = 520; // units in a second, squared
const SHAPES = {
  pill: (half) => ({ x: -half, y: -9, width: 2 * half, height: 18, rx: 9 }),
  square: (half) => ({ x: -half, y: -9, width: 2 * half, height: 18, rx: 2 }),
  dot: () => ({ x: -5, y: -5, width: 10, height: 10, rx: 5 }),
  bubble: (half) => ({ x: -half, y: -11, width: 2 * half, height: 20, rx: 6 }),
};

class ActorStage {
  constructor(clock, onPlay) {
    const id = newName("stage");
    this.clock = clock; // says where a step lies, and whether things may travel
    this.title = svg("title", { id: `${id}-title` });
    this.description = svg("desc", { id: `${id}-desc` });
    this.back = svg("g");
    this.ties = svg("g");
    this.cast = svg("g");
    this.things = svg("g");
    this.over = svg("g"); // bubbles, above all
    this.picture = svg("svg", { class: "kit kit-actors", role: "img", "aria-labelledby": `${id}-title ${id}-desc` },
      this.title, this.description, this.back, this.ties, this.cast, this.things, this.over);
    this.begin = html("button", { type: "button", class: "kit-begin", "aria-label": "Play this run", title: "Play this run" },
      svg("svg", { viewBox: "0 0 48 48", width: 48, height: 48, "aria-hidden": "true" }, svg("path", { d: "M16 10L38 24L16 38Z" })));
    this.begin.addEventListener("click", onPlay);
    this.legend = html("ul", { class: "kit-cast", "aria-label": "What travels on the stage" });
    this.node = html("section", { class: "kit-actors-box", "aria-label": "Stage" }, html("div", { class: "kit-actors-frame" }, this.picture, this.begin));
    this.nodes = [this.node];
    this.free = []; // elements that stand for nothing now
  }

  load(run, film) {
    this.stage = run.stage;
    this.shown = new Map(); // place in the list of travellers -> its element
    this.place = -1;
    for (const node of [this.node, this.legend]) put(node, "hidden", this.stage ? null : "");
    if (!this.stage) return;
    const { stage } = this;
    const begun = sumsOf(stage.travellers.map(([wait]) => wait));
    this.travellers = stage.travellers.map(([, crosses, lies, ...row], place) => [0, crosses, crosses + lies].map((more) => begun[place] + more).concat(row));
    put(this.picture, "viewBox", `0 0 ${stage.wide} ${stage.tall}`);
    put(this.title, "text", stage.title);
    this.back.replaceChildren(film.make(stage.back));
    this.tracks = [stage.ties, ...stage.actors].map((track) => new Track(film, track));
    this.ties.replaceChildren(this.tracks[0].node);
    this.cast.replaceChildren(...this.tracks.slice(1).map(({ node }) => node));
    this.things.replaceChildren();
    this.over.replaceChildren();
    this.free = [];
    this.isWhole = run.isWhole;
    this.legend.replaceChildren(...stage.legend.map(([shape, colour, meaning]) => legendItem(shape, colour, meaning)),
      ...(stage.hasLost ? [legendItem("lost", "none", "lost: falls off")] : []));
  }

  draw(step) {
    if (this.stage && !this.clock.isPlaying) this.move(this.clock.placeOf(step));
  }

  // Show the stage as it is at a time of play.
  move(place) {
    if (!this.stage) return;
    this.place = place;
    for (const track of this.tracks) track.draw(this.isWhole ? place : 0);
    this.travellers.forEach((row, number) => {
      const isThere = row[0] <= place && place <= row[2];
      if (!isThere && !this.shown.has(number)) return;
      if (!isThere) return this.release(number);
      this.put(row, this.shown.get(number) ?? this.take(row, number), place);
    });
  }

  // Put a traveller where it is now.
  put([t0, t1, , way, , lane, , falls, reach], thing, place) {
    const path = this.stage.paths[way];
    if (thing.isBubble) return;
    const isFallen = falls && place >= t1;
    const share = isFallen ? reach / 100 : Math.min(1, (place - t0) / Math.max(1, t1 - t0)) * (falls ? reach / 100 : 1);
    const at = this.clock.isStill && !isFallen ? 0.5 : share;
    const left = 1 - at;
    const middle = Math.sin(Math.PI * at);
    let x = left * left * path[0] + 2 * left * at * path[2] + at * at * path[4];
    let y = left * left * path[1] + 2 * left * at * path[3] + at * at * path[5];
    if (t1 - t0 <= HOP) y += lane * this.stage.lane * middle;
    else { // what takes its time waits in a place of its own, half way, and drifts on
      const waits = Math.min(1, 2.5 * middle), [column, row] = PLACES[lane + 5];
      x += ((path[0] + 2 * path[2] + path[4]) / 4 + column * 31 + (at - 0.5) * 20 - x) * waits;
      y += ((path[1] + 2 * path[3] + path[5]) / 4 + row * 24 - y) * waits;
    }
    if (path[0] === path[4] && path[1] === path[5]) x += lane * 9;
    if (isFallen) {
      const seconds = this.clock.isStill ? 9 : (place - t1) / 100;
      x += (lane * 20 + thing.apart) * Math.min(1, seconds);
      y = Math.min(this.stage.floor - (Math.abs(lane) % 2) * 7, y + (GRAVITY * seconds * seconds) / 2);
    }
    thing.node.setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)})`);
    if (thing.isFallen !== isFallen) {
      thing.isFallen = isFallen;
      put(thing.node, "class", isFallen ? "kit-thing kit-fallen" : "kit-thing");
    }
  }

  // An element for a traveller that begins to be seen.
  take(row, number) {
    const [, , , way, look, offset, label, , , ref] = row;
    const { shape, colour, text } = this.stage.looks[look];
    const isBubble = shape === "bubble";
    const half = Math.max(shape === "dot" && !label ? 5 : 11, 3.4 * label.length + 6);
    const thing = this.free.pop() ?? this.makeThing();
    thing.isBubble = isBubble;
    thing.apart = ((number * 29) % 60) - 30; // from others that fall with it
    thing.isFallen = null;
    const kind = shape === "dot" && label ? "pill" : shape;
    putAll(thing.box, { ...SHAPES[kind](half), fill: colour === "paper" || isBubble ? null : colour, class: isBubble ? (colour === "paper" ? "paper ink-line" : "paper kit-alarm") : "kit-edge" });
    putAll(thing.words, { text: label, fill: text === "ink" ? null : text, class: text === "ink" ? "ink" : null, y: isBubble ? 3 : 4 });
    put(thing.cross, "transform", `translate(${-half} 0)`);
    putAll(thing.node, { "data-ref": this.stage.refs[ref] ?? null, class: "kit-thing" });
    (isBubble ? this.over : this.things).append(thing.node);
    if (isBubble) {
      const [x, y] = this.stage.paths[way];
      const middle = Math.min(Math.max(x, half + 3), this.stage.wide - half - 3);
      thing.node.setAttribute("transform", `translate(${middle.toFixed(1)} ${Math.max(13, y - offset - SPACE - 7).toFixed(1)})`);
    }
    this.shown.set(number, thing);
    return thing;
  }

  makeThing() {
    const box = svg("rect");
    const words = svg("text", { "text-anchor": "middle", "font-size": 11 });
    const cross = svg("path", { d: "M-6 -6L6 6M6 -6L-6 6", class: "kit-lost" });
    return { node: svg("g", {}, box, words, cross), box, words, cross };
  }

  release(number) {
    const thing = this.shown.get(number);
    thing.node.remove();
    this.shown.delete(number);
    this.free.push(thing);
  }

  describe(step, { said }) {
    if (!this.stage) return;
    const { words } = this.stage;
    const told = words[lastUpTo(words, this.place, ([since]) => since)]?.[1] ?? "";
    put(this.description, "text", step < 0 ? "There are no steps." : `After step ${step} of ${said.length - 1}: ${said[step]} ${told}`);
  }
}

function legendItem(shape, colour, meaning) {
  const sign = shape === "lost" ? svg("path", { d: "M6 2L18 14M18 2L6 14", class: "kit-lost" })
    : svg("rect", { ...SHAPES[shape](shape === "dot" ? 5 : 11), transform: "translate(12 8) scale(0.8)", fill: colour, class: "kit-edge" });
  return html("li", {}, svg("svg", { viewBox: "0 0 24 16", width: 24, height: 16, class: "kit", "aria-hidden": "true" }, sign), html("span", { text: meaning }));
}
