// These are tables of the live view: results of drafts, grammars, and the usage of each key. A
// table is shown when it has rows.

import {compact, el, number, percent} from "./dom.js";

// Makes a table; the first cell of a row is its header.
function table(caption, columns, rows) {
  const cells = ([head, ...rest]) =>
      el("tr", {}, el("th", {scope: "row", text: head}), ...rest.map((text) => el("td", {text})));
  return el("table", {}, el("caption", {class: "sr", text: caption}),
            el("thead", {}, el("tr", {}, ...columns.map((text) => el("th", {scope: "col", text})))),
            el("tbody", {}, ...rows.map(cells)));
}

function speculation({verified, drafted, accepted, accepted_by_place}) {
  if (!verified) return null;
  const rows = [["all", number(drafted), number(accepted), percent(accepted / drafted)]];
  // A position is drafted whenever the position before it was accepted, and often when it was not.
  accepted_by_place.forEach((count, i) => {
    if (count) rows.push([number(i + 1), "", number(count), percent(count / verified)]);
  });
  return {
    note: `${number(1 + accepted / verified, 2)} tokens a step of a request that has drafts`,
    node: table("Drafts by place", ["Place", "Drafted", "Came out", "Share"], rows)
  };
}

function grammars({hits, compiled, failed, kept}) {
  if (!hits && !compiled && !failed) return null;
  const rows = [
    ["Compiled", number(compiled)], ["Known already", number(hits)],
    ["Could not be compiled", number(failed)], ["Kept now", number(kept)]
  ];
  return {
    note: "Grammars of answers that follow a schema, a rule or a choice",
    node: table("Grammars", ["Grammars", "Count"], rows)
  };
}

function keys(list) {
  if (!list?.length) return null;
  const rows = list.map((key) => [key.name, number(key.running), number(key.requests), number(key.refused),
                                  compact(key.prompt_tokens), compact(key.output_tokens)]);
  return {
    note: "Requests and tokens since the start",
    node: table("Keys", ["Key", "Now", "Requests", "Refused", "Prompt", "Output"], rows)
  };
}

const kTables = [
  ["Speculation", (stats) => stats.speculation && speculation(stats.speculation)],
  ["Structured output", (stats) => stats.structured_output && grammars(stats.structured_output)],
  ["API keys", (stats) => keys(stats.keys)],
];

export class Tables {
  constructor(parent) {
    this.cards = kTables.map(([title, read]) => {
      const id = `table-${title.toLowerCase().replaceAll(" ", "-")}`;
      const note = el("p", {class: "caption"}), body = el("div", {class: "table", tabindex: 0});
      body.setAttribute("role", "region");
      body.setAttribute("aria-labelledby", id);
      const node = el("article", {class: "card", hidden: true, "aria-labelledby": id},
                      el("div", {class: "card-head"}, el("h2", {id, text: title}), note), body);
      return {node, note, body, read};
    });
    parent.append(...this.cards.map(({node}) => node));
  }

  update(stats) {
    for (const {node, note, body, read} of this.cards) {
      const shown = read(stats);
      node.hidden = !shown;
      if (!shown) continue;
      note.textContent = shown.note;
      body.replaceChildren(shown.node);
    }
  }
}
