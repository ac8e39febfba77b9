// Every column on a line of its own: what is predicted, how uncertain that is, and how it lies among the training rows.

const [LOWEST, LOW, HIGH, HIGHEST] = [0, 1, 2, 3]; // quantiles of the training rows
const SETTLED = 250; // milliseconds after the last change
const WIDE = 1.96; // standard deviations on each side that hold 95 %

class ColumnList {
  constructor(state) {
    this.state = state;
    this.scroll = document.getElementById("scroll");
    this.lines = new Array(state.nColumns);
    this.headings = [];
    this.#build();
    this.scroll.addEventListener("scroll", () => state.change("filter"), { passive: true });
    new ResizeObserver(() => state.change("size")).observe(this.scroll);
    const search = document.getElementById("search");
    search.addEventListener("input", () => this.#find(search.value));
  }

  draw(changed) {
    if (changed.has("colours")) this.#colour();
    if (changed.has("size")) {
      const shown = this.lines.find((line) => !line.element.hidden);
      if (shown) this.width = shown.track.clientWidth;
      this.lines.forEach((line) => this.#placeSpread(line));
    }
    if (changed.has("light")) {
      this.lines.forEach((line, d) => this.#light(line, d));
      this.#bringIntoView();
    }
    if (changed.has("size") || changed.has("filter")) this.visible = this.#visible();
    for (const d of this.visible) this.#update(this.lines[d], d);
    clearTimeout(this.settling);
    this.settling = setTimeout(() => this.order.forEach((d) => this.#update(this.lines[d], d)), SETTLED);
  }

  // Lines that can be seen now: the others wait until nothing moves.
  #visible() {
    const box = this.scroll.getBoundingClientRect();
    const [top, bottom] = [Math.max(box.top, 0), Math.min(box.bottom, window.innerHeight)];
    return this.order.filter((d) => {
      const { element } = this.lines[d];
      if (element.hidden) return false;
      const own = element.getBoundingClientRect();
      return own.bottom > top && own.top < bottom;
    });
  }

  #build() {
    const { state } = this;
    const { group, names } = state.columns;
    const list = document.getElementById("list");
    this.order = [];
    state.groups.forEach((name, k) => {
      const members = names.map((_, d) => d).filter((d) => group[d] === k);
      if (!members.length) return;
      const heading = made("h3", name);
      heading.append(made("span", members.length === 1 ? "1 column" : `${members.length} columns`));
      const part = made("ul");
      part.append(...members.map((d) => this.#line(d, names[d]).element));
      list.append(heading, part);
      this.headings.push({ heading, k, members });
      this.order.push(...members);
    });
    this.#makeRoom();
  }

  // For the longest numbers.
  #makeRoom() {
    const longest = (texts) => `${Math.max(...texts.map((text) => text.length)) + 0.5}ch`;
    const ends = this.lines.flatMap(({ spread, number }) => [number(spread[LOWEST]), number(spread[HIGHEST])]);
    const spreads = this.lines.map(({ number }, d) => number(this.state.columns.noise[d]));
    this.scroll.style.setProperty("--observed", longest(ends));
    this.scroll.style.setProperty("--value", `calc(${longest(ends)} + 3ch + ${longest(spreads)})`);
  }

  #line(d, name) {
    const element = made("li");
    const label = made("span", name, "name");
    label.title = name;
    const track = made("span", undefined, "track");
    const parts = Object.fromEntries(
      ["range", "most", "interval", "dot", "seen"].map((part) => [part, made("i", undefined, part)]),
    );
    track.append(...Object.values(parts));
    const [value, observed] = [made("span", "", "value"), made("span", "", "observed")];
    element.append(label, track, value, observed);
    const spread = this.state.columns.spread.subarray(4 * d, 4 * d + 4);
    const margin = 0.12 * (spread[HIGHEST] - spread[LOWEST]);
    const [low, high] = [spread[LOWEST] - margin, spread[HIGHEST] + margin];
    this.lines[d] = { element, track, value, observed, spread, low, high, number: numbers(this.state.columns.noise[d]), ...parts };
    return this.lines[d];
  }

  #colour() {
    const { group } = this.state.columns;
    this.lines.forEach((line, d) => line.element.style.setProperty("--own", groupColour(group[d])));
    this.headings.forEach(({ heading, k }) => heading.style.setProperty("--own", groupColour(k)));
  }

  #light(line, d) {
    line.element.style.opacity = 0.22 + 0.78 * this.state.light[d];
  }

  // What is lit up most, where the list can be scrolled.
  #bringIntoView() {
    const { lit, light } = this.state;
    if (!lit || this.scroll.scrollHeight <= this.scroll.clientHeight) return;
    const line = this.lines[Math.max(light.indexOf(1), 0)].element;
    const target = "group" in lit ? line.parentElement.previousElementSibling : line;
    const [top, wanted] = [this.scroll, target].map((one) => one.getBoundingClientRect().top);
    this.scroll.scrollTop += wanted - top - 36;
  }

  #at(line, value) {
    const part = (value - line.low) / (line.high - line.low);
    return Math.min(Math.max(part, 0), 1) * this.width;
  }

  #stretch(part, from, to) {
    part.style.transform = `translateX(${from}px) scaleX(${Math.max(to - from, 1)})`;
  }

  #placeSpread(line) {
    this.#stretch(line.range, this.#at(line, line.spread[LOWEST]), this.#at(line, line.spread[HIGHEST]));
    this.#stretch(line.most, this.#at(line, line.spread[LOW]), this.#at(line, line.spread[HIGH]));
  }

  #update(line, d) {
    const { mean, deviation, shownRow } = this.state;
    this.#stretch(line.interval, this.#at(line, mean[d] - WIDE * deviation[d]), this.#at(line, mean[d] + WIDE * deviation[d]));
    line.dot.style.transform = `translateX(${this.#at(line, mean[d])}px)`;
    write(line.value, `${line.number(mean[d])} ± ${line.number(deviation[d])}`);
    const value = shownRow === NOTHING ? NaN : this.state.valueOf(shownRow, d);
    line.seen.style.transform = `translateX(${this.#at(line, Number.isNaN(value) ? 0 : value)}px)`;
    line.seen.style.visibility = Number.isNaN(value) ? "hidden" : "visible";
    write(line.observed, shownRow === NOTHING ? "" : Number.isNaN(value) ? "gap" : line.number(value));
  }

  #find(text) {
    const wanted = text.trim().toLowerCase();
    const { names } = this.state.columns;
    let found = 0;
    for (const { heading, members } of this.headings) {
      let any = false;
      for (const d of members) {
        const matches = names[d].toLowerCase().includes(wanted);
        this.lines[d].element.hidden = !matches;
        any ||= matches;
        found += matches;
      }
      heading.hidden = !any;
    }
    document.getElementById("none").hidden = found > 0;
    this.state.change("filter");
  }
}

// Text that stays the same is not laid out again.
function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// How numbers of a column are written: with two digits of its noise.
function numbers(noise) {
  const digits = 1 - Math.floor(Math.log10(noise));
  return (value) =>
    digits > 5 || Math.abs(value) >= 1e7 ? value.toExponential(2) : value.toFixed(Math.max(digits, 0));
}
