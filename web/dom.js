// These are helpers for building the page: elements, readable numbers, one shared tooltip.

export const $ = (id) => document.getElementById(id);

const kSvgNames = new Set(["svg", "path", "line", "rect", "circle", "g", "text", "polyline"]);

// el("div", {class: "x", text: "y", onclick: f}, child, …) for HTML and SVG elements.
export function el(name, attributes = {}, ...children) {
  const node = kSvgNames.has(name) ? document.createElementNS("http://www.w3.org/2000/svg", name) :
                                     document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key === "text")
      node.textContent = value;
    else if (key.startsWith("on"))
      node.addEventListener(key.slice(2), value);
    else
      node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.filter((c) => c !== null && c !== undefined));
  return node;
}

export function number(value, digits = 0) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  return value.toLocaleString(
      "en-US", {minimumFractionDigits: digits, maximumFractionDigits: digits});
}

// Returns 3 significant figures with a suitable prefix: 1.24 k, 31.0 M.
export function compact(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e9) return `${(value / 1e9).toPrecision(3)} G`;
  if (size >= 1e6) return `${(value / 1e6).toPrecision(3)} M`;
  if (size >= 1e4) return `${(value / 1e3).toPrecision(3)} k`;
  if (size >= 100 || Number.isInteger(value)) return number(value);
  return value.toPrecision(size >= 10 ? 3 : 2);
}

export function milliseconds(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (value >= 10000) return `${(value / 1000).toFixed(1)} s`;
  if (value >= 100) return `${value.toFixed(0)} ms`;
  return value >= 1 ? `${value.toPrecision(3)} ms` : `${value.toFixed(2)} ms`;
}

export function duration(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  const s = Math.floor(seconds);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
}

export function percent(share) {
  return Number.isFinite(share) ? `${(100 * share).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %` :
                                  "–";
}

// Returns a token's text with visible white space.
export function visible(text) {
  return text.replaceAll("\n", "↵").replaceAll("\t", "⇥").replaceAll(" ", "·") || "∅";
}

// --- tooltip: one element, filled on demand, kept inside the window ---------------------------

export function showTip(x, y, ...content) {
  const tip = $("tip");
  tip.replaceChildren(...content);
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const left = Math.min(Math.max(8, x - box.width / 2), window.innerWidth - box.width - 8);
  const above = y - box.height - 12;
  tip.style.left = `${left}px`;
  tip.style.top = `${above > 8 ? above : y + 20}px`;
}

export function hideTip() {
  $("tip").hidden = true;
}
