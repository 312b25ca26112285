// This file sets up the page: theme, tabs, models, and the three views.

import {getApiKey, getJson, isLocked, tryApiKey, whenLocked} from "./api.js";
import {Chat} from "./chat.js";
import {$, el, hideTip} from "./dom.js";
import {Engine} from "./engine.js";
import {Explorer} from "./explore.js";
import {Settings} from "./settings.js";
import {takeShared} from "./share.js";

// The server's name for its built-in model; see assets/builtin_model.
const kDemoModel = "quire-builtin";
const kDemoName = "3.5M-parameter demo model";

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

// Shows one line below the bar, with a button if there is something to do about it; null hides it.
function notice(message, action, onAction) {
  $("notice").replaceChildren(
      ...(message ? [message] : []),
      ...(action ? [el("button", {type: "button", text: action, onclick: onAction})] : []));
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

// Models holds the model cards by id, from /v1/models.
class Models {
  constructor() {
    this.cards = new Map();
    $("model-select").addEventListener("change", () => this.show());
  }

  current() {
    return this.cards.get($("model-select").value) ?? {};
  }

  async load() {
    try {
      const cards = (await getJson("/v1/models")).data ?? [];
      this.cards = new Map(cards.map((card) => [card.id, card]));
      $("model-select")
          .replaceChildren(...cards.map(({id}) => el("option", {value: id, text: id})));
      this.show();
    } catch (error) {
      if (!isLocked()) notice(error.message);
    }
  }

  show() {
    const {id, root} = this.current();
    if (!id) return;
    const isDemo = root === kDemoModel;
    $("model-name").textContent = isDemo ? kDemoName : id.split("/").filter(Boolean).at(-1) ?? id;
    $("model-name").dataset.model = id;
    $("model-name").title = id;
    $("demo-note").hidden = !isDemo;
  }
}

// KeyDialog asks for the key, and calls `onOpened` when the server has accepted one.
class KeyDialog {
  constructor(onOpened) {
    this.onOpened = onOpened;
    whenLocked(() => this.open());
    $("key-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.use($("key").value);
    });
    $("key-dialog").addEventListener("close", () => {
      if (isLocked()) notice("The server asks for an API key.", "Enter key", () => this.open());
    });
    $("change-key").addEventListener("click", () => this.open());
    $("key-cancel").addEventListener("click", () => $("key-dialog").close());
  }

  open() {
    $("key-error").textContent = "";
    if (!$("key-dialog").open) $("key-dialog").showModal();
    $("key").value = getApiKey();
    $("key").select();
  }

  async use(key) {
    try {
      await tryApiKey(key);
    } catch (error) {
      $("key-error").textContent =
          error.status === 401 ? "The server did not accept this key." : error.message;
      return;
    }
    $("key-dialog").close();
    notice(null);
    this.onOpened();
  }
}

function main() {
  startTheme();
  const settings = new Settings();
  const models = new Models();
  const chat = new Chat(settings, () => models.current());
  const shared = takeShared();
  if (shared) chat.open(shared);
  const explorer = new Explorer(settings);
  const engine = new Engine((stats, error) => {
    if (!isLocked()) notice(error);
    if (stats && !models.cards.has(stats.model)) models.load();
  });
  let view = "chat";
  const showView = () => {
    engine.show(view === "engine");
    explorer.show(view === "explore");
  };
  const load = async () => {
    await models.load();
    chat.showUsed(0);
    if (!isLocked()) showView();
  };
  new KeyDialog(load);
  // The first request shows whether the server needs a key; nothing else is sent before.
  const ready = load().then(() => engine.loop());
  new Tabs((name) => {
    view = name;
    ready.then(showView);
  });
  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName ?? "");
    if (event.key === "/" && !typing && document.body.dataset.view === "chat") {
      event.preventDefault();
      $("prompt").focus();
    }
  });
}

main();
