// Colours that colour-blind people can tell apart, for light pages and for dark ones.

// Okabe and Ito's for groups; their yellow is too pale on white, and their black cannot be seen on black.
const GROUP_COLOURS = {
  light: ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#6f6f6f"],
  dark: ["#4ea6e0", "#ff8845", "#26c495", "#e59ac6", "#92d2f7", "#f3bb45", "#b8b8b8"],
};
// Viridis for rows, without the end that the page itself has.
const ROW_COLOURS = {
  light: ["#440154", "#414487", "#2a788e", "#22a884", "#7ad151"],
  dark: ["#8a63c9", "#4f8fbf", "#22a884", "#7ad151", "#fde725"],
};

const darkSystem = matchMedia("(prefers-color-scheme: dark)");

function theme() {
  return document.documentElement.dataset.theme || (darkSystem.matches ? "dark" : "light");
}

function rgb(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

function mixed(one, other, part) {
  const [a, b] = [rgb(one), rgb(other)];
  return `#${a.map((v, i) => Math.round(v + part * (b[i] - v)).toString(16).padStart(2, "0")).join("")}`;
}

// After the first seven the same again, paler, then darker.
function groupColour(k) {
  const own = GROUP_COLOURS[theme()];
  const turn = Math.floor(k / own.length) % 3;
  return mixed(own[k % own.length], turn === 1 ? "#ffffff" : "#000000", [0, 0.45, 0.4][turn]);
}

// `part` runs from 0, the first, to 1, the last.
function rowColour(part) {
  const own = ROW_COLOURS[theme()];
  const at = part * (own.length - 1);
  const before = Math.min(Math.floor(at), own.length - 2);
  return mixed(own[before], own[before + 1], at - before);
}

function ofPage(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
