// Puts the page together: theme, tabs, models, and the three views.

import {getApiKey, getJson, setApiKey} from "./api.js";
import {Chat} from "./chat.js";
import {$, el, hideTip} from "./dom.js";
import {Engine} from "./engine.js";
import {Explorer} from "./explore.js";
import {Settings} from "./settings.js";

function startTheme() {
  const root = document.documentElement;
  const saved = localStorage.getItem("quire-theme");
  if (saved) root.dataset.theme = saved;
  $("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" :
                                      matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    localStorage.setItem("quire-theme", root.dataset.theme);
  });
}

function notice(message) {
  $("notice").textContent = message ?? "";
  $("notice").hidden = !message;
}

class Tabs {
  constructor(onShow) {
    this.tabs = [...document.querySelectorAll("[role=tab]")];
    this.onShow = onShow;
    this.tabs.forEach((tab, i) => {
      tab.addEventListener("click", () => this.show(tab));
      tab.addEventListener("keydown", (event) => this.key(event, i));
    });
    window.addEventListener("hashchange", () => this.fromHash());
    this.fromHash();
  }

  key(event, i) {
    const n = this.tabs.length;
    const next =
        {ArrowRight: (i + 1) % n, ArrowLeft: (i + n - 1) % n, Home: 0, End: n - 1}[event.key];
    if (next === undefined) return;
    event.preventDefault();
    this.show(this.tabs[next]);
    this.tabs[next].focus();
  }

  fromHash() {
    this.show(this.tabs.find((tab) => tab.id === `tab-${location.hash.slice(1)}`) ?? this.tabs[0]);
  }

  show(tab) {
    hideTip();
    for (const other of this.tabs) {
      const selected = other === tab;
      other.setAttribute("aria-selected", selected);
      other.tabIndex = selected ? 0 : -1;
      $(other.getAttribute("aria-controls")).hidden = !selected;
    }
    const name = tab.id.slice(4);
    document.body.dataset.view = name;
    if (location.hash.slice(1) !== name && (location.hash || name !== "chat"))
      history.replaceState(null, "", `#${name}`);
    this.onShow(name);
  }
}

async function loadModels() {
  try {
    const models = (await getJson("/v1/models")).data ?? [];
    $("model-select")
        .replaceChildren(...models.map((m) => el("option", {value: m.id, text: m.id})));
  } catch (error) {
    notice(error.message);
    if (error.status === 401) askForKey();
  }
}

// The field for the key is at hand when the server wants one.
function askForKey() {
  $("api-key").closest("details").open = true;
  $("api-key").focus();
}

function main() {
  startTheme();
  const settings = new Settings();
  const explorer = new Explorer();
  new Chat(settings, () => $("model-select").value || $("model-name").dataset.model);
  let known = null;
  const engine = new Engine((stats, error) => {
    notice(error);
    if (!stats || stats.model === known) return;
    known = stats.model;
    $("model-name").textContent = stats.model.split("/").filter(Boolean).at(-1) ?? stats.model;
    $("model-name").dataset.model = stats.model;
    $("model-name").title = `${stats.model}, Quire ${stats.version}`;
    loadModels();
  });
  new Tabs((name) => {
    engine.show(name === "engine");
    explorer.show(name === "explore");
  });
  $("api-key").value = getApiKey();
  $("api-key").addEventListener("change", () => {
    setApiKey($("api-key").value);
    notice(null);
    loadModels();
  });
  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName ?? "");
    if (event.key === "/" && !typing && document.body.dataset.view === "chat") {
      event.preventDefault();
      $("prompt").focus();
    }
  });
  loadModels();
}

main();
