// An Answer is one assistant turn, while it streams and after it: text, tool calls, why it ended,
// its cost.

import {el, milliseconds, number} from "./dom.js";
import {blocks, isMarkdown} from "./markdown.js";
import {TokenText} from "./tokens.js";

// Returns why an answer stopped at a limit; null for a complete one.
export function cutReason(finish, usage, maxModelLen) {
  if (finish !== "length") return null;
  if (usage && maxModelLen && usage.total_tokens >= maxModelLen)
    return `The answer was cut: the model's context of ${
        number(maxModelLen)} tokens is full. The next message drops the oldest turns to make room.`;
  const limit = usage ? ` of ${number(usage.completion_tokens)}` : "";
  return `The answer was cut: it reached the limit${limit} tokens (Max tokens).`;
}

// Returns the cost of an answer as [text, explanation]. Times are measured by the server.
export function costOf(usage) {
  if (!usage) return [];
  const {prompt_tokens, completion_tokens, timings} = usage;
  const cached = usage.prompt_tokens_details?.cached_tokens;
  const parts = [[`${number(prompt_tokens)} in`, "prompt tokens"]];
  if (cached) parts.push([`${number(cached)} cached`, "prompt tokens found in the prefix cache"]);
  parts.push([`${number(completion_tokens)} out`, "generated tokens"]);
  if (!timings) return parts;
  const {queue_ms, prompt_ms, decode_ms, first_token_ms} = timings;
  parts.push([
    `${milliseconds(first_token_ms)} to first`,
    `time to first token: ${milliseconds(queue_ms)} queued, ${milliseconds(prompt_ms)} for the prompt`
  ]);
  if (completion_tokens > 1 && decode_ms > 0)
    parts.push([
      `${number(1000 * (completion_tokens - 1) / decode_ms, 1)} tok/s`,
      `tokens per second after the first: ${milliseconds(decode_ms)}, measured by the server`
    ]);
  return parts;
}

export class Answer {
  constructor(maxModelLen) {
    this.maxModelLen = maxModelLen;
    this.content = "";
    this.reasoning = "";
    this.tokens = [];
    this.calls = [];
    this.usage = null;
    this.finish = null;
    this.wasThinking = false;
    this.text = new TokenText();
    this.markdown = el("div", {class: "markdown", hidden: true});
    this.thought = el("p", {class: "thought"});
    this.reasoned = el("details", {class: "reasoning", hidden: true}, el("summary", {text: "Reasoning"}),
                       this.thought);
    this.call = el("pre", {class: "call", hidden: true});
    this.cut = el("p", {class: "cut", hidden: true});
    this.meta = el("div", {class: "meta"});
    this.actions = el("div", {class: "actions"});
    this.node =
        el("article", {class: "turn assistant waiting", "aria-label": "Answer"}, this.reasoned,
           this.text.node, this.markdown, this.call, this.cut, el("footer", {}, this.meta, this.actions));
  }

  add(chunk) {
    if (chunk.usage) this.usage = chunk.usage;
    const choice = chunk.choices?.[0];
    if (!choice) return;
    const delta = choice.delta ?? {};
    if (delta.content || delta.reasoning || delta.tool_calls)
      this.node.classList.remove("waiting");
    this.content += delta.content ?? "";
    this.reasoning += delta.reasoning ?? "";
    for (const part of delta.tool_calls ?? []) this.addCall(part);
    if (choice.logprobs?.content) this.tokens.push(...choice.logprobs.content);
    if (choice.finish_reason) this.finish = choice.finish_reason;
  }

  addCall(part) {
    const at = part.index ?? 0;
    const call = (this.calls[at] ??= {id: `call_${at}`, name: "", arguments: ""});
    call.id = part.id ?? call.id;
    call.name += part.function?.name ?? "";
    call.arguments += part.function?.arguments ?? "";
  }

  // Shows boxes for the results of the called functions; `onResults` gets their texts, in order.
  askForResults(onResults) {
    const boxes = this.calls.map(({name}) => el("textarea", {rows: 2, "aria-label": `Result of ${name}`,
                                                             placeholder: `Result of ${name}`}));
    const submit = (event) => {
      event.preventDefault();
      form.remove();
      onResults(boxes.map((box) => box.value));
    };
    const form = el("form", {class: "edit results", onsubmit: submit}, ...boxes,
                    el("div", {class: "dialog-actions"},
                       el("button", {class: "primary", type: "submit", text: "Send results"})));
    this.node.insertBefore(form, this.node.lastChild);
    boxes[0].focus();
  }

  saidSomething() {
    return Boolean(this.content || this.reasoning || this.calls.length);
  }

  fail(message) {
    this.node.classList.add("failed");
    this.node.insertBefore(
        el("p", {class: "error", role: "alert", text: message}), this.node.lastChild);
  }

  draw() {
    this.text.update(this.content, this.tokens);
    this.drawMarkdown();
    this.thought.textContent = this.reasoning;
    this.reasoned.hidden = !this.reasoning;
    // The reasoning is open as long as there is no content.
    if (!this.content !== this.wasThinking) this.reasoned.open = this.wasThinking = !this.content;
    this.call.textContent = this.calls.map((c) => `${c.name}(${c.arguments})`).join("\n");
    this.call.hidden = !this.calls.length;
    this.drawEnd();
  }

  // An answer with Markdown is shown twice: as Markdown, and token by token in the token view.
  drawMarkdown() {
    const has = isMarkdown(this.content);
    this.node.classList.toggle("has-markdown", has);
    this.markdown.hidden = !has;
    if (has) this.markdown.replaceChildren(...blocks(this.content));
  }

  drawEnd() {
    const cut = cutReason(this.finish, this.usage, this.maxModelLen);
    this.cut.textContent = cut ?? "";
    this.cut.hidden = !cut;
    const parts = costOf(this.usage);
    if (!this.usage && this.tokens.length)
      parts.push([`${number(this.tokens.length)} out`, "generated tokens"]);
    if (this.finish && this.finish !== "stop" && !cut) parts.push([this.finish, "finish reason"]);
    this.meta.replaceChildren(...parts.map(([text, title]) => el("span", {text, title})));
  }
}
