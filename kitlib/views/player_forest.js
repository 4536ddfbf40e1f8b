// The trees of a topology's trace: what every tuple, tree and entry is after any step. The same look-ups
// as kitlib/views/forest.py; nothing is played forwards or backwards, so scrubbing costs what one step costs.

const GONE = -1;
const OPEN_TREE = 0, UNTRACKED_TREE = 6, FALSELY_ACKED_TREE = 4;
const FLAG = { loose: 32, over: 64, isFalse: 128 };

class Forest {
  constructor(data, look) {
    Object.assign(this, data, { look, pinned: -1 });
    this.faults = new Map(data.faulty.map(([tuple, step, kind]) => [tuple, { step, kind }]));
  }

  // The tree that is shown after a step: the one that the reader chose, or that the step is about.
  shownAt(step) {
    return this.pinned >= 0 ? this.pinned : this.focus[step] ?? -1;
  }

  valueAt([steps, values], step, otherwise) {
    const place = lastUpTo(steps, step);
    return place < 0 ? otherwise : values[place];
  }

  flagsOf(tuple, step) {
    let flags = 0;
    for (let bit = 0; bit < this.steps.length; bit++) {
      const at = this.steps[bit][tuple];
      if (at >= 0 && at <= step) flags |= 1 << bit;
    }
    return flags;
  }

  statusOf(tree, step) {
    return this.valueAt(this.trees[tree].status, step, OPEN_TREE);
  }

  isThere(tree, step) {
    const [steps] = this.trees[tree].status;
    return steps.length === 0 || steps[0] <= step;
  }

  codesOf(tree, step) {
    const status = this.statusOf(tree, step);
    const isOver = status !== OPEN_TREE && status !== UNTRACKED_TREE;
    const over = isOver ? FLAG.over | (status === FALSELY_ACKED_TREE ? FLAG.isFalse : 0) : 0;
    return this.trees[tree].nodes.map(([tuple, , , isLoose]) =>
      tuple < 0 ? this.look.statuses[status][1] : this.look.table[this.flagsOf(tuple, step) | over | (isLoose ? FLAG.loose : 0)]);
  }

  // Of a tree's anchored tuples that were sent: how many are not acked, how many there are; and those unanchored.
  countsOf(tree, step) {
    const counts = { open: 0, total: 0, loose: 0 };
    for (const [tuple, , , isLoose] of this.trees[tree].nodes) {
      if (tuple < 0) continue;
      const flags = this.flagsOf(tuple, step);
      if (!(flags & 1)) continue;
      if (isLoose) counts.loose += 1;
      else {
        counts.total += 1;
        if (!(flags & 4)) counts.open += 1;
      }
    }
    return counts;
  }

  rowOf(tree, step) {
    const rows = this.trees[tree].ledger;
    const place = lastUpTo(rows, step, (row) => row[0]);
    if (place < 0) return null;
    const [at, title, before, message, after, lines, isFalse] = rows[place];
    return { at, title, before, message, after, lines, isFalse };
  }

  // What lies in each bucket of one map, and below the last one what the tick has dropped.
  pendingAt(spout, step) {
    return this.bucketsAt(this.trees, this.buckets[0], (tree) => tree.spout === spout && tree.bucket, step);
  }

  entriesAt(acker, step) {
    return this.bucketsAt(this.entries, this.buckets[1], (entry) => entry[0] === acker && [entry[3], entry[4]], step);
  }

  bucketsAt(all, count, historyOf, step) {
    const found = Array.from({ length: count + 1 }, () => []);
    all.forEach((one, number) => {
      const history = historyOf(one);
      const bucket = history ? this.valueAt(history, step, GONE) : GONE;
      if (bucket !== GONE) found[bucket].push(number);
    });
    return found;
  }

  nameOf(tree) {
    const [name, , detail] = this.trees[tree].name;
    return `The tree of ${name}: ${detail}`;
  }

  summaryOf(tree, step) {
    const told = this.look.statuses[this.statusOf(tree, step)][0];
    const { open, total, loose } = this.countsOf(tree, step);
    const hidden = this.trees[tree].box[4];
    const parts = [
      ...(total ? [`${open.toLocaleString("en")} of ${total.toLocaleString("en")} tuples not acked`] : []),
      ...(loose ? [`${loose.toLocaleString("en")} unanchored`] : []),
      ...(hidden ? [`${hidden.toLocaleString("en")} not drawn`] : []),
    ];
    return parts.length ? `${told}: ${parts.join(", ")}` : told;
  }

  endedSoFar(step) {
    const counts = new Map();
    this.trees.forEach((tree, number) => {
      if (!tree.status[0].length || !this.isThere(number, step)) return;
      const status = this.statusOf(number, step);
      if (status) counts.set(this.look.statuses[status][0], (counts.get(this.look.statuses[status][0]) ?? 0) + 1);
    });
    const told = [...counts].map(([name, count]) => `${count.toLocaleString("en")} ${name}`).join(", ");
    return told ? `ended so far: ${told}` : "no tree has ended yet";
  }
}
