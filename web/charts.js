// A Chart is a small line chart of the last two minutes, drawn as SVG.

import {el, hideTip, showTip} from "./dom.js";

const kWidth = 320, kHeight = 120, kTop = 10, kBottom = 18;

// Returns the smallest of 1, 2, 5 · 10^n that is at least the value.
export function niceCeiling(value) {
  if (!(value > 0)) return 1;
  const base = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((f) => f * base).find((v) => v >= value * 0.9999);
}

// options: {title, unit, series: [{label, color}], format, top (fixed maximum or null), area}
export class Chart {
  constructor(options) {
    this.options = options;
    this.samples = [];
    this.now = el("span", {class: "chart-now", text: "–"});
    this.svg = el("svg", {
      viewBox: `0 0 ${kWidth} ${kHeight}`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": options.title
    });
    this.scale = el("span", {class: "chart-scale"});
    const legend = el(
        "ul", {class: "legend"},
        ...options.series.map((s) => el("li", {}, el("i", {class: `swatch ${s.color}`}), s.label)));
    this.node =
        el("article", {class: "card chart"},
           el("div", {class: "card-head"}, el("h2", {text: options.title}), this.now),
           el("div", {class: "plot"}, this.svg, this.scale), legend);
    this.svg.addEventListener("pointermove", (event) => this.hover(event));
    this.svg.addEventListener("pointerleave", hideTip);
  }

  // samples: [{age_s, values: [number|null, …]}], oldest first; window_s is the width of the plot.
  draw(samples, window_s) {
    this.samples = samples;
    this.window_s = window_s;
    const all = samples.flatMap((s) => s.values).filter(Number.isFinite);
    const top = this.options.top ?? niceCeiling(Math.max(...all, 0));
    const latest = samples.at(-1)?.values ?? [];
    const spoken =
        this.options.series.map((s, i) => `${s.label} ${this.options.format(latest[i])}`);
    this.svg.setAttribute("aria-label", `${this.options.title}: ${spoken.join(", ")}`);
    this.now.textContent = latest.map((v) => this.options.format(v)).join(" · ");
    this.scale.textContent = this.options.format(top);
    this.svg.dataset.points = all.length;
    const lines = [0, 0.5, 1].map((f) => el("line", {
                                    class: "rule",
                                    x1: 0,
                                    x2: kWidth,
                                    y1: this.y(f * top, top),
                                    y2: this.y(f * top, top)
                                  }));
    const paths = this.options.series.flatMap((s, i) => this.path(samples, i, top, s.color));
    this.svg.replaceChildren(...lines, ...paths);
  }

  x(age_s) {
    return kWidth * (1 - age_s / this.window_s);
  }

  y(value, top) {
    return kTop + (kHeight - kTop - kBottom) * (1 - Math.min(1, value / top));
  }

  // A gap in the data is a gap in the line.
  path(samples, index, top, color) {
    const runs = [];
    let run = null;
    for (const {age_s, values} of samples) {
      const v = values[index];
      if (!Number.isFinite(v)) {
        run = null;
        continue;
      }
      if (!run) runs.push(run = []);
      run.push([this.x(age_s).toFixed(1), this.y(v, top).toFixed(1)]);
    }
    const floor = this.y(0, top).toFixed(1);
    return runs.flatMap((points) => {
      const d = points.map(([x, y], i) => `${i ? "L" : "M"}${x} ${y}`).join("");
      const line = el("path", {class: `line ${color}`, d});
      if (!this.options.area || points.length < 2) return [line];
      return [
        el("path", {
          class: `area ${color}`,
          d: `${d}L${points.at(-1)[0]} ${floor}L${points[0][0]} ${floor}Z`
        }),
        line
      ];
    });
  }

  hover(event) {
    const box = this.svg.getBoundingClientRect();
    const age = this.window_s * (1 - (event.clientX - box.left) / box.width);
    let best = null;
    for (const s of this.samples)
      if (!best || Math.abs(s.age_s - age) < Math.abs(best.age_s - age)) best = s;
    if (!best) return;
    const rows = this.options.series.map(
        (s, i) =>
            el("div", {class: "alt"}, el("i", {class: `swatch ${s.color}`}),
               el("span", {text: s.label}), el("b", {text: this.options.format(best.values[i])})));
    showTip(
        event.clientX, box.top + 12,
        el("div", {class: "tip-head", text: `${Math.round(best.age_s)} s ago`}), ...rows);
  }
}
