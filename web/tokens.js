// These functions show answers as tokens. Each token is a span with its probability and the
// alternatives, which the pointer or the keyboard shows: an answer is one tab stop, and the arrow
// keys move from token to token.

import {el, hideTip, percent, showTip, visible} from "./dom.js";

const utf8 = new TextEncoder();

// Splits `content` into pieces by the tokens' bytes. A character whose bytes belong to several
// tokens becomes one piece with all of them; text that belongs to no token becomes a piece without
// tokens.
export function pieces(content, tokens) {
  const bytes = utf8.encode(content);
  const decoder = new TextDecoder();
  const out = [];
  let start = 0, end = 0, group = [];
  for (const token of tokens) {
    const part = token.bytes ?? [...utf8.encode(token.token)];
    if (end + part.length > bytes.length || !part.every((b, i) => bytes[end + i] === b)) break;
    end += part.length;
    group.push(token);
    const onBoundary = end === bytes.length || (bytes[end] & 0xc0) !== 0x80;
    if (onBoundary && end > start) {
      out.push({text: decoder.decode(bytes.subarray(start, end)), tokens: group});
      start = end;
      group = [];
    }
  }
  if (start < bytes.length) out.push({text: decoder.decode(bytes.subarray(start)), tokens: []});
  return out;
}

// Returns one of five levels, from likely to unlikely; the colours are in the style sheet.
function level(probability) {
  return probability > 0.9 ? 0 :
      probability > 0.6    ? 1 :
      probability > 0.3    ? 2 :
      probability > 0.1    ? 3 :
                             4;
}

function alternativeRow(entry, chosen) {
  const share = Math.exp(entry.logprob);
  const bar = el("span", {class: "alt-bar"});
  bar.style.width = `${Math.max(1, 100 * share)}%`;
  return el(
      "div", {class: chosen ? "alt chosen" : "alt"}, el("code", {text: visible(entry.token)}),
      el("span", {class: "alt-track"}, bar),
      el("span", {class: "alt-share", text: percent(share)}));
}

function tipFor(piece) {
  const rows = [];
  for (const token of piece.tokens) {
    const top = token.top_logprobs ?? [];
    rows.push(
        el("div", {class: "tip-head"}, el("code", {text: visible(token.token)}),
           el("span", {text: `logprob ${token.logprob.toFixed(3)}`})));
    rows.push(...top.map((entry) => alternativeRow(entry, entry.token === token.token)));
    if (!top.some((entry) => entry.token === token.token)) rows.push(alternativeRow(token, true));
  }
  return rows;
}

function tokenSpan(piece) {
  const span = el("span", {class: "tok", text: piece.text});
  if (!piece.tokens.length) return span;
  const worst = Math.min(...piece.tokens.map((t) => Math.exp(t.logprob)));
  span.dataset.level = level(worst);
  span.tabIndex = -1;
  span.piece = piece;
  return span;
}

// A TokenText is a growing answer: update() keeps the spans that are still right and appends the
// rest.
export class TokenText {
  constructor() {
    this.node = el("div", {class: "answer"});
    this.shown = [];
    this.node.addEventListener("keydown", (event) => this.key(event));
    this.node.addEventListener("focusin", (event) => this.stopAt(event.target));
    for (const type of ["pointerover", "focusin"])
      this.node.addEventListener(type, (event) => this.hover(event));
    for (const type of ["pointerout", "focusout"]) this.node.addEventListener(type, hideTip);
  }

  update(content, tokens) {
    const next = pieces(content, tokens);
    let same = 0;
    while (same < this.shown.length && same < next.length &&
           this.shown[same].text === next[same].text &&
           this.shown[same].tokens.length === next[same].tokens.length)
      same++;
    while (this.node.childNodes.length > same) this.node.lastChild.remove();
    this.node.append(...next.slice(same).map(tokenSpan));
    this.shown = next;
    if (!this.stop?.isConnected) this.stopAt(this.node.querySelector("[tabindex]"));
  }

  // Makes a token the one that the Tab key leads to.
  stopAt(span) {
    if (!span) return;
    if (this.stop) {
      this.stop.tabIndex = -1;
      this.stop.removeAttribute("aria-describedby");
    }
    this.stop = span;
    span.tabIndex = 0;
    span.setAttribute("aria-describedby", "tip");
  }

  key(event) {
    const spans = [...this.node.querySelectorAll("[tabindex]")];
    const at = spans.indexOf(event.target);
    const next = {
      ArrowRight: at + 1,
      ArrowDown: at + 1,
      ArrowLeft: at - 1,
      ArrowUp: at - 1,
      Home: 0,
      End: spans.length - 1
    }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    spans[Math.min(Math.max(next, 0), spans.length - 1)]?.focus();
  }

  hover(event) {
    const piece = event.target.piece;
    if (!piece) return;
    const box = event.target.getBoundingClientRect();
    const x = event.type === "pointerover" ? event.clientX : box.left + box.width / 2;
    showTip(
        x, event.type === "pointerover" ? Math.min(event.clientY, box.bottom) - 4 : box.top,
        ...tipFor(piece));
  }
}
