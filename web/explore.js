// The prefix-cache explorer shows the blocks of two prompts side by side, with the shared ones in
// colour.

import {postJson} from "./api.js";
import {$, el, number, percent, visible} from "./dom.js";

const kExampleHead =
    "You are a helpful assistant of a small library. You know every book, you are kind, and you answer in one short sentence. ";
const kMaxTokensDrawn = 2048;

// Splits a prompt's tokens into blocks and returns the state of each.
export function blocksOf(tokens, blockSize, shared, cached) {
  const out = [];
  for (let start = 0, i = 0; start < tokens.length; start += blockSize, i++) {
    const part = tokens.slice(start, start + blockSize);
    const full = part.length === blockSize;
    out.push({
      index: i,
      start,
      tokens: part,
      full,
      shared: full && i < shared,
      cached: full && i < cached
    });
  }
  return out;
}

function drawBlock(block, blockSize, firstDifference) {
  const kind = block.shared ? "block shared" : block.full ? "block" : "block partial";
  const label = `Block ${block.index}, ${block.tokens.length} of ${blockSize} tokens${
      block.shared ? ", shared" : ""}${block.cached ? ", cached now" : ""}`;
  const chips = block.tokens.map((t, i) => {
    const at = block.start + i;
    return el("span", {
      class: at < firstDifference ? "chip same" :
          at === firstDifference  ? "chip first" :
                                    "chip",
      text: visible(t)
    });
  });
  return el(
      "li", {class: kind, "aria-label": label},
      el("div", {class: "block-head"}, el("span", {
           text: block.full ? `${block.index}` :
                              `${block.index} · ${block.tokens.length}/${blockSize}`
         }),
         block.cached ? el("span", {class: "badge", text: "cached"}) : null),
      el("div", {class: "chips"}, ...chips));
}

function drawPrompt(name, answer, tokens, cached) {
  const blocks =
      blocksOf(tokens.slice(0, kMaxTokensDrawn), answer.block_size, answer.shared_blocks, cached);
  const note =
      tokens.length > kMaxTokensDrawn ? `, the first ${number(kMaxTokensDrawn)} shown` : "";
  return el(
      "section", {class: "card"},
      el("div", {class: "card-head"}, el("h2", {text: `Prompt ${name}`}), el("p", {
           class: "caption",
           text: `${number(tokens.length)} tokens${note}, ${number(cached)} block${
               cached === 1 ? "" : "s"} in the cache now`
         })),
      el("ol", {class: "blocks"},
         ...blocks.map((b) => drawBlock(b, answer.block_size, answer.shared_tokens))));
}

function summary(answer) {
  const saved = answer.shared_blocks * answer.block_size;
  const total = answer.b.tokens.length;
  const blocks = `${number(answer.shared_blocks)} block${answer.shared_blocks === 1 ? "" : "s"}`;
  const fate = saved > 0 ?
      `After A, B would reuse ${blocks} and skip ${number(saved)} of its ${number(total)} tokens.` :
      `Only full blocks of ${answer.block_size} tokens are shared, so B would reuse nothing.`;
  return el(
      "div", {class: "summary"}, el("div", {class: "big", text: blocks}),
      el("p", {},
         `The prompts begin with the same ${number(answer.shared_tokens)} tokens. ${fate}`),
      el("div", {
        class: "meter",
        role: "img",
        "aria-label": `${percent(total ? saved / total : 0)} of B would be reused`
      },
         el("span", {class: "meter-fill"})));
}

export class Explorer {
  // settings.system() returns the playground's system prompt, with which a chat begins.
  constructor(settings) {
    this.settings = settings;
    $("explore-a").value = `${kExampleHead}Where is the book about owls?`;
    $("explore-b").value = `${kExampleHead}When do you close today?`;
    $("explore-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.compare();
    });
    for (const mode of document.getElementsByName("explore-mode"))
      mode.addEventListener("change", () => this.compare());
    for (const id of ["explore-a", "explore-b"]) {
      $(id).addEventListener("input", () => {
        clearTimeout(this.timer);
        this.timer = setTimeout(() => this.compare(), 500);
      });
      $(id).addEventListener("keydown", (event) => {
        if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.compare();
      });
    }
  }

  // Compares again each time the view is shown, because the cache and the system prompt change.
  show(visibleNow) {
    if (visibleNow) this.compare();
  }

  asChat() {
    return $("explore-form").elements["explore-mode"].value === "chat";
  }

  // Returns the prompt as it is sent: messages for the chat template, or the text itself.
  prompt(id) {
    const text = $(id).value;
    if (!this.asChat()) return text;
    const system = this.settings.system();
    return [...(system ? [{role: "system", content: system}] : []), {role: "user", content: text}];
  }

  describeMode() {
    $("explore-mode-note").textContent = !this.asChat() ?
        "The text as it is, like a prompt of /v1/completions." :
        this.settings.system() ?
        "A first message through the chat template, after the playground's system prompt." :
        "A first message through the chat template, as the playground sends it.";
  }

  async compare() {
    clearTimeout(this.timer);
    this.abort?.abort();
    this.abort = new AbortController();
    this.describeMode();
    $("explore-status").textContent = "Comparing…";
    try {
      const answer = await postJson(
          "/quire/kv/explore", {a: this.prompt("explore-a"), b: this.prompt("explore-b")},
          this.abort.signal);
      this.draw(answer);
      $("explore-status").textContent = "";
    } catch (error) {
      if (error.name === "AbortError") return;
      $("explore-status").textContent = error.message;
    }
  }

  draw(answer) {
    const head = summary(answer);
    const total = answer.b.tokens.length;
    head.querySelector(".meter-fill").style.width =
        `${total ? (100 * answer.shared_blocks * answer.block_size) / total : 0}%`;
    $("explore-result")
        .replaceChildren(
            head,
            el("div", {class: "pair"},
               drawPrompt("A", answer, answer.a.tokens, answer.cached_blocks_a),
               drawPrompt("B", answer, answer.b.tokens, answer.cached_blocks_b)));
  }
}
