// The frames of one trace, and the flags of every record after the step that is shown.
// A toggle flips one flag on a range of offsets; flipping it again undoes it. So moving from one
// step to another, in either direction, means flipping the toggles of the steps in between.

const WORDS = new TextDecoder();

class Timeline {
  constructor(bytes) {
    Object.assign(this, JSON.parse(WORDS.decode(bytes)));
    this.steps = this.lane.length;
    this.at = -1; // no step taken yet
    this.flags = this.lanes.map(([, base, end]) => new Uint8Array(end - base));
    // lastOf[lane][n + 1]: the last step up to n that belongs to the lane, or -1.
    this.lastOf = this.lanes.map((_, lane) => {
      const last = new Int32Array(this.steps + 1).fill(-1);
      for (let n = 0; n < this.steps; n++) last[n + 1] = this.lane[n] === lane ? n : last[n];
      return last;
    });
  }

  moveTo(step) {
    const to = Math.max(-1, Math.min(step, this.steps - 1));
    const [first, last] = to > this.at ? [this.at + 1, to] : [to + 1, this.at];
    for (let n = first; n <= last; n++) this.flip(n);
    this.at = to;
  }

  flip(step) {
    for (let i = this.begins[step]; i < this.begins[step + 1]; i += 3) {
      const [first, length, flag] = [this.toggles[i], this.toggles[i + 1], this.toggles[i + 2]];
      const flags = this.flags[this.lane[step]];
      for (let offset = first; offset < first + length; offset++) flags[offset] ^= flag;
    }
  }

  // Where a lane's positions and its close-up are after the step that is shown.
  placesOf(lane) {
    const last = this.lastOf[lane][this.at + 1];
    const [name, base, end, boxes] = this.lanes[lane];
    if (last < 0) return { name, base, end, boxes, start: base, logEnd: base, committed: base, emitted: base, window: base };
    const [start, logEnd, committed, emitted] = this.marks.slice(last * 4, last * 4 + 4);
    return { name, base, end, boxes, start, logEnd, committed, emitted, window: this.window[last] };
  }

  // The record that this step is about, if it is one of this lane; else -1.
  currentOf(lane) {
    return this.at >= 0 && this.lane[this.at] === lane ? this.offset[this.at] : -1;
  }
}
