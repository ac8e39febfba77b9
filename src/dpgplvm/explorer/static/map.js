// The map: rows as dots among two latents, the point, and behind them how unsure predictions are.

const REACH = 12; // pixels from a dot at which it is meant
const A_CLICK = 4; // pixels that a pointer may move between down and up
const KEYS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowDown: [1, -1], ArrowUp: [1, 1] };

class LatentMap {
  constructor(state, player) {
    Object.assign(this, { state, player });
    this.element = document.getElementById("map");
    this.canvas = this.element.querySelector("canvas");
    this.parts = {
      crosses: this.element.querySelectorAll(".cross"),
      doubt: this.element.querySelector(".doubt"),
      ring: this.element.querySelector(".ring"),
      point: this.element.querySelectorAll(".halo, .point"),
      tip: document.getElementById("tip"),
      where: document.getElementById("where"),
    };
    this.shading = new Shading(state, () => this.state.change("shading"));
    this.#choices();
    this.#listen();
    new ResizeObserver(() => state.change("size")).observe(this.element);
  }

  draw(changed) {
    const has = (...any) => any.some((one) => changed.has(one));
    if (has("size", "axes")) this.#measure();
    if (has("axes", "light") || (has("latents") && this.#othersMoved())) this.shading.refresh();
    if (has("size", "axes", "colours", "shading")) this.#paint();
    if (has("size", "axes", "latents")) this.#placePoint();
    if (has("size", "axes", "row")) this.#showRow();
  }

  // With one latent only, rows are spread out by their number.
  get flat() { return this.state.nLatents === 1; }

  pixels(row) {
    const [across, up] = this.state.axes;
    const height = this.flat
      ? this.height * (1 - (row + 0.5) / this.state.nRows)
      : this.#pixel(1, this.state.latentOf(row, up));
    return [this.#pixel(0, this.state.latentOf(row, across)), height];
  }

  move(axis, step) {
    if (axis === 1 && this.flat) return;
    const q = this.state.axes[axis];
    const [low, high] = this.state.ranges[q];
    this.player.pause();
    this.state.moveTo(q, this.state.latents[q] + (step * (high - low)) / 60);
    this.#say();
  }

  #pixel(axis, value) {
    const [low, high] = this.state.ranges[this.state.axes[axis]];
    const part = (value - low) / (high - low);
    return axis === 0 ? part * this.width : (1 - part) * this.height;
  }

  #measure() {
    const box = this.element.getBoundingClientRect();
    [this.width, this.height] = [box.width, box.height];
    const density = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(box.width * density);
    this.canvas.height = Math.round(box.height * density);
    this.context = this.canvas.getContext("2d");
    this.context.setTransform(density, 0, 0, density, 0, 0);
  }

  // Whether a latent that is not on the map is elsewhere than it was when the map was shaded.
  #othersMoved() {
    const { latents, axes } = this.state;
    const before = this.shading.latents;
    return latents.some((value, q) => !axes.includes(q) && value !== before[q]);
  }

  #paint() {
    const { context, state, width, height } = this;
    context.clearRect(0, 0, width, height);
    if (this.shading.image) this.shading.paint(context, width, height, rgb(ofPage("--shade")));
    this.#paintAxes();
    const parts = rowParts(state);
    if (state.rows.joined) this.#paintPaths();
    const size = state.nRows > 2000 ? 2 : state.nRows > 500 ? 2.6 : 3.4;
    context.strokeStyle = ofPage("--surface");
    context.lineWidth = 0.8;
    for (let row = 0; row < state.nRows; row++) {
      const [x, y] = this.pixels(row);
      context.fillStyle = rowColour(parts[row]);
      context.beginPath();
      context.arc(x, y, size, 0, 2 * Math.PI);
      context.fill();
      if (size > 2) context.stroke();
    }
  }

  #paintPaths() {
    const { context, state } = this;
    context.strokeStyle = ofPage("--faint");
    context.lineWidth = 0.7;
    for (const rows of sequencesOf(state.rows, state.nRows)) {
      context.beginPath();
      rows.forEach((row, i) => context[i ? "lineTo" : "moveTo"](...this.pixels(row)));
      context.stroke();
    }
  }

  #paintAxes() {
    const { context, state, width, height } = this;
    context.fillStyle = ofPage("--faint");
    context.strokeStyle = ofPage("--line");
    context.lineWidth = 1;
    context.font = "11px system-ui, sans-serif";
    [0, 1].forEach((axis) => {
      if (axis === 1 && this.flat) return;
      const across = axis === 0;
      context.textAlign = across ? "center" : "left";
      for (const value of ticks(...state.ranges[state.axes[axis]], across ? width / 90 : height / 70)) {
        const at = Math.round(this.#pixel(axis, value)) + 0.5;
        context.beginPath();
        context.moveTo(...(across ? [at, 0] : [0, at]));
        context.lineTo(...(across ? [at, height] : [width, at]));
        context.stroke();
        const [x, y] = across ? [at, height - 5] : [5, at - 4];
        if (across ? at > 30 && at < width - 12 : at > 16 && at < height - 24) context.fillText(String(value), x, y);
      }
    });
  }

  #placePoint() {
    const [x, y] = this.#pointPixels();
    this.parts.point.forEach((circle) => set(circle, { cx: x, cy: y }));
    set(this.parts.crosses[0], { x1: 0, x2: this.width, y1: y, y2: y });
    set(this.parts.crosses[1], { x1: x, x2: x, y1: 0, y2: this.height });
  }

  #pointPixels() {
    const { latents, axes } = this.state;
    return [this.#pixel(0, latents[axes[0]]), this.flat ? this.height / 2 : this.#pixel(1, latents[axes[1]])];
  }

  #showRow() {
    const { state, parts } = this;
    const row = state.shownRow;
    const shown = row !== NOTHING;
    parts.ring.style.display = parts.doubt.style.display = shown ? "" : "none";
    parts.tip.hidden = state.pointedAt === NOTHING;
    if (!shown) return;
    const [x, y] = this.pixels(row);
    const deviation = (axis) => state.rows.deviation[row * state.nLatents + state.axes[axis]];
    const length = (axis) => 2 * deviation(axis) * Math.abs(this.#pixel(axis, 1) - this.#pixel(axis, 0));
    set(parts.ring, { cx: x, cy: y });
    set(parts.doubt, { cx: x, cy: y, rx: length(0), ry: this.flat ? 2 : length(1) });
    if (state.pointedAt !== NOTHING) this.#tell(row, x, y);
  }

  // Which row it is, and what is special about it.
  #tell(row, x, y) {
    const { state, parts } = this;
    const { names, sequence, sequences } = state.rows;
    const lines = [`row ${names[row]}`];
    if (sequence) lines.push(`sequence ${sequences[sequence[row]]}`);
    lines.push(...new Set(state.axes.map((q) => `latent ${q}: ${hundredths(state.latentOf(row, q))}`)));
    let gaps = 0;
    for (let d = 0; d < state.nColumns; d++) gaps += Number.isNaN(state.valueOf(row, d));
    if (gaps) lines.push(`${state.nColumns - gaps} of ${state.nColumns} columns observed`);
    parts.tip.replaceChildren(...lines.map((line) => made("div", line)));
    const { offsetWidth, offsetHeight } = parts.tip;
    const left = x + 14 + offsetWidth < this.width ? x + 14 : x - 14 - offsetWidth;
    const top = Math.min(Math.max(y - offsetHeight / 2, 2), this.height - offsetHeight - 2);
    parts.tip.style.transform = `translate(${Math.max(left, 2)}px, ${top}px)`;
  }

  // For those who do not see the map.
  #say() {
    clearTimeout(this.saying);
    this.saying = setTimeout(() => {
      const { latents, axes } = this.state;
      this.parts.where.textContent = [...new Set(axes)].map((q) => `latent ${q} ${hundredths(latents[q])}`).join(", ");
    }, 400);
  }

  #choices() {
    const { state } = this;
    ["across", "up"].forEach((id, axis) => {
      const select = document.getElementById(id);
      for (let q = 0; q < state.nLatents; q++) select.append(new Option(`latent ${q}`, q));
      select.value = state.axes[axis];
      select.addEventListener("change", () => {
        const other = state.axes[1 - axis];
        // The same latent on both axes would be a line: they change places instead.
        if (Number(select.value) === other) state.axes[1 - axis] = state.axes[axis];
        state.axes[axis] = Number(select.value);
        document.getElementById("across").value = state.axes[0];
        document.getElementById("up").value = state.axes[1];
        state.change("axes");
      });
    });
    document.getElementById("up-label").hidden = this.flat;
  }

  #listen() {
    const { element, state } = this;
    let down = null;
    const at = (event) => {
      const box = element.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    const drag = ([x, y]) => {
      [x / this.width, 1 - y / this.height].forEach((part, axis) => {
        if (axis === 1 && this.flat) return;
        const [low, high] = state.ranges[state.axes[axis]];
        state.moveTo(state.axes[axis], low + part * (high - low));
      });
    };
    element.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      element.setPointerCapture(event.pointerId);
      this.player.pause();
      const [x, y] = at(event);
      const [px, py] = this.#pointPixels();
      down = { x, y, moved: false };
      // Who takes hold of the point at its rim does not want it to jump.
      down.offset = Math.hypot(px - x, py - y) < 16 ? [px - x, py - y] : [0, 0];
      this.#pointAt(x, y);
    });
    element.addEventListener("pointermove", (event) => {
      const [x, y] = at(event);
      if (!down) {
        this.#pointAt(x, y);
        return;
      }
      down.moved ||= Math.hypot(x - down.x, y - down.y) > A_CLICK;
      if (!down.moved) return;
      if (state.pointedAt !== NOTHING) this.#pointAt(-99, -99);
      drag([x + down.offset[0], y + down.offset[1]]);
    });
    element.addEventListener("pointerup", (event) => {
      if (!down) return;
      const { moved } = down;
      down = null;
      if (moved) return;
      if (state.pointedAt !== NOTHING) this.player.goTo(state.pointedAt);
      else drag(at(event));
    });
    element.addEventListener("pointercancel", () => { down = null; });
    element.addEventListener("pointerleave", () => { if (!down) this.#pointAt(-99, -99); });
    element.addEventListener("keydown", (event) => this.key(event));
  }

  // Whether the key meant something here.
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in KEYS) {
      const [axis, sign] = KEYS[event.key];
      this.move(axis, sign * (event.shiftKey ? 6 : 1));
    } else if (event.key === "Home") {
      this.player.pause();
      this.state.toMiddle();
      this.#say();
    } else if (event.key === " ") this.player.toggle();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  #pointAt(x, y) {
    const { state } = this;
    let [nearest, least] = [NOTHING, REACH];
    for (let row = 0; row < state.nRows; row++) {
      const [rx, ry] = this.pixels(row);
      const distance = Math.hypot(rx - x, ry - y);
      if (distance < least) [nearest, least] = [row, distance];
    }
    if (nearest === state.pointedAt) return;
    state.pointedAt = nearest;
    state.change("row");
  }
}

// Round numbers between two others, about so many.
function ticks(low, high, about) {
  const rough = (high - low) / Math.max(about, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough);
  const found = [];
  for (let i = Math.ceil(low / step); i * step <= high; i++) found.push(Number((i * step).toPrecision(6)));
  return found;
}

// How far every row is on the way from the first to the last, or its sequence.
function rowParts({ rows, nRows }) {
  const n = rows.sequence ? rows.sequences.length : nRows;
  return Array.from({ length: nRows }, (_, row) => (rows.sequence ? rows.sequence[row] : row) / Math.max(n - 1, 1));
}

// The rows of every sequence, in order.
function sequencesOf({ sequence, sequences }, nRows) {
  const all = Array.from({ length: nRows }, (_, row) => row);
  return sequence ? sequences.map((_, s) => all.filter((row) => sequence[row] === s)) : [all];
}

// Without a sign of zero.
function hundredths(value) {
  return (Math.round(value * 100) / 100 + 0).toFixed(2);
}

function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
}

function made(kind, text, className) {
  const element = document.createElement(kind);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  return element;
}
