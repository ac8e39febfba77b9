// How unsure predictions are over the whole map: a grid, first coarse and then finer, computed while nothing else is.

const GRIDS = [12, 24, 48];
const SLICE = 6; // milliseconds at a time
const MOST_SHADE = 0.42; // how much of the colour there is where it is most unsure
const LEAST_CONTRAST = 1.25;
const whenIdle = window.requestIdleCallback ? (go) => requestIdleCallback(go, { timeout: 200 }) : (go) => setTimeout(go, 16);

class Shading {
  constructor(state, onReady) {
    Object.assign(this, { state, onReady, running: false, wanted: false });
    this.latents = new Float64Array(state.nLatents);
    this.mean = new Float64Array(state.nColumns);
    this.deviation = new Float64Array(state.nColumns);
    this.image = null; // {size, values, least, most}
  }

  // Something changed on which it depends. One that is being computed is shown first, so that there is one even while
  // things go on changing.
  refresh() {
    this.wanted = true;
    if (!this.running) this.#start(0);
  }

  #start(level) {
    const { state } = this;
    this.running = true;
    if (level === 0) {
      this.wanted = false;
      this.latents.set(state.latents);
      this.axes = [...state.axes];
      this.light = state.light.slice();
      if (!this.light.some((one) => one > 0)) this.light.fill(1);
    }
    this.grid = { level, size: GRIDS[level], values: new Float64Array(GRIDS[level] ** 2), least: Infinity, most: 0, done: 0 };
    whenIdle(() => this.#compute());
  }

  #compute() {
    const { grid } = this;
    const end = performance.now() + SLICE;
    while (grid.done < grid.values.length && performance.now() < end) {
      const found = this.#unsure(grid.done % grid.size, Math.floor(grid.done / grid.size), grid.size);
      grid.values[grid.done++] = found;
      grid.least = Math.min(grid.least, found);
      grid.most = Math.max(grid.most, found);
    }
    if (grid.done < grid.values.length) {
      whenIdle(() => this.#compute());
      return;
    }
    // A map that is nearly as sure everywhere has no contrast.
    grid.most = Math.max(grid.most, LEAST_CONTRAST * grid.least);
    this.image = grid;
    this.onReady();
    if (this.wanted) this.#start(0);
    else if (grid.level + 1 < GRIDS.length) this.#start(grid.level + 1);
    else this.running = false;
  }

  // Root mean square over columns of the standard deviation in units of the column's own.
  #unsure(i, j, size) {
    const { state, latents, axes, light } = this;
    [i, j].forEach((cell, axis) => {
      const [low, high] = state.ranges[axes[axis]];
      if (axis === 0 || axes[0] !== axes[1]) latents[axes[axis]] = low + ((cell + 0.5) / size) * (high - low);
    });
    state.posterior.predict(latents, this.mean, this.deviation);
    let [sum, total] = [0, 0];
    for (let d = 0; d < light.length; d++) {
      const one = this.deviation[d] / state.scale[d];
      sum += light[d] * one * one;
      total += light[d];
    }
    return Math.sqrt(sum / total);
  }

  // Shades of one colour: none where the model is sure.
  paint(context, width, height, [red, green, blue]) {
    const { size, values, least, most } = this.image;
    const small = document.createElement("canvas");
    small.width = small.height = size;
    const pixels = new ImageData(size, size);
    for (let j = 0, at = 0; j < size; j++) {
      for (let i = 0; i < size; i++, at += 4) {
        const value = values[(size - 1 - j) * size + i];
        pixels.data.set([red, green, blue, 255 * (MOST_SHADE * (value - least)) / (most - least)], at);
      }
    }
    small.getContext("2d").putImageData(pixels, 0, 0);
    context.imageSmoothingQuality = "high";
    context.drawImage(small, 0, 0, width, height);
  }
}
