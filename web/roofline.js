// This view shows the running steps on the roofline, FLOP per byte across and FLOP/s up, and what
// their time is spent on.

import {compact, el, hideTip, milliseconds, percent, showTip} from "./dom.js";

const kMinWidth = 300, kMaxWidth = 640;  // of the drawing; wider plots are scaled up
const kHeight = 264, kLeft = 46, kRight = 60, kTop = 26, kBottom = 34;
const kLabelHeight = 11, kLabelWidth = 44;
const kShown = 64;  // number of dots; the newest is the darkest
const kTermColors =
    {weights: "c1", kv: "c3", activations: "c5", compute: "c2", network: "c4", launch: "c4", host: "c4"};

// Returns the rows of /quire/steps as objects, without steps that have no bound.
export function readSteps(answer) {
  const first = answer.columns.length;
  return answer.steps
      .map((row) => {
        const step = Object.fromEntries(answer.columns.map((name, i) => [name, row[i]]));
        step.terms = Object.fromEntries(answer.terms.map((name, i) => [name, row[first + i]]));
        return step;
      })
      .filter((s) => s.bound_us > 0 && s.bytes > 0 && s.measured_us > 0);
}

// Returns the measured time of the steps by term: host time as measured, the rest in the predicted
// proportions.
export function timeByTerm(steps) {
  const sums = {};
  for (const step of steps) {
    const {host: _, ...device} = step.terms;
    const predicted = Object.values(device).reduce((a, b) => a + b, 0);
    const measured = step.measured_us - step.host_us;
    for (const [term, us] of Object.entries(device))
      sums[term] = (sums[term] ?? 0) + (predicted > 0 ? us / predicted * measured : 0);
    sums.host = (sums.host ?? 0) + step.host_us;
  }
  return sums;
}

// Formats 1000000000 as "1 G", for axes of powers of ten.
function power(value) {
  const unit = [[1e12, " T"], [1e9, " G"], [1e6, " M"], [1e3, " k"]].find(([size]) => value >= size * 0.999);
  return unit ? `${Math.round(value / unit[0])}${unit[1]}` : `${Number(value.toPrecision(1))}`;
}

// Returns heights for labels that should be at `wanted`: in that order, no two closer than `gap`.
export function spread(wanted, gap) {
  const order = wanted.map((y, i) => [y, i]).sort((a, b) => a[0] - b[0]);
  const out = [];
  let free = -Infinity;
  for (const [y, i] of order) {
    out[i] = Math.max(y, free);
    free = out[i] + gap;
  }
  return out;
}

const decade = (value, round) => round(Math.log10(Math.max(value, 1e-3)));

export class Roofline {
  constructor(node) {
    this.width = kMaxWidth;
    this.svg = el("svg", {
      role: "img",
      "aria-label": "Running steps on the roofline"
    });
    this.caption = el("p", {class: "caption"});
    this.now = el("span", {class: "chart-now", text: "–"});
    this.bar = el("svg", {
      viewBox: "0 0 640 14",
      class: "roof-bar",
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": "Where the time of these steps went"
    });
    this.legend = el("ul", {class: "legend"});
    node.append(
        el("div", {class: "card-head"}, el("h2", {text: "Roofline"}), this.now), this.caption,
        el("div", {class: "roof-plot"}, this.svg), this.bar, this.legend);
    this.svg.addEventListener("pointerleave", hideTip);
  }

  draw(answer) {
    if (!answer.hardware) {
      this.caption.textContent = "The server runs without a hardware description.";
      return;
    }
    const steps = readSteps(answer);
    this.width = Math.min(kMaxWidth, Math.max(kMinWidth, this.svg.parentElement.clientWidth));
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${kHeight}`);
    const {name, bytes_per_s, peaks} = answer.hardware;
    this.caption.textContent =
        `${name}: ${compact(bytes_per_s / 1e9)} GB/s. Each dot is a step; on the line nothing is left to gain.`;
    this.scale(steps, peaks, bytes_per_s);
    const shown = steps.slice(-kShown);
    this.svg.dataset.points = shown.length;
    this.svg.replaceChildren(
        ...this.axes(), ...this.roofs(peaks, bytes_per_s),
        ...shown.map((step, i) => this.dot(step, (i + 1) / shown.length)));
    this.share(shown);
  }

  scale(steps, peaks, bytes_per_s) {
    const top = Math.max(...Object.values(peaks));
    const reached = steps.map((s) => s.flops / s.measured_us * 1e6);
    const intensity = steps.map((s) => s.flops / s.bytes);
    this.x0 = decade(Math.min(0.1, ...intensity), Math.floor);
    this.x1 = decade(Math.max(10 * top / bytes_per_s, ...intensity), Math.ceil);
    this.y0 = decade(Math.min(top / 1e3, ...reached), Math.floor);
    this.y1 = decade(top, Math.ceil);
  }

  x(value) {
    const f = (Math.log10(value) - this.x0) / (this.x1 - this.x0);
    return kLeft + Math.min(1, Math.max(0, f)) * (this.width - kLeft - kRight);
  }

  y(value) {
    const f = (Math.log10(value) - this.y0) / (this.y1 - this.y0);
    return kHeight - kBottom - Math.min(1, Math.max(0, f)) * (kHeight - kTop - kBottom);
  }

  axes() {
    const nodes = [];
    const bottom = kHeight - kBottom, right = this.width - kRight;
    const decadeWidth = (right - kLeft) / (this.x1 - this.x0);
    const decadeHeight = (bottom - kTop) / (this.y1 - this.y0);
    const every = Math.ceil(kLabelWidth / decadeWidth), everyUp = Math.ceil(kLabelHeight / decadeHeight);
    for (let e = this.x0; e <= this.x1; ++e) {
      const x = this.x(10 ** e);
      nodes.push(el("line", {class: "rule", x1: x, x2: x, y1: kTop, y2: bottom}));
      if ((e - this.x0) % every === 0) nodes.push(el("text", {class: "roof-text", x, y: bottom + 13, "text-anchor": "middle", text: power(10 ** e)}));
    }
    for (let e = this.y0; e <= this.y1; ++e) {
      const y = this.y(10 ** e);
      nodes.push(el("line", {class: "rule", x1: kLeft, x2: right, y1: y, y2: y}));
      if ((e - this.y0) % everyUp === 0) nodes.push(el("text", {class: "roof-text", x: kLeft - 5, y: y + 3, "text-anchor": "end", text: power(10 ** e)}));
    }
    nodes.push(el("text", {class: "roof-text", x: right, y: kHeight - 3, "text-anchor": "end", text: "FLOP per byte"}));
    nodes.push(el("text", {class: "roof-text", x: kLeft - 5, y: 10, "text-anchor": "end", text: "FLOP/s"}));
    return nodes;
  }

  roofs(peaks, bytes_per_s) {
    const entries = Object.entries(peaks);
    const heights = spread(entries.map(([, peak]) => this.y(peak)), kLabelHeight);
    return entries.flatMap(([name, peak], i) => {
      const begin = Math.max(10 ** this.x0, 10 ** this.y0 / bytes_per_s), bend = peak / bytes_per_s, right = this.width - kRight;
      const points = [[this.x(begin), this.y(begin * bytes_per_s)], [this.x(bend), this.y(peak)], [right, this.y(peak)]];
      return [
        el("polyline", {class: "roof", points: points.map((p) => p.map((v) => v.toFixed(1)).join(",")).join(" ")}),
        el("text", {class: "roof-text", x: right + 5, y: heights[i] + 3, text: name})
      ];
    });
  }

  dot(step, age) {
    const reached = step.flops / step.measured_us * 1e6;
    const kind = step.decodes === step.requests ? "c1" : step.decodes ? "c4" : "c2";
    return el("circle", {
      class: `roof-dot ${kind}`,
      cx: this.x(step.flops / step.bytes).toFixed(1),
      cy: this.y(reached).toFixed(1),
      r: 3.5,
      "fill-opacity": (0.15 + 0.85 * age * age).toFixed(2),
      onpointerenter: (event) => showTip(
          event.clientX, event.clientY, el("div", {class: "tip-head", text: `step ${step.step}`}),
          el("div", {text: `${step.tokens} tokens of ${step.requests} requests`}),
          el("div", {text: `measured ${milliseconds(step.measured_us / 1e3)}, predicted ${milliseconds(step.predicted_us / 1e3)}`}),
          el("div", {text: `bound ${milliseconds(step.bound_us / 1e3)}, ${percent(step.bound_us / step.measured_us)} of it reached`}))
    });
  }

  // Shows the share of the bound over the shown steps, and a bar of what their time was spent on.
  share(steps) {
    const sum = (f) => steps.reduce((total, s) => total + f(s), 0);
    const measured = sum((s) => s.measured_us);
    this.now.textContent = measured > 0 ? `${percent(sum((s) => s.bound_us) / measured)} of the bound` : "–";
    const parts = Object.entries(timeByTerm(steps)).filter(([, us]) => us > 0.005 * measured);
    let x = 0;
    this.bar.replaceChildren(...parts.map(([term, us]) => {
      const width = 640 * us / measured;
      x += width;
      return el("rect", {class: `roof-part ${kTermColors[term]} ${term}`, x: x - width, y: 0, width, height: 14});
    }));
    this.legend.replaceChildren(...parts.map(
        ([term, us]) => el("li", {}, el("i", {class: `swatch ${kTermColors[term]} ${term}`}), `${term} ${percent(us / measured)}`)));
  }
}
