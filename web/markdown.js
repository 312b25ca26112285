// Turns the Markdown that models write into elements: headings, lists, quotes, tables, code,
// emphasis and links. Text never becomes HTML: elements are made one by one, and text that is not
// recognized stays as it is.

import {el} from "./dom.js";

const kFence = /^ {0,3}(`{3,}|~{3,})\s*([^\s`]*)[^`]*$/;
const kHeading = /^ {0,3}(#{1,6})\s+(.+?)\s*#*$/;
const kItem = /^( *)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const kRule = /^ {0,3}([-*_])( *\1){2,} *$/;
const kQuote = /^ {0,3}> ?(.*)$/;
const kTableRule = /^ *\|? *:?-+:? *(\| *:?-+:? *)+\|? *$/;
// Inline syntax in order of precedence: code, links, strong, emphasis.
const kInline =
    /(`+)([^`]|[^`][^]*?[^`])\1(?!`)|\[([^\]\n]+)\]\((https?:\/\/[^\s)]+)\)|\*\*(\S|\S[^]*?\S)\*\*|\*([^\s*]|[^\s*][^]*?[^\s*])\*|\b_([^\s_]|[^\s_][^]*?[^\s_])_\b/;

// Returns whether Markdown would change how a text looks.
export function isMarkdown(text) {
  return text.split("\n").some(
             (line) => kFence.test(line) || kHeading.test(line) || kItem.test(line) ||
                 kQuote.test(line) || kTableRule.test(line)) ||
      kInline.test(text);
}

// Returns the nodes of one paragraph's text.
export function inline(text) {
  const out = [];
  for (let rest = text; rest;) {
    const match = kInline.exec(rest);
    if (!match) return [...out, rest];
    const [whole, ticks, code, label, link, strong, star, underscore] = match;
    if (match.index) out.push(rest.slice(0, match.index));
    if (ticks)
      out.push(el("code", {text: code}));
    else if (link)
      out.push(el("a", {href: link, rel: "noreferrer noopener", target: "_blank"}, ...inline(label)));
    else
      out.push(el(strong ? "strong" : "em", {}, ...inline(strong ?? star ?? underscore)));
    rest = rest.slice(match.index + whole.length);
  }
  return out;
}

// Returns the blocks of a text as elements. An open fence at the end is code already, so that a
// block does not change its look while it streams.
export function blocks(text) {
  return new Blocks(text.split("\n")).all();
}

class Blocks {
  constructor(lines) {
    this.lines = lines;
    this.at = 0;
  }

  all() {
    const out = [];
    while (this.at < this.lines.length) {
      if (!this.lines[this.at].trim()) {
        this.at++;
        continue;
      }
      out.push(this.fence() ?? this.heading() ?? this.rule() ?? this.table() ?? this.list() ??
               this.quote() ?? this.paragraph());
    }
    return out;
  }

  // Takes lines as long as `take(line)` returns something, and returns the results.
  taken(take) {
    const out = [];
    for (; this.at < this.lines.length; this.at++) {
      const value = take(this.lines[this.at]);
      if (value === null) break;
      out.push(value);
    }
    return out;
  }

  fence() {
    const open = kFence.exec(this.lines[this.at]);
    if (!open) return null;
    this.at++;
    const isEnd = (line) => line.trim().startsWith(open[1]) && !line.trim().replaceAll(open[1][0], "");
    const code = this.taken((line) => isEnd(line) ? null : line);
    this.at++;
    return el("pre", {class: "code", tabindex: 0, "aria-label": open[2] ? `Code, ${open[2]}` : "Code"},
              el("code", {text: code.join("\n")}));
  }

  heading() {
    const match = kHeading.exec(this.lines[this.at]);
    if (!match) return null;
    this.at++;
    // Headings begin at the third level, because the page itself has the first two.
    return el(`h${Math.min(6, match[1].length + 2)}`, {}, ...inline(match[2]));
  }

  rule() {
    if (!kRule.test(this.lines[this.at])) return null;
    this.at++;
    return el("hr");
  }

  table() {
    if (!this.lines[this.at].includes("|") || !kTableRule.test(this.lines[this.at + 1] ?? "")) return null;
    const cells = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());
    const row = (line, tag) => el("tr", {}, ...cells(line).map((cell) => el(tag, {}, ...inline(cell))));
    const head = row(this.lines[this.at], "th");
    this.at += 2;
    const body = this.taken((line) => line.includes("|") ? row(line, "td") : null);
    return el("div", {class: "table", tabindex: 0, role: "group", "aria-label": "Table"},
              el("table", {}, el("thead", {}, head), el("tbody", {}, ...body)));
  }

  list() {
    const first = kItem.exec(this.lines[this.at]);
    if (!first) return null;
    const indent = first[1].length;
    const ordered = /\d/.test(first[2]);
    const items = [];
    while (this.at < this.lines.length) {
      const match = kItem.exec(this.lines[this.at]);
      if (!match || match[1].length !== indent || /\d/.test(match[2]) !== ordered) break;
      this.at++;
      // Lines that are indented below an item belong to it.
      const inside = this.taken((line) => {
        if (!line.trim()) return this.belongs(indent) ? "" : null;
        return line.search(/\S/) > indent ? line.slice(Math.min(line.search(/\S/), indent + 2)) : null;
      });
      items.push(el("li", {}, ...inline(match[3]), ...(inside.some(Boolean) ? new Blocks(inside).all() : [])));
      while (this.at < this.lines.length && !this.lines[this.at].trim() && this.isItem(this.at + 1, indent)) this.at++;
    }
    return el(ordered ? "ol" : "ul", ordered ? {start: parseInt(first[2], 10)} : {}, ...items);
  }

  // Returns whether the next line that is not blank is indented deeper than `indent`.
  belongs(indent) {
    const next = this.lines.slice(this.at).find((line) => line.trim());
    return next !== undefined && next.search(/\S/) > indent;
  }

  isItem(at, indent) {
    const match = kItem.exec(this.lines[at] ?? "");
    return match !== null && match[1].length === indent;
  }

  quote() {
    if (!kQuote.test(this.lines[this.at])) return null;
    const inside = this.taken((line) => kQuote.exec(line)?.[1] ?? null);
    return el("blockquote", {}, ...new Blocks(inside).all());
  }

  paragraph() {
    const first = this.at;
    const lines = this.taken((line) => {
      const ends = !line.trim() || this.at > first &&
              (kFence.test(line) || kHeading.test(line) || kItem.test(line) || kQuote.test(line));
      return ends ? null : line;
    });
    return el("p", {}, ...inline(lines.join("\n")));
  }
}
