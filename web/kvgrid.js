// The KV cache as a grid has one square per block, coloured by owner; shared, cached and free
// blocks have their own looks. A cursor moves over it with the arrow keys, and a chosen owner is
// highlighted.

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
const kOwnersShown = 24;

// Expands the run-length code into flat arrays, or throws if the runs do not add up.
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

// Returns the largest cell size with which n cells fit; below a minimum, one cell stands for
// several blocks.
export function layout(n, width) {
  for (let cell = kMaxCell; cell >= kMinCell; cell--) {
    const columns = Math.max(1, Math.floor(width / cell));
    if (Math.ceil(n / columns) * cell <= kMaxHeight) return {cell, columns, perCell: 1};
  }
  const columns = Math.max(1, Math.floor(width / kMinCell));
  const perCell = Math.ceil(n / (columns * Math.floor(kMaxHeight / kMinCell)));
  return {cell: kMinCell, columns, perCell};
}

// A request keeps its colour while it lives: a name gets the first hue that no other name has.
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

  // When all fixed hues are used, steps of the golden angle keep neighbours apart.
  hue(name) {
    const slot = this.slots.get(name) ?? 0;
    return slot < kHues.length ? kHues[slot] : (slot * 137.508) % 360;
  }
}

// Returns the cell that a key moves to from cell `at` of `cells`, `columns` per row; undefined for
// other keys. At the edges the cursor stays.
export function moved(key, at, cells, columns) {
  const to = {
    ArrowRight: at + 1,
    ArrowLeft: at - 1,
    ArrowDown: at + columns,
    ArrowUp: at - columns,
    Home: 0,
    End: cells - 1
  }[key];
  return to === undefined ? undefined : to >= 0 && to < cells ? to : at;
}

export class KvGrid {
  constructor() {
    this.canvas = $("kv-grid");
    this.blocks = null;
    this.cursor = null;  // cell of the keyboard's cursor
    this.chosen = null;  // name of the highlighted owner
    this.allOwners = false;
    this.palette = new Palette();
    this.canvas.addEventListener("pointermove", (event) => this.hover(event));
    this.canvas.addEventListener("pointerleave", hideTip);
    this.canvas.addEventListener("pointerdown", (event) => {
      this.cursor = this.cellAt(event);
      this.choose(this.cursor);
    });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("focus", () => this.moveTo(this.cursor ?? 0));
    this.canvas.addEventListener("blur", () => this.moveTo(null));
    $("kv-more").addEventListener("click", () => {
      this.allOwners = !this.allOwners;
      this.describe();
    });
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
    if (!answer.owners.includes(this.chosen)) this.chosen = null;
    this.redraw();
  }

  redraw() {
    if (!this.blocks) return;
    this.draw();
    this.describe();
    if (this.place) this.describeCursor();
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
      context.globalAlpha = this.chosen === null || this.ownerOf(i) === this.chosen ? 1 : 0.25;
      const key = this.blocks.state[i] * 1e6 + this.blocks.owner[i];
      if (!colors.has(key)) colors.set(key, this.color(i));
      context.fillStyle = colors.get(key);
      context.beginPath();
      context.roundRect(
          (c % columns) * cell, Math.floor(c / columns) * cell, cell - gap, cell - gap, radius);
      context.fill();
    }
    context.globalAlpha = 1;
    this.canvas.dataset.cells = this.cells = cells;
    if (this.cursor !== null) this.drawCursor(context, cell, gap);
  }

  drawCursor(context, cell, gap) {
    this.cursor = Math.min(this.cursor, this.cells - 1);
    const x = (this.cursor % this.place.columns) * cell;
    const y = Math.floor(this.cursor / this.place.columns) * cell;
    const css = getComputedStyle(document.documentElement);
    for (const [color, width] of [["--sheet", 4], ["--ink", 2]]) {
      context.strokeStyle = css.getPropertyValue(color);
      context.lineWidth = width;
      context.strokeRect(x + 1, y + 1, cell - gap - 2, cell - gap - 2);
    }
  }

  key(event) {
    if (!this.place) return;
    const to = moved(event.key, this.cursor ?? 0, this.cells, this.place.columns);
    if (to !== undefined) {
      this.moveTo(to);
    } else if (event.key === "Enter" || event.key === " ") {
      this.choose(this.cursor);
    } else if (event.key === "Escape") {
      this.chosen = null;
      $("tab-engine").focus();
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }

  moveTo(cell) {
    this.cursor = cell;
    this.redraw();
  }

  // Highlights all blocks of the owner of `cell`; for the same owner again, or a block without one,
  // none.
  choose(cell) {
    const owner = cell === null ? null : this.ownerOf(this.busiest(cell));
    this.chosen = owner === this.chosen ? null : owner;
    this.redraw();
  }

  ownerOf(block) {
    return this.answer.owners[this.blocks.owner[block]] ?? null;
  }

  // Returns the description of a cell: a heading, then phrases.
  describeCell(c) {
    const i = this.busiest(c), {perCell} = this.place;
    const last = Math.min((c + 1) * perCell, this.answer.num_blocks) - 1;
    const owner = this.ownerOf(i), refs = this.blocks.refs[i];
    return [
      perCell > 1 ? `blocks ${c * perCell} to ${last}` : `block ${i}`,
      kStateNames[this.blocks.state[i]] ?? "unknown", owner && `owner ${owner}`,
      refs > 1 && `held by ${refs} requests`
    ].filter(Boolean);
  }

  // Updates the line below the grid, which describes the cursor's cell and the highlighted owner.
  describeCursor() {
    const parts = this.cursor === null ? [] : [this.describeCell(this.cursor).join(", ")];
    if (this.chosen !== null) {
      const own = this.blocks.owner.filter((o) => this.answer.owners[o] === this.chosen).length;
      parts.push(`${this.chosen} holds ${number(own)} block${own === 1 ? "" : "s"}`);
    }
    const text = parts.join("; ");
    if ($("kv-block").textContent !== text) $("kv-block").textContent = text;
  }

  // Returns the block in the busiest state, which stands for all blocks of a cell.
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
    const owners = [...byOwner].sort((a, b) => b[1] - a[1]);
    const hidden = Math.max(0, owners.length - kOwnersShown);
    $("kv-more").hidden = hidden === 0;
    $("kv-more").textContent = this.allOwners ? "Show fewer" : `and ${number(hidden)} more`;
    $("kv-more").setAttribute("aria-expanded", this.allOwners);
    const shown = this.allOwners ? owners : owners.slice(0, kOwnersShown);
    $("kv-owners").replaceChildren(...shown.map(([owner, count]) => {
      const swatch = el("i", {class: "swatch"});
      swatch.style.background = this.ownerColor(owner);
      return el(
          "li", {}, swatch, el("code", {text: this.answer.owners[owner] ?? "?"}),
          ` ${number(count)}`);
    }));
  }

  // Returns the cell under the pointer, or null.
  cellAt(event) {
    if (!this.place) return null;
    const box = this.canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left) / this.place.cell);
    const row = Math.floor((event.clientY - box.top) / this.place.cell);
    const c = row * this.place.columns + column;
    return column < this.place.columns && c >= 0 && c < this.cells ? c : null;
  }

  hover(event) {
    const cell = this.cellAt(event);
    if (cell === null) return hideTip();
    const [head, ...lines] = this.describeCell(cell);
    showTip(
        event.clientX, event.clientY, el("div", {class: "tip-head", text: head}),
        ...lines.map((t) => el("div", {text: t})));
  }
}
