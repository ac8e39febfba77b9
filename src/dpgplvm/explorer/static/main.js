// Puts the page together.

const data = told();
const state = new State(data);
const player = new Player(state);
const map = new LatentMap(state, player);
state.views.push(map, new ColumnList(state));
if (data.skeleton) state.views.push(new Body(state));
state.views.push(player, new Sliders(state, player), new Lights(state), new Legend(state, map));
listenToTheme(state);

const shownRows = state.nRows === data.model.rows ? `${state.nRows} rows` : `${state.nRows} of ${data.model.rows} rows`;
const counted = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;
document.getElementById("facts").textContent = [
  data.model.kind,
  shownRows,
  counted(state.nColumns, "column"),
  counted(state.nLatents, "latent"),
  counted(data.groups.length, "group"),
  `kernel ${data.model.kernel}`,
].join(" · ");

// Keys work without a click on the map first.
document.addEventListener("keydown", (event) => {
  if (event.target === document.body) map.key(event);
});
document.addEventListener("scroll", () => state.change("filter"), { passive: true });

state.change("latents", "axes", "light", "row", "colours", "size");

// For those who want the numbers: explorer.predict([0.5, -1]) in the browser's console.
window.explorer = {
  columns: data.columns.names,
  latents: () => [...state.latents],
  shown: () => ({ mean: [...state.mean], std: [...state.deviation] }),
  predict(latents) {
    const [mean, std] = [new Float64Array(state.nColumns), new Float64Array(state.nColumns)];
    state.posterior.predict(latents, mean, std);
    return { mean: [...mean], std: [...std] };
  },
};
