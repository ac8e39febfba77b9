// Rows one after another, as a film: the point goes from each to the next.

const SHAPES = { play: "M4 2.5v11l9.5-5.5z", pause: "M3.5 2.5h3.2v11H3.5zM9.3 2.5h3.2v11H9.3z" };
const ALL = "all";

class Player {
  constructor(state) {
    this.state = state;
    const { rows, nRows } = state;
    this.sequences = sequencesOf(rows, nRows);
    this.button = document.getElementById("play");
    this.slider = document.getElementById("row");
    this.name = document.getElementById("row-name");
    this.choice = document.getElementById("sequence");
    this.rate = document.getElementById("rate");
    this.rate.value = nRows > 100 ? "25" : "10";
    this.playing = false;
    this.at = 0; // among the rows that are played, with parts of the way to the next
    this.#choose(ALL);
    this.#listen();
  }

  draw(changed) {
    if (!changed.has("row")) return;
    const row = this.rows[Math.min(Math.floor(this.at), this.rows.length - 1)];
    this.slider.value = Math.floor(this.at);
    const on = this.playing || this.state.standsAt !== NOTHING;
    const name = this.state.rows.names[row];
    this.name.textContent = on ? `row ${name}` : "not at a row";
    this.slider.setAttribute("aria-valuetext", `row ${name}`);
  }

  toggle() { if (this.playing) this.pause(); else this.#play(); }

  pause() {
    if (!this.playing) return;
    this.playing = false;
    this.#show();
    this.state.change("row");
  }

  goTo(row) {
    this.pause();
    if (!this.rows.includes(row)) this.#choose(ALL);
    this.at = this.rows.indexOf(row);
    this.state.moveToRow(row);
  }

  #play() {
    this.playing = true;
    if (this.at >= this.rows.length - 1) this.at = 0;
    this.#show();
    let before = null;
    const step = (now) => {
      if (!this.playing) return;
      if (before !== null) this.at += ((now - before) / 1000) * Number(this.rate.value);
      before = now;
      if (this.at >= this.rows.length) this.at = 0;
      this.#place();
      requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  }

  #place() {
    const i = Math.floor(this.at);
    const [row, next] = [this.rows[i], this.rows[i + 1]];
    const { sequence, joined } = this.state.rows;
    // Where one sequence ends and another begins there is no way between.
    const follows = joined && next !== undefined && (!sequence || sequence[row] === sequence[next]);
    if (follows) this.state.moveBetween(row, next, this.at - i);
    else this.state.moveToRow(row);
  }

  #choose(which) {
    this.choice.value = which;
    this.rows = which === ALL ? this.sequences.flat() : this.sequences[Number(which)];
    this.slider.max = this.rows.length - 1;
    this.at = 0;
  }

  #listen() {
    const { sequences } = this.state.rows;
    if (sequences.length > 1) {
      this.choice.append(new Option("all", ALL), ...sequences.map((name, s) => new Option(name, s)));
    } else this.choice.parentElement.hidden = true;
    this.choice.addEventListener("change", () => {
      this.#choose(this.choice.value);
      if (this.playing) return;
      this.state.moveToRow(this.rows[0]);
    });
    this.button.addEventListener("click", () => this.toggle());
    this.slider.addEventListener("input", () => {
      this.pause();
      this.at = Number(this.slider.value);
      this.state.moveToRow(this.rows[this.at]);
    });
    this.#show();
  }

  #show() {
    this.button.setAttribute("aria-label", this.playing ? "Pause" : "Play");
    this.button.title = this.playing ? "pause (space)" : "play (space)";
    this.button.querySelector("path").setAttribute("d", SHAPES[this.playing ? "pause" : "play"]);
  }
}
