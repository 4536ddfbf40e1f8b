// What happened to each thing of a run: the lives that the panel of `player_life.js` shows, built from the run's
// sentences and the index that kitlib/views/lives.py sends, and the elements that stand for a thing.

const MOST_CHOICES = 300; // things to choose from
const DRAGGED = 5; // CSS pixels: a press that moves so far is no click
const ACTORS = ["member", "process"]; // a step is in the life of its actor

// The lives of a run: which steps are about a thing, and which change its box.
class Lives {
  constructor(told, said) {
    Object.assign(this, { told, said, at: sumsOf(told.at), known: new Map() });
    this.nameOf = new Map(told.names.map((name, number) => [name, number]));
    this.changes = new Map(told.lanes.map(([name, numbers]) => {
      const rows = [];
      for (let i = 0, step = 0; i < numbers.length; i += 4) {
        step += numbers[i];
        rows.push([step, numbers[i + 1], numbers[i + 1] + numbers[i + 2], numbers[i + 3]]);
      }
      return [name, rows];
    }));
  }

  // A ref as the index has it: the number of its name, and its own number where its name is one of many.
  find(ref) {
    if (this.nameOf.has(ref)) return [this.nameOf.get(ref), null];
    const [, begin, digits] = ref.match(/^(.*[:/])(\d{1,15})$/) ?? [];
    return this.nameOf.has(begin) ? [this.nameOf.get(begin), +digits] : [-1, null];
  }

  // What happened to a thing, in order: [{ step, said, state, why, place }].
  of(ref) {
    if (!this.known.has(ref)) {
      if (this.known.size > 300) this.known.clear();
      this.known.set(ref, this.build(ref));
    }
    return this.known.get(ref);
  }

  build(ref) {
    const { refs, whoOf, who, names, within, states } = this.told;
    const [name, number] = this.find(ref);
    const kind = ref.split(":", 1)[0];
    const isIt = ([one, first, last = first]) => one === name && (number === null ? first === undefined : first <= number && number <= last);
    const named = new Set();
    const isKind = (one, wanted) => names[one[0]].startsWith(`${wanted}:`);
    refs.forEach((told, step) => { if (told.some(isIt)) named.add(step); });
    if (within[kind]) {
      const own = new Set([...named].flatMap((step) => refs[step].filter((one) => isKind(one, within[kind])).map(String)));
      refs.forEach((told, step) => { if (told.some((one) => own.has(String(one))) && !told.some((one) => isKind(one, kind))) named.add(step); });
    }
    if (ACTORS.includes(kind)) {
      const actor = who.indexOf(ref.slice(kind.length + 1));
      if (actor >= 0) whoOf.forEach((one, step) => { if (one === actor) named.add(step); });
    }
    const changed = new Map();
    for (const [step, first, after, state] of this.changes.get(name) ?? []) {
      if (number !== null && first <= number && number < after) changed.set(step, states[state]);
    }
    const steps = [...new Set([...named, ...changed.keys()])].sort((a, b) => a - b);
    return steps.map((step) => {
      const [rule, aside] = this.told.rules[this.told.verbOf[step]];
      const [why = "", place = ""] = named.has(step) || aside.length === 0 ? rule : aside;
      return { step, said: this.said[step], state: changed.get(step) ?? "", why, place };
    });
  }

  // The newest row of a life up to a step, and what the thing's box shows then.
  after(ref, step) {
    const rows = this.of(ref);
    const last = lastUpTo(rows, step, (row) => row.step);
    let state = last;
    while (state >= 0 && rows[state].state === "") state -= 1;
    return { rows, last, row: rows[last], state: rows[state]?.state ?? "" };
  }

  // The refs that a step is about; of a long range the first ones.
  named(step) {
    const all = [];
    for (const [name, first, last = first] of this.told.refs[step] ?? []) {
      const begin = this.told.names[name];
      if (first === undefined) all.push(begin);
      for (let number = first; number <= last && all.length < MOST_CHOICES; number++) all.push(`${begin}${number}`);
    }
    return all;
  }

  // What somebody may have meant: a ref, "record 17", "17", "A".
  meant(text) {
    const asked = text.trim();
    const [, kind, rest] = asked.match(/^([a-z]+)[ :]+(.+)$/i) ?? [];
    const wanted = rest === undefined ? [["", asked]] : [[`${kind.toLowerCase()}:`, rest], ["", asked]];
    const tries = [asked];
    for (const [begin, name] of wanted) {
      tries.push(`${begin}${name}`);
      for (const one of this.told.names) if (one.startsWith(begin)) tries.push(one.endsWith(`:${name}`) || one.endsWith(`/${name}`) ? one : `${one}${name}`);
      for (const actor of this.told.who) if (actor === name) tries.push(`process:${actor}`);
    }
    return tries.find((ref) => /^[a-z]+:/.test(ref) && this.of(ref).length > 0) ?? "";
  }
}

// A ref as people say it: "record 17 of orders/0".
function sayRef(ref) {
  const [, kind, name] = ref.match(/^([a-z]+):(.*)$/) ?? [null, "thing", ref];
  if (kind === "process") return name;
  if (kind === "tree" && /^-?\d+$/.test(name)) {
    const root = BigInt.asUintN(64, BigInt(name)).toString(16);
    return `tree ${root.length > 4 ? `…${root.slice(-4)}` : root}`;
  }
  const [, of, number] = name.match(/^(.*)\/(\d+)$/) ?? [];
  return of !== undefined && kind !== "partition" && kind !== "task" ? `${kind} ${number} of ${of}` : `${kind} ${name}`;
}

function sayTime(ms) {
  const [unit, wide] = [["d", 864e5], ["h", 36e5], ["min", 6e4], ["s", 1e3]].find(([, least]) => ms >= 10 * least) ?? ["ms", 1];
  return `${(ms / wide).toLocaleString("en", { maximumFractionDigits: wide > 1 ? 1 : 0 })} ${unit}`;
}

// The ref of the nearest thing around a node, and the element that stands for it.
function thingAt(node) {
  const near = node.closest?.("[data-ref], [data-each] > *, [data-each]");
  if (!near) return null;
  if (near.dataset.ref) return { ref: near.dataset.ref, element: near };
  if (near.dataset.each !== undefined) return null; // between two of its children
  const [, begin, first] = near.parentNode.dataset.each.match(/^(.*[:/])(\d+)$/) ?? [];
  return begin ? { ref: `${begin}${+first + [...near.parentNode.children].indexOf(near)}`, element: near } : null;
}

// The elements that stand for a thing now.
function elementsOf(root, ref) {
  const found = [...root.querySelectorAll(`[data-ref="${CSS.escape(ref)}"]`)];
  const [, begin, number] = ref.match(/^(.*[:/])(\d+)$/) ?? [];
  if (begin === undefined) return found;
  for (const row of root.querySelectorAll(`[data-each^="${CSS.escape(begin)}"]`)) {
    const first = row.dataset.each.slice(begin.length);
    const child = /^\d+$/.test(first) ? row.children[+number - +first] : null;
    if (child) found.push(child);
  }
  return found;
}
