// Sliders of the latents, what is lit up, the legend, and light or dark.

class Sliders {
  constructor(state, player) {
    this.state = state;
    this.sliders = state.ranges.map(([low, high], q) => {
      const label = made("label");
      const name = made("span", `latent ${q}`);
      const slider = Object.assign(made("input"), { type: "range", min: low, max: high, step: "any" });
      slider.setAttribute("aria-label", name.textContent);
      const value = made("output");
      label.append(name, slider, value);
      document.getElementById("sliders").append(label);
      slider.addEventListener("input", () => {
        player.pause();
        state.moveTo(q, Number(slider.value));
      });
      // A step of "any" is too small for keys.
      slider.addEventListener("keydown", (event) => {
        if (!(event.key in KEYS)) return;
        player.pause();
        state.moveTo(q, state.latents[q] + (KEYS[event.key][1] * (event.shiftKey ? 6 : 1) * (high - low)) / 60);
        event.preventDefault();
        event.stopPropagation();
      });
      return { label, slider, value };
    });
  }

  draw(changed) {
    if (!changed.has("latents") && !changed.has("axes")) return;
    const { latents, axes } = this.state;
    this.sliders.forEach(({ label, slider, value }, q) => {
      slider.value = latents[q];
      value.textContent = hundredths(latents[q]);
      slider.setAttribute("aria-valuetext", value.textContent);
      label.classList.toggle("on-map", axes.includes(q));
    });
  }
}

class Lights {
  constructor(state) {
    this.state = state;
    const [ofGroups, ofLatents] = document.getElementById("lights").children;
    this.buttons = [
      ...this.#row(ofGroups, "groups", state.groups, (k) => ({ group: k })),
      ...this.#row(ofLatents, "moved by", state.ranges.map((_, q) => `latent ${q}`), (q) => ({ latent: q })),
    ];
  }

  draw(changed) {
    if (changed.has("colours")) {
      for (const { button, what } of this.buttons) {
        if ("group" in what) button.style.setProperty("--own", groupColour(what.group));
      }
    }
    if (changed.has("light")) {
      for (const { button, what } of this.buttons) button.setAttribute("aria-pressed", this.#isLit(what));
    }
  }

  #isLit(what) {
    const { lit } = this.state;
    return lit !== null && lit.group === what.group && lit.latent === what.latent;
  }

  #row(parent, label, names, whatOf) {
    parent.append(made("span", label));
    return names.map((name, i) => {
      const button = Object.assign(made("button", name), { type: "button" });
      const what = whatOf(i);
      if ("group" in what) button.classList.add("of-group");
      button.setAttribute("aria-pressed", "false");
      button.addEventListener("click", () => this.state.lightUp(this.#isLit(what) ? null : what));
      parent.append(button);
      return { button, what };
    });
  }
}

class Legend {
  constructor(state, map) {
    Object.assign(this, { state, map });
    this.rows = document.getElementById("rows-legend");
    this.scale = document.getElementById("doubt-scale");
    this.scale.parentElement.title =
      "Root mean square of the standard deviations of the lit columns, each in units of the column's own";
  }

  draw(changed) {
    if (changed.has("colours")) {
      this.#nameRows();
      const [red, green, blue] = rgb(ofPage("--shade"));
      this.#fill(this.scale, (part) => `rgb(${red} ${green} ${blue} / ${MOST_SHADE * part})`);
    }
    if (changed.has("shading")) {
      const { least, most } = this.map.shading.image;
      document.getElementById("sure").textContent = `sure (${least.toFixed(2)} sd)`;
      document.getElementById("unsure").textContent = `unsure (${most.toFixed(2)} sd)`;
    }
  }

  #nameRows() {
    const { sequences } = this.state.rows;
    if (sequences.length > 1 && sequences.length <= 6) {
      this.rows.replaceChildren(...sequences.map((name, s) => {
        const item = made("span", name, "kind");
        item.style.setProperty("--own", rowColour(s / (sequences.length - 1)));
        return item;
      }));
      return;
    }
    const [first, last] = sequences.length > 1 ? [sequences[0], sequences.at(-1)] : ["first row", "last row"];
    const scale = Object.assign(made("canvas"), { width: 64, height: 8 });
    this.#fill(scale, rowColour);
    this.rows.replaceChildren(made("span", first), scale, made("span", last));
  }

  // A canvas with a scale of colours from 0 to 1.
  #fill(canvas, colour) {
    const context = canvas.getContext("2d");
    context.clearRect(0, 0, canvas.width, canvas.height);
    for (let x = 0; x < canvas.width; x++) {
      context.fillStyle = colour(x / (canvas.width - 1));
      context.fillRect(x, 0, 1, canvas.height);
    }
  }
}

function listenToTheme(state) {
  const choice = document.getElementById("theme");
  choice.addEventListener("change", () => {
    document.documentElement.dataset.theme = choice.value;
    state.change("colours");
  });
  darkSystem.addEventListener("change", () => state.change("colours"));
}
