// These are the sampling controls. A control on "auto" is not sent, so that the server's own
// default applies.

import {$, el} from "./dom.js";

const kControls = [
  {
    key: "temperature",
    label: "Temperature",
    min: 0,
    max: 2,
    step: 0.05,
    help: "0 always picks the likeliest token"
  },
  {
    key: "top_p",
    label: "Top p",
    min: 0.01,
    max: 1,
    step: 0.01,
    help: "Keep the likeliest tokens that add up to p"
  },
  {
    key: "top_k",
    label: "Top k",
    min: 0,
    max: 100,
    step: 1,
    help: "Keep the k likeliest tokens, 0 keeps all"
  },
  {
    key: "min_p",
    label: "Min p",
    min: 0,
    max: 1,
    step: 0.01,
    help: "Drop tokens below this share of the best one"
  },
  {
    key: "presence_penalty",
    label: "Presence penalty",
    min: -2,
    max: 2,
    step: 0.1,
    help: "Against tokens that were used at all"
  },
  {
    key: "frequency_penalty",
    label: "Frequency penalty",
    min: -2,
    max: 2,
    step: 0.1,
    help: "Against tokens, by how often they were used"
  },
  {
    key: "repetition_penalty",
    label: "Repetition penalty",
    min: 0.5,
    max: 2,
    step: 0.05,
    help: "Divides the score of used tokens, 1 is off"
  },
  {
    key: "max_tokens",
    label: "Max tokens",
    min: 1,
    max: 2048,
    step: 1,
    help: "Longest answer",
    free: true
  },
  {key: "seed", label: "Seed", step: 1, help: "Same seed, same answer"},
];
// Settings that are texts, by the ids of their boxes.
const kTexts = ["system", "stop", "tools"];
const kToolsHelp = "A list in JSON. You answer the calls yourself.";
const kStore = "quire-settings";

function load() {
  try {
    return JSON.parse(localStorage.getItem(kStore)) ?? {};
  } catch {
    return {};
  }
}

// Returns a stop sequence of one line, in which \n and \t are escapes.
function unescaped(line) {
  return line.replace(/\\([nt\\])/g, (_, c) => ({n: "\n", t: "\t"}[c] ?? c));
}

function escaped(text) {
  return String(text).replaceAll("\\", "\\\\").replaceAll("\n", "\\n").replaceAll("\t", "\\t");
}

// Returns the functions in a text in the format of requests; null if the text is no list of
// functions.
export function toolsOf(text) {
  if (!text.trim()) return [];
  try {
    const list = JSON.parse(text);
    const tools = list.map((tool) => (tool.function ? tool : {type: "function", function: tool}));
    return tools.every((tool) => typeof tool.function.name === "string") ? tools : null;
  } catch {
    return null;
  }
}

export class Settings {
  constructor() {
    this.inputs = new Map();
    const saved = load();
    for (const control of kControls) $("controls").append(this.build(control, saved[control.key]));
    for (const id of kTexts) {
      $(id).value = saved[id] ?? "";
      $(id).addEventListener("input", () => this.save());
    }
    $("reset").addEventListener("click", () => this.reset());
  }

  build(control, saved) {
    const id = `set-${control.key}`;
    const box = el("input", {
      id,
      type: "number",
      class: "value",
      placeholder: control.key === "seed" ? "random" : "auto",
      step: "any",
      inputmode: "decimal",
      "aria-describedby": `${id}-help`
    });
    const row = el("div", {class: "control"}, el("label", {for: id, text: control.label
                   }), box, el("span", {class: "help", id: `${id}-help`, text: control.help}));
    let range = null;
    if (control.max !== undefined) {
      range = el("input", {
        type: "range",
        min: control.min,
        max: control.max,
        step: control.step,
        "aria-label": `${control.label} slider`
      });
      range.addEventListener("input", () => {
        box.value = range.value;
        this.changed(control.key);
      });
      row.append(range);
    }
    box.addEventListener("input", () => this.changed(control.key));
    this.inputs.set(control.key, {control, box, range, row});
    if (saved !== undefined) box.value = saved;
    this.mark(control.key);
    return row;
  }

  mark(key) {
    const {box, range, row, control} = this.inputs.get(key);
    const isSet = box.value !== "";
    row.classList.toggle("set", isSet);
    if (range) range.value = isSet ? box.value : this.rest(control);
  }

  // Returns the slider's position while the server decides: the value that changes nothing.
  rest(control) {
    return {
      temperature: 1,
      top_p: 1,
      repetition_penalty: 1,
      max_tokens: control.max
    }[control.key] ??
        0;
  }

  changed(key) {
    this.mark(key);
    this.save();
  }

  reset() {
    for (const [key, {box}] of this.inputs) {
      box.value = "";
      this.mark(key);
    }
    for (const id of kTexts) $(id).value = "";
    this.save();
  }

  // Fills in the settings of a shared link; others are left to the server.
  use({system, values}) {
    this.reset();
    for (const [key, {box}] of this.inputs) {
      if (!Number.isFinite(values?.[key])) continue;
      box.value = values[key];
      this.mark(key);
    }
    if (typeof system === "string") $("system").value = system;
    if (Array.isArray(values?.tools)) $("tools").value = JSON.stringify(values.tools, null, 2);
    if (Array.isArray(values?.stop)) $("stop").value = values.stop.map((text) => escaped(text)).join("\n");
    this.save();
  }

  system() {
    return $("system").value.trim();
  }

  values() {
    const out = {};
    for (const [key, {box, control}] of this.inputs) {
      const value = Number(box.value);
      if (box.value === "" || !Number.isFinite(value)) continue;
      out[key] = control.step === 1 ? Math.trunc(value) : value;
    }
    const stop = $("stop").value.split("\n").filter(Boolean).map(unescaped);
    if (stop.length) out.stop = stop;
    const tools = toolsOf($("tools").value);
    $("tools").setAttribute("aria-invalid", tools === null);
    $("tools-help").textContent = tools === null ? "This is no list of functions: none are sent." : kToolsHelp;
    if (tools?.length) out.tools = tools;
    return out;
  }

  save() {
    const texts = Object.fromEntries(kTexts.map((id) => [id, $(id).value]));
    localStorage.setItem(kStore, JSON.stringify({...this.values(), ...texts}));
  }
}
