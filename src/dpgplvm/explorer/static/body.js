// The body that the columns of joints predict, with how uncertain the joints are; in space it can be turned.

class Body {
  constructor(state) {
    this.state = state;
    const { columns, turning } = state.skeleton;
    [this.nJoints, this.nAxes] = columns.shape;
    this.turning = turning;
    [this.yaw, this.pitch] = this.nAxes === 3 ? [0.6, 0.25] : [0, 0];
    this.figure = document.getElementById("figure");
    this.canvas = this.figure.querySelector("canvas");
    this.label = document.getElementById("joint");
    this.follow = document.getElementById("follow");
    document.getElementById("body").hidden = false;
    document.body.classList.add("has-body");
    this.places = new Float64Array(2 * this.nJoints);
    this.radii = new Float64Array(2 * this.nJoints);
    this.ghost = new Float64Array(2 * this.nJoints);
    this.#survey();
    this.#turn();
    this.follow.checked = this.wanders;
    this.follow.addEventListener("change", () => state.change("view"));
    new ResizeObserver(() => state.change("size")).observe(this.figure);
    this.#listen();
  }

  draw(changed) {
    if (changed.has("size")) this.#measure();
    if (![...changed].some((one) => one !== "filter" && one !== "shading")) return;
    this.#project();
    this.#paint();
  }

  // What the screen's two axes are made of.
  #turn() {
    const { turning, nAxes } = this;
    const rows = Array.from({ length: nAxes }, (_, i) => Array.from(turning.subarray(i * nAxes, (i + 1) * nAxes)));
    if (nAxes === 2) this.view = rows;
    else {
      const [cy, sy, cp, sp] = [Math.cos(this.yaw), Math.sin(this.yaw), Math.cos(this.pitch), Math.sin(this.pitch)];
      const [right, away, up] = rows;
      this.view = [
        right.map((_, a) => cy * right[a] + sy * away[a]),
        right.map((_, a) => cp * up[a] + sp * (cy * away[a] - sy * right[a])),
      ];
    }
  }

  // Along every axis where the training rows are, and how large the body is in any of them.
  #survey() {
    const { columns } = this.state.skeleton;
    const { nAxes, nJoints, state } = this;
    this.lows = new Float64Array(nAxes).fill(Infinity);
    this.highs = new Float64Array(nAxes).fill(-Infinity);
    this.sizes = new Float64Array(nAxes);
    for (let row = 0; row < state.nRows; row++) {
      for (let a = 0; a < nAxes; a++) {
        let [low, high] = [Infinity, -Infinity];
        for (let j = 0; j < nJoints; j++) {
          const value = state.valueOf(row, columns[j * nAxes + a]);
          if (value < low) low = value;
          if (value > high) high = value;
        }
        if (low > high) continue;
        this.lows[a] = Math.min(this.lows[a], low);
        this.highs[a] = Math.max(this.highs[a], high);
        this.sizes[a] = Math.max(this.sizes[a], high - low);
      }
    }
    // A single joint has no size of its own.
    if (!this.sizes.some((size) => size > 0)) this.sizes = this.highs.map((high, a) => high - this.lows[a]);
    this.wanders = this.sizes.some((size, a) => this.highs[a] - this.lows[a] > 2 * size);
  }

  #placeOf(value, places) {
    const { columns } = this.state.skeleton;
    const { nAxes, view } = this;
    for (let j = 0; j < this.nJoints; j++) {
      for (let i = 0; i < 2; i++) {
        let sum = 0;
        for (let a = 0; a < nAxes; a++) sum += view[i][a] * value(columns[j * nAxes + a]);
        places[2 * j + i] = sum;
      }
    }
  }

  #measure() {
    const box = this.figure.getBoundingClientRect();
    [this.width, this.height] = [box.width, box.height];
    const density = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(box.width * density);
    this.canvas.height = Math.round(box.height * density);
    this.context = this.canvas.getContext("2d");
    this.context.setTransform(density, 0, 0, density, 0, 0);
  }

  #project() {
    const { state, places, radii, nAxes, view } = this;
    const { columns } = state.skeleton;
    this.#placeOf((d) => state.mean[d], places);
    for (let j = 0; j < this.nJoints; j++) {
      for (let i = 0; i < 2; i++) {
        let sum = 0;
        for (let a = 0; a < nAxes; a++) sum += (view[i][a] * state.deviation[columns[j * nAxes + a]]) ** 2;
        radii[2 * j + i] = Math.sqrt(sum);
      }
    }
    const [wide, tall] = this.#extent();
    this.scale = 0.84 * Math.min(this.width / wide, this.height / tall);
    this.#centre(places);
  }

  // How wide and how tall what is drawn can be; in space the same from all sides, so that turning does not zoom.
  #extent() {
    const lengths = this.follow.checked ? this.sizes : this.highs.map((high, a) => high - this.lows[a]);
    if (this.nAxes === 3) return Array(2).fill(0.85 * Math.hypot(...lengths));
    return this.view.map((axis) => axis.reduce((sum, one, a) => sum + Math.abs(one) * lengths[a], 0));
  }

  // Moves a body to where it is drawn, in pixels.
  #centre(places) {
    const [x, y] = [0, 1].map((i) => (this.follow.checked ? middle(places, i) : this.#middleOfAll(i)));
    for (let j = 0; j < this.nJoints; j++) {
      places[2 * j] = this.width / 2 + this.scale * (places[2 * j] - x);
      places[2 * j + 1] = this.height / 2 - this.scale * (places[2 * j + 1] - y);
    }
  }

  #middleOfAll(i) {
    return this.view[i].reduce((sum, one, a) => sum + (one * (this.lows[a] + this.highs[a])) / 2, 0);
  }

  #pixels(places, j) { return [places[2 * j], places[2 * j + 1]]; }

  #paint() {
    const { context, state } = this;
    const [ink, faint, surface] = [ofPage("--ink"), ofPage("--faint"), ofPage("--surface")];
    context.clearRect(0, 0, this.width, this.height);
    this.#paintHalos();
    if (state.shownRow !== NOTHING) {
      this.#placeOf((d) => state.valueOf(state.shownRow, d), this.ghost);
      this.#centre(this.ghost);
      this.#paintBones(this.ghost, faint, 1.2, [4, 3]);
      for (let j = 0; j < this.nJoints; j++) this.#disc(this.#pixels(this.ghost, j), 3, surface, faint);
    }
    this.#paintBones(this.places, ink, 2.4, []);
    for (let j = 0; j < this.nJoints; j++) this.#paintJoint(j, surface);
  }

  #paintBones(places, colour, width, dash) {
    const { context } = this;
    Object.assign(context, { strokeStyle: colour, lineWidth: width, lineCap: "round" });
    context.setLineDash(dash);
    for (const [one, other] of this.state.skeleton.bones) {
      context.globalAlpha = dash.length ? 1 : 0.25 + 0.45 * Math.max(this.#lightOf(one), this.#lightOf(other));
      context.beginPath();
      context.moveTo(...this.#pixels(places, one));
      context.lineTo(...this.#pixels(places, other));
      context.stroke();
    }
    context.setLineDash([]);
    context.globalAlpha = 1;
  }

  #paintHalos() {
    const { context, scale, radii } = this;
    for (let j = 0; j < this.nJoints; j++) {
      const [x, y] = this.#pixels(this.places, j);
      context.fillStyle = this.#coloursOf(j)[0];
      context.globalAlpha = 0.07 + 0.13 * this.#lightOf(j);
      context.beginPath();
      context.ellipse(x, y, WIDE * scale * radii[2 * j], WIDE * scale * radii[2 * j + 1], 0, 0, 2 * Math.PI);
      context.fill();
    }
    context.globalAlpha = 1;
  }

  // A joint has the colours of its axes' groups: x first from twelve o'clock on anticlockwise, as in the plots.
  #paintJoint(j, surface) {
    const { context } = this;
    const [x, y] = this.#pixels(this.places, j);
    const colours = this.#coloursOf(j);
    this.#disc([x, y], 6, surface, surface);
    context.globalAlpha = 0.25 + 0.75 * this.#lightOf(j);
    colours.forEach((colour, part) => {
      context.fillStyle = colour;
      context.beginPath();
      context.moveTo(x, y);
      const [from, to] = [part, part + 1].map((one) => -Math.PI / 2 - (2 * Math.PI * one) / colours.length);
      context.arc(x, y, 5, from, to, true);
      context.fill();
    });
    context.globalAlpha = 1;
  }

  #disc([x, y], radius, fill, stroke) {
    const { context } = this;
    Object.assign(context, { fillStyle: fill, strokeStyle: stroke, lineWidth: 1.2 });
    context.beginPath();
    context.arc(x, y, radius, 0, 2 * Math.PI);
    context.fill();
    context.stroke();
  }

  #columnsOf(j) { return this.state.skeleton.columns.subarray(j * this.nAxes, (j + 1) * this.nAxes); }

  #coloursOf(j) {
    const colours = Array.from(this.#columnsOf(j), (d) => groupColour(this.state.columns.group[d]));
    return new Set(colours).size > 1 ? colours : colours.slice(0, 1);
  }

  #lightOf(j) { return Math.max(...[...this.#columnsOf(j)].map((d) => this.state.light[d])); }

  #listen() {
    const { canvas, state } = this;
    const inSpace = this.nAxes === 3;
    canvas.setAttribute("role", inSpace ? "application" : "img");
    canvas.setAttribute("aria-label", inSpace ? "Predicted body: arrow keys turn it" : "Predicted body");
    let last = null;
    const turn = (yaw, pitch) => {
      this.yaw += yaw;
      this.pitch = Math.min(Math.max(this.pitch + pitch, -1.5), 1.5);
      this.#turn();
      state.change("view");
    };
    canvas.addEventListener("pointermove", (event) => {
      if (last && inSpace) {
        turn((event.clientX - last[0]) * -0.01, (event.clientY - last[1]) * 0.01);
        last = [event.clientX, event.clientY];
      }
      this.#name(event);
    });
    canvas.addEventListener("pointerleave", () => { this.label.textContent = ""; });
    if (!inSpace) return;
    canvas.tabIndex = 0;
    canvas.classList.add("turns");
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      last = [event.clientX, event.clientY];
    });
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => { last = null; });
    canvas.addEventListener("keydown", (event) => {
      if (!(event.key in KEYS)) return;
      const [axis, sign] = KEYS[event.key];
      turn(axis === 0 ? -0.1 * sign : 0, axis === 1 ? 0.1 * sign : 0);
      event.preventDefault();
      event.stopPropagation();
    });
  }

  // The joint under the pointer.
  #name(event) {
    const box = this.canvas.getBoundingClientRect();
    let [nearest, least] = [NOTHING, REACH];
    for (let j = 0; j < this.nJoints; j++) {
      const [x, y] = this.#pixels(this.places, j);
      const distance = Math.hypot(x - event.clientX + box.left, y - event.clientY + box.top);
      if (distance < least) [nearest, least] = [j, distance];
    }
    this.label.textContent = nearest === NOTHING ? "" : this.state.skeleton.joints[nearest];
  }
}

// Half way between the ends of a body along one of the screen's axes; gaps do not count.
function middle(places, i) {
  let [low, high] = [Infinity, -Infinity];
  for (let at = i; at < places.length; at += 2) {
    if (places[at] < low) low = places[at];
    if (places[at] > high) high = places[at];
  }
  return (low + high) / 2;
}
