// The live view polls the server's statistics, keeps two minutes of them, and draws tiles and
// charts.

import {areViewsOff, getJson, isLocked} from "./api.js";
import {Chart} from "./charts.js";
import {$, compact, duration, el, milliseconds, number, percent} from "./dom.js";
import {KvGrid} from "./kvgrid.js";
import {Roofline} from "./roofline.js";
import {Tables} from "./tables.js";

const kPeriodMs = 1000, kWindowS = 120;

const ratio = (a, b) => (b > 0 ? a / b : null);

// Returns one sample for the charts, computed from two successive readings of the counters.
export function derive(before, after) {
  const s = after.stats;
  const dt = before ? (after.time - before.time) / 1000 : 0;
  const restarted = before && before.stats.uptime_s > s.uptime_s;
  const rate = (key) => (dt > 0 && !restarted ? (s[key] - before.stats[key]) / dt : null);
  const gained = (key) => (before && !restarted ? s[key] - before.stats[key] : s[key]);
  return {
    time: after.time,
    requests: [s.running, s.waiting],
    speed: [rate("generation_tokens_total"), rate("prompt_tokens_total")],
    ttft: [s.ttft_ms?.p50, s.ttft_ms?.p90],
    itl: [s.itl_ms?.p50, s.itl_ms?.p90],
    kv: [
      ratio(s.kv_blocks_used, s.kv_blocks_total),
      ratio(s.kv_blocks_used + s.kv_blocks_cached, s.kv_blocks_total)
    ],
    hits: [
      ratio(gained("prefix_cache_hits_total"), gained("prefix_cache_queries_total")),
      ratio(s.prefix_cache_hits_total, s.prefix_cache_queries_total)
    ],
  };
}

const kCharts = [
  {
    key: "requests",
    title: "Requests",
    format: (v) => number(v),
    area: true,
    series: [{label: "running", color: "c1"}, {label: "waiting", color: "c4"}]
  },
  {
    key: "speed",
    title: "Tokens per second",
    format: compact,
    area: true,
    series: [{label: "generated", color: "c1"}, {label: "prompt", color: "c3"}]
  },
  {
    key: "ttft",
    title: "Time to first token",
    format: milliseconds,
    series: [{label: "median", color: "c2"}, {label: "90th percentile", color: "c4"}]
  },
  {
    key: "itl",
    title: "Time between tokens",
    format: milliseconds,
    series: [{label: "median", color: "c2"}, {label: "90th percentile", color: "c4"}]
  },
  {
    key: "kv",
    title: "KV blocks in use",
    format: percent,
    top: 1,
    area: true,
    series: [{label: "in use", color: "c1"}, {label: "with cached", color: "c5"}]
  },
  {
    key: "hits",
    title: "Prefix-cache hit rate",
    format: percent,
    top: 1,
    series: [{label: "last second", color: "c3"}, {label: "since start", color: "c5"}]
  },
];

const kTiles = [
  ["Uptime", (s) => duration(s.uptime_s)],
  ["Requests", (s) => number(s.requests_total)],
  ["Prompt tokens", (s) => compact(s.prompt_tokens_total)],
  ["Generated", (s) => compact(s.generation_tokens_total)],
  ["Preemptions", (s) => number(s.preemptions_total)],
  ["Engine step", (s) => milliseconds(s.step_ms?.p50)],
];

export class Engine {
  // onState(stats or null, error message or null) is called after every reading.
  constructor(onState) {
    this.onState = onState;
    this.samples = [];
    this.previous = null;
    this.visible = false;
    this.grid = new KvGrid();
    this.roofline = new Roofline($("roofline"));
    this.tables = new Tables($("tables"));
    this.charts = kCharts.map((options) => ({key: options.key, chart: new Chart(options)}));
    $("charts").append(...this.charts.map(({chart}) => chart.node));
    this.values = kTiles.map(([label]) => {
      const value = el("dd", {text: "–"});
      $("tiles").append(el("div", {}, el("dt", {text: label}), value));
      return value;
    });
  }

  // Reads once per second while the page is visible and the server allows it, and never again after
  // the server has said that it has no such routes.
  async loop() {
    if (areViewsOff()) return;
    if (!document.hidden && !isLocked()) await this.read();
    setTimeout(() => this.loop(), kPeriodMs);
  }

  async read() {
    try {
      const reading = {time: performance.now(), stats: await getJson("/quire/stats")};
      this.samples.push(derive(this.previous, reading));
      this.previous = reading;
      while (this.samples.length && reading.time - this.samples[0].time > kWindowS * 1000)
        this.samples.shift();
      this.pulse(reading.stats);
      this.onState(reading.stats, null);
      if (this.visible) await this.draw();
    } catch (error) {
      if (areViewsOff()) return this.hide();
      $("health").dataset.state = "bad";
      this.onState(null, error.message);
    }
  }

  // Shows one sentence instead of the figures, because the server does not serve them.
  hide() {
    $("pulse").hidden = true;
    for (const part of $("view-engine").children) part.hidden = part.id !== "engine-off";
    this.onState(null, null);
  }

  pulse(stats) {
    const speed = this.samples.at(-1).speed[0];
    $("health").dataset.state = stats.running ? "busy" : "good";
    $("pulse-running").textContent = number(stats.running);
    $("pulse-waiting").textContent = number(stats.waiting);
    $("pulse-speed").textContent = compact(speed === null ? NaN : Math.round(speed));
    $("pulse-kv").textContent = percent(this.samples.at(-1).kv[0]);
  }

  async draw() {
    if (!this.previous) return;
    kTiles.forEach(([, show], i) => {
      this.values[i].textContent = show(this.previous.stats);
    });
    this.tables.update(this.previous.stats);
    const now = performance.now();
    for (const {key, chart} of this.charts) {
      chart.draw(
          this.samples.map((s) => ({age_s: (now - s.time) / 1000, values: s[key]})), kWindowS);
    }
    this.grid.update(await getJson("/quire/kv/blocks"));
    this.roofline.draw(await getJson("/quire/steps"));
  }

  async show(visible) {
    this.visible = visible;
    if (!visible || areViewsOff()) return;
    try {
      await this.draw();
    } catch (error) {
      this.onState(null, error.message);
    }
  }
}
