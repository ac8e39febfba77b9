// Where the point is and what is shown: one state, which views draw at the next frame after it has changed.

const NOTHING = -1;

class State {
  constructor(data) {
    const { rows, columns, groups, posterior } = data;
    Object.assign(this, { rows, columns, groups, skeleton: data.skeleton });
    this.nRows = rows.names.length;
    this.nColumns = columns.names.length;
    this.nLatents = rows.latents.shape[1];
    this.posterior = new Posterior(posterior);
    this.scale = posterior.scale;
    this.ranges = Array.from({ length: this.nLatents }, (_, q) => this.#range(q));
    this.axes = [0, Math.min(1, this.nLatents - 1)];
    this.latents = new Float64Array(this.nLatents);
    this.mean = new Float64Array(this.nColumns);
    this.deviation = new Float64Array(this.nColumns);
    this.lit = null; // {group} or {latent}
    this.light = new Float64Array(this.nColumns).fill(1); // how much of it each column gets
    this.pointedAt = NOTHING; // a row
    this.standsAt = NOTHING; // the row that the point is at
    this.views = [];
    this.changed = new Set();
    this.toMiddle();
  }

  get shownRow() { return this.pointedAt !== NOTHING ? this.pointedAt : this.standsAt; }

  latentOf(row, q) { return this.rows.latents[row * this.nLatents + q]; }

  valueOf(row, column) { return this.rows.values[row * this.nColumns + column]; }

  // What changed is one or more of: latents, axes, light, row, colours, size, filter.
  change(...what) {
    if (this.changed.size === 0) requestAnimationFrame(() => this.draw());
    what.forEach((one) => this.changed.add(one));
  }

  draw() {
    const { changed } = this;
    this.changed = new Set();
    if (changed.has("latents")) this.posterior.predict(this.latents, this.mean, this.deviation);
    for (const view of this.views) view.draw(changed);
  }

  moveTo(q, value) {
    const [low, high] = this.ranges[q];
    this.latents[q] = Math.min(Math.max(value, low), high);
    this.standsAt = NOTHING;
    this.change("latents", "row");
  }

  moveToRow(row) {
    for (let q = 0; q < this.nLatents; q++) this.latents[q] = this.latentOf(row, q);
    this.standsAt = row;
    this.change("latents", "row");
  }

  // Part of the way from one row to the next.
  moveBetween(row, next, part) {
    for (let q = 0; q < this.nLatents; q++) {
      this.latents[q] = (1 - part) * this.latentOf(row, q) + part * this.latentOf(next, q);
    }
    this.standsAt = NOTHING;
    this.change("latents", "row");
  }

  toMiddle() {
    for (let q = 0; q < this.nLatents; q++) {
      let sum = 0;
      for (let row = 0; row < this.nRows; row++) sum += this.latentOf(row, q);
      this.moveTo(q, sum / this.nRows);
    }
  }

  lightUp(what) {
    this.lit = what;
    const { inGroup, byLatent } = this.columns;
    const [shares, at] = what && "group" in what ? [inGroup, what.group] : [byLatent, what && what.latent];
    const width = shares.shape[1];
    for (let d = 0; d < this.nColumns; d++) this.light[d] = what ? shares[d * width + at] : 1;
    // A latent that moves nothing lights up nothing.
    const most = this.light.reduce((one, other) => Math.max(one, other), 0) || 1;
    for (let d = 0; d < this.nColumns; d++) this.light[d] /= most;
    this.change("light");
  }

  // From a little below the rows to a little above them.
  #range(q) {
    let [low, high] = [Infinity, -Infinity];
    for (let row = 0; row < this.nRows; row++) {
      low = Math.min(low, this.latentOf(row, q));
      high = Math.max(high, this.latentOf(row, q));
    }
    const margin = 0.15 * Math.max(high - low, 1e-3);
    return [low - margin, high + margin];
  }
}
