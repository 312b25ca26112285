// The playground: the conversation, sending, streaming, stopping, and what each answer cost.

import {ApiError, streamChat} from "./api.js";
import {$, el, hideTip, milliseconds, number} from "./dom.js";
import {TokenText} from "./tokens.js";

const kIdeas = [
  "Tell me a story about a fox named Pip.", "What is 7 + 5?", "Spell strawberry backwards.",
  "Fill JSON: Mia is 7 years old and lives in Paris.", "What is the KV cache?", "Tell me a joke."
];

// One assistant turn while it streams and after it.
class Answer {
  constructor() {
    this.content = "";
    this.reasoning = "";
    this.tokens = [];
    this.calls = [];
    this.usage = null;
    this.finish = null;
    this.start = performance.now();
    this.first = null;
    this.last = null;
    this.text = new TokenText();
    this.thought = el("p", {class: "thought", hidden: true});
    this.call = el("pre", {class: "call", hidden: true});
    this.meta = el("div", {class: "meta"});
    this.actions = el("div", {class: "actions"});
    this.node =
        el("article", {class: "turn assistant waiting", "aria-label": "Answer"}, this.thought,
           this.text.node, this.call, el("footer", {}, this.meta, this.actions));
  }

  add(chunk) {
    if (chunk.usage) this.usage = chunk.usage;
    const choice = chunk.choices?.[0];
    if (!choice) return;
    const delta = choice.delta ?? {};
    const said = delta.content || delta.reasoning_content || delta.tool_calls;
    if (said) {
      this.last = performance.now();
      this.first ??= this.last;
      this.node.classList.remove("waiting");
    }
    this.content += delta.content ?? "";
    this.reasoning += delta.reasoning_content ?? "";
    for (const part of delta.tool_calls ?? []) this.addCall(part);
    if (choice.logprobs?.content) this.tokens.push(...choice.logprobs.content);
    if (choice.finish_reason) this.finish = choice.finish_reason;
  }

  addCall(part) {
    const call = (this.calls[part.index ?? 0] ??= {id: "", name: "", arguments: ""});
    call.id ||= part.id ?? "";
    call.name += part.function?.name ?? "";
    call.arguments += part.function?.arguments ?? "";
  }

  draw() {
    this.text.update(this.content, this.tokens);
    this.thought.textContent = this.reasoning;
    this.thought.hidden = !this.reasoning;
    this.call.textContent = this.calls.map((c) => `${c.name}(${c.arguments})`).join("\n");
    this.call.hidden = !this.calls.length;
    this.drawMeta();
  }

  drawMeta() {
    const generated = this.usage?.completion_tokens ?? this.tokens.length;
    const parts = [];
    const prompt = this.usage?.prompt_tokens;
    const cached = this.usage?.prompt_tokens_details?.cached_tokens;
    if (prompt !== undefined)
      parts.push([
        `${number(prompt)} in`,
        cached ? `prompt tokens, ${cached} of them from the prefix cache` : "prompt tokens"
      ]);
    if (cached) parts.push([`${number(cached)} cached`, "prompt tokens found in the prefix cache"]);
    if (generated) parts.push([`${number(generated)} out`, "generated tokens"]);
    if (this.first)
      parts.push(
          [`${milliseconds(this.first - this.start)} to first`, "time to first token (TTFT)"]);
    if (this.first && generated > 1 && this.last > this.first) {
      parts.push([
        `${number((generated - 1) / ((this.last - this.first) / 1000), 1)} tok/s`,
        "tokens per second after the first"
      ]);
    }
    if (this.finish && this.finish !== "stop")
      parts.push([this.finish === "length" ? "cut at max tokens" : this.finish, "finish reason"]);
    this.meta.replaceChildren(...parts.map(([text, title]) => el("span", {text, title})));
  }
}

export class Chat {
  constructor(settings, model) {
    this.settings = settings;
    this.model = model;
    this.history = [];
    this.abort = null;
    $("ideas").append(...kIdeas.map(
        (text) =>
            el("li", {}, el("button", {type: "button", text, onclick: () => this.send(text)}))));
    $("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
    $("prompt").addEventListener("keydown", (event) => this.key(event));
    $("prompt").addEventListener("input", () => this.grow());
    $("clear").addEventListener("click", () => this.clear());
    $("show-tokens")
        .addEventListener(
            "change", () => $("thread").classList.toggle("show-tokens", $("show-tokens").checked));
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.stop();
    });
    $("thread").addEventListener("scroll", hideTip, {passive: true});
  }

  key(event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    this.submit();
  }

  // The button and Enter send, or stop the answer that is being written.
  submit() {
    if (this.abort) return this.stop();
    const text = $("prompt").value.trim();
    if (text) this.send(text);
  }

  grow() {
    const box = $("prompt");
    box.style.height = "auto";
    box.style.height = `${Math.min(box.scrollHeight, window.innerHeight * 0.35)}px`;
  }

  stop() {
    this.abort?.abort();
  }

  clear() {
    this.stop();
    this.history = [];
    $("thread").replaceChildren($("welcome"));
    $("welcome").hidden = false;
    $("prompt").focus();
  }

  body() {
    const system = this.settings.system();
    const messages = [
      ...(system ? [{role: "system", content: system}] : []),
      ...this.history.map(({role, content}) => ({role, content}))
    ];
    return {
      model: this.model(),
      messages,
      stream: true,
      stream_options: {include_usage: true},
      logprobs: true,
      top_logprobs: 5,
      ...this.settings.values()
    };
  }

  send(text) {
    if (this.abort) return;
    $("prompt").value = "";
    this.grow();
    this.history.push({role: "user", content: text});
    $("welcome").hidden = true;
    $("thread").append(el("article", {class: "turn user", "aria-label": "You", text}));
    this.answer();
  }

  async answer() {
    const answer = new Answer();
    $("thread").append(answer.node);
    this.busy(true);
    this.scroll(true);
    let queued = false;
    const draw = () => {
      queued = false;
      const follow = this.atEnd();
      answer.draw();
      this.scroll(follow);
    };
    try {
      for await (const chunk of streamChat(this.body(), this.abort.signal)) {
        answer.add(chunk);
        if (!queued) {
          queued = true;
          requestAnimationFrame(draw);
        }
      }
    } catch (error) {
      this.failed(answer, error);
    }
    this.busy(false);
    answer.node.classList.remove("waiting");
    draw();
    this.settle(answer);
  }

  failed(answer, error) {
    if (error.name === "AbortError") {
      answer.finish = "stopped";
      return;
    }
    const message = error instanceof ApiError ?
        error.message :
        `The page could not read the answer: ${error.message}`;
    answer.failed = true;
    answer.node.classList.add("failed");
    answer.node.insertBefore(
        el("p", {class: "error", role: "alert", text: message}), answer.node.lastChild);
  }

  settle(answer) {
    const said = answer.content || answer.reasoning || answer.calls.length;
    if (said) this.history.push({role: "assistant", content: answer.content});
    for (const old of document.querySelectorAll("[data-again]")) old.remove();
    if (answer.content)
      answer.actions.append(el("button", {
        class: "quiet",
        type: "button",
        text: "Copy",
        onclick: (e) => this.copy(e.target, answer)
      }));
    answer.actions.append(el("button", {
      class: "quiet",
      type: "button",
      "data-again": true,
      text: "Try again",
      onclick: () => this.again(answer, said)
    }));
    $("prompt").focus({preventScroll: true});
  }

  async copy(button, answer) {
    try {
      await navigator.clipboard.writeText(answer.content);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Not allowed";
    }
    setTimeout(() => {
      button.textContent = "Copy";
    }, 1200);
  }

  again(answer, said) {
    if (this.abort) return;
    if (said) this.history.pop();
    answer.node.remove();
    this.answer();
  }

  busy(on) {
    this.abort = on ? new AbortController() : null;
    $("send").textContent = on ? "Stop" : "Send";
    $("send").classList.toggle("stop", on);
    $("thread").setAttribute("aria-busy", on);
  }

  atEnd() {
    const t = $("thread");
    return t.scrollHeight - t.scrollTop - t.clientHeight < 80;
  }

  scroll(follow) {
    if (follow) $("thread").scrollTop = $("thread").scrollHeight;
  }
}
