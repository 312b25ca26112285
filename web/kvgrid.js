// The KV cache as a grid: one square per block, coloured by owner; shared, cached and free stand
// apart.

import {$, el, hideTip, number, showTip} from "./dom.js";

export const kState = {
  null: 0,
  free: 1,
  cached: 2,
  used: 3,
  shared: 4
};
const kStateNames = ["null block", "free", "cached, free to reuse", "in use", "shared"];
const kMaxHeight = 320, kMaxCell = 18, kMinCell = 4;

// Expands the run-length code into flat arrays, refusing what does not add up.
export function expand(answer) {
  const n = answer.num_blocks;
  const state = new Uint8Array(n), owner = new Int32Array(n).fill(-1), refs = new Int32Array(n);
  let at = 0;
  for (const [count, runState, runOwner, refCnt] of answer.runs) {
    if (at + count > n) throw new Error(`the block list is longer than ${n}`);
    state.fill(runState, at, at + count);
    owner.fill(runOwner, at, at + count);
    refs.fill(refCnt, at, at + count);
    at += count;
  }
  if (at !== n) throw new Error(`the block list has ${at} of ${n} blocks`);
  return {state, owner, refs};
}

// The largest cell with which n cells fit; beyond that one cell stands for several blocks.
export function layout(n, width) {
  for (let cell = kMaxCell; cell >= kMinCell; cell--) {
    const columns = Math.max(1, Math.floor(width / cell));
    if (Math.ceil(n / columns) * cell <= kMaxHeight) return {cell, columns, perCell: 1};
  }
  const columns = Math.max(1, Math.floor(width / kMinCell));
  const perCell = Math.ceil(n / (columns * Math.floor(kMaxHeight / kMinCell)));
  return {cell: kMinCell, columns, perCell};
}

// A request keeps its colour while it lives: names take the first hue that nobody uses.
const kHues = [200, 20, 95, 275, 48, 335, 165, 230, 5, 130, 305, 70];

class Palette {
  constructor() {
    this.slots = new Map();
  }

  keep(names) {
    const alive = new Set(names);
    for (const name of this.slots.keys())
      if (!alive.has(name)) this.slots.delete(name);
    const taken = new Set(this.slots.values());
    let next = 0;
    for (const name of names) {
      if (this.slots.has(name)) continue;
      while (taken.has(next)) next++;
      taken.add(next);
      this.slots.set(name, next);
    }
  }

  // Past the fixed hues the golden angle keeps neighbours apart.
  hue(name) {
    const slot = this.slots.get(name) ?? 0;
    return slot < kHues.length ? kHues[slot] : (slot * 137.508) % 360;
  }
}

export class KvGrid {
  constructor() {
    this.canvas = $("kv-grid");
    this.blocks = null;
    this.palette = new Palette();
    this.canvas.addEventListener("pointermove", (event) => this.hover(event));
    this.canvas.addEventListener("pointerleave", hideTip);
    new ResizeObserver(() => this.draw()).observe(this.canvas.parentElement);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
    new MutationObserver(() => this.redraw()).observe(document.documentElement, {
      attributeFilter: ["data-theme"]
    });
    const entries = [
      ["used", "in use, by owner"], ["shared", "shared"], ["cached", "cached"], ["free", "free"]
    ];
    $("kv-legend")
        .append(...entries.map(
            ([key, text]) => el("li", {}, el("i", {class: `swatch kv-${key}`}), text)));
  }

  update(answer) {
    this.answer = answer;
    this.blocks = expand(answer);
    this.palette.keep(answer.owners);
    this.redraw();
  }

  redraw() {
    if (!this.blocks) return;
    this.draw();
    this.describe();
  }

  color(i) {
    const css = getComputedStyle(document.documentElement);
    const state = this.blocks.state[i];
    if (state === kState.used) return this.ownerColor(this.blocks.owner[i]);
    return css.getPropertyValue(
        {0: "--kv-null", 1: "--kv-free", 2: "--kv-cached", 4: "--kv-shared"}[state] ?? "--kv-free");
  }

  ownerColor(index) {
    const name = this.answer.owners[index] ?? "";
    const css = getComputedStyle(document.documentElement);
    return `hsl(${this.palette.hue(name).toFixed(0)} ${css.getPropertyValue("--owner-s")} ${
        css.getPropertyValue("--owner-l")})`;
  }

  draw() {
    if (!this.blocks) return;
    const width = this.canvas.parentElement.clientWidth;
    if (width === 0) return;
    const n = this.answer.num_blocks;
    this.place = layout(n, width);
    const {cell, columns, perCell} = this.place;
    const cells = Math.ceil(n / perCell), rows = Math.ceil(cells / columns),
          ratio = window.devicePixelRatio || 1;
    this.canvas.width = columns * cell * ratio;
    this.canvas.height = rows * cell * ratio;
    this.canvas.style.width = `${columns * cell}px`;
    this.canvas.style.height = `${rows * cell}px`;
    const context = this.canvas.getContext("2d");
    context.scale(ratio, ratio);
    const gap = cell > 7 ? 2 : 1, radius = cell > 10 ? 3 : cell > 7 ? 2 : 0;
    const colors = new Map();
    for (let c = 0; c < cells; c++) {
      const i = this.busiest(c);
      const key = this.blocks.state[i] * 1e6 + this.blocks.owner[i];
      if (!colors.has(key)) colors.set(key, this.color(i));
      context.fillStyle = colors.get(key);
      context.beginPath();
      context.roundRect(
          (c % columns) * cell, Math.floor(c / columns) * cell, cell - gap, cell - gap, radius);
      context.fill();
    }
    this.canvas.dataset.cells = cells;
  }

  // Of the blocks behind one cell, the one in the busiest state stands for all.
  busiest(c) {
    const {perCell} = this.place;
    let best = c * perCell;
    for (let i = best; i < Math.min((c + 1) * perCell, this.answer.num_blocks); i++) {
      if (this.blocks.state[i] > this.blocks.state[best]) best = i;
    }
    return best;
  }

  counts() {
    const byState = [0, 0, 0, 0, 0], byOwner = new Map();
    this.blocks.state.forEach((s, i) => {
      byState[s]++;
      const owner = this.blocks.owner[i];
      if (owner >= 0 && s >= kState.used) byOwner.set(owner, (byOwner.get(owner) ?? 0) + 1);
    });
    return {byState, byOwner};
  }

  describe() {
    const {byState, byOwner} = this.counts();
    const total = this.answer.num_blocks;
    const text = `${number(total)} blocks of ${this.answer.block_size} tokens: ${
                     number(byState[3])} in use, ${number(byState[4])} shared, ` +
        `${number(byState[2])} cached, ${number(byState[1])} free.`;
    $("kv-caption").textContent = text;
    $("kv-summary").textContent = text;
    const owners = [...byOwner].sort((a, b) => b[1] - a[1]).slice(0, 24);
    $("kv-owners").replaceChildren(...owners.map(([owner, count]) => {
      const swatch = el("i", {class: "swatch"});
      swatch.style.background = this.ownerColor(owner);
      return el(
          "li", {}, swatch, el("code", {text: this.answer.owners[owner] ?? "?"}),
          ` ${number(count)}`);
    }));
  }

  hover(event) {
    if (!this.place) return;
    const box = this.canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left) / this.place.cell);
    const c = Math.floor((event.clientY - box.top) / this.place.cell) * this.place.columns + column;
    if (column >= this.place.columns || c * this.place.perCell >= this.answer.num_blocks || c < 0)
      return hideTip();
    const i = this.busiest(c);
    const owner = this.answer.owners[this.blocks.owner[i]];
    const lines = [
      kStateNames[this.blocks.state[i]] ?? "unknown", owner ? `owner ${owner}` : null,
      this.blocks.refs[i] > 1 ? `held by ${this.blocks.refs[i]} requests` : null
    ].filter(Boolean);
    const head = this.place.perCell > 1 ?
        `blocks ${c * this.place.perCell} to ${
            Math.min((c + 1) * this.place.perCell, this.answer.num_blocks) - 1}` :
        `block ${i}`;
    showTip(
        event.clientX, event.clientY, el("div", {class: "tip-head", text: head}),
        ...lines.map((t) => el("div", {text: t})));
  }
}
