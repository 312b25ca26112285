// A conversation forks when a message is changed and sent again: that begins another branch, and
// all branches are kept to return to.

import {el} from "./dom.js";

// A Fork is one place of this kind. A branch is {turns, nodes}: the turns from the fork on that
// belong to the conversation, and all elements of the thread that show them.
class Fork {
  constructor(position) {
    this.position = position;  // number of turns before it
    this.branches = [];
    this.shown = 0;
    this.heads = [];  // the first message of each branch
  }
}

export class Branches {
  // `thread` is the element whose children are the messages; it shows `conversation`.
  constructor(thread, conversation) {
    this.thread = thread;
    this.conversation = conversation;
  }

  // Removes everything from message `head` of `turn` on from the thread, and stores it as a branch.
  // Returns the fork, to which add() gives the first message of the new branch.
  fork(turn, head) {
    const {turns} = this.conversation();
    const at = turns.indexOf(turn);
    const fork = turn.fork ?? new Fork(at < 0 ? turns.length : at);
    if (!turn.fork) fork.heads[0] = head;
    turn.fork = fork;
    this.putAside(fork);
    fork.shown = fork.branches.length;
    return fork;
  }

  // Adds the first message of a new branch: `head` in the thread, and `turn`.
  add(fork, turn, head) {
    turn.fork = fork;
    fork.heads[fork.shown] = head;
    fork.branches[fork.shown] = {turns: [], nodes: []};
    this.label(fork);
  }

  show(fork, index) {
    if (index < 0 || index >= fork.branches.length || index === fork.shown) return;
    this.putAside(fork);
    fork.shown = index;
    const {turns, nodes} = fork.branches[index];
    this.conversation().turns.push(...turns);
    this.thread.append(...nodes);
    this.label(fork);
  }

  putAside(fork) {
    const nodes = [];
    for (let node = fork.heads[fork.shown]; node; node = node.nextSibling) nodes.push(node);
    for (const node of nodes) node.remove();
    fork.branches[fork.shown] = {turns: this.conversation().turns.splice(fork.position), nodes};
  }

  // Shows which branch this is, below its first message.
  label(fork) {
    const head = fork.heads[fork.shown];
    head.querySelector(".branch")?.remove();
    const step = (text, label, by) => el("button", {
      class: "quiet",
      type: "button",
      text,
      "aria-label": label,
      onclick: () => this.show(fork, fork.shown + by)
    });
    const count = el("span", {text: `${fork.shown + 1} / ${fork.branches.length}`});
    head.querySelector(".actions")
        .prepend(el("span", {class: "branch", role: "group", "aria-label": "Versions of this message"},
                    step("‹", "Earlier version", -1), count, step("›", "Later version", 1)));
  }
}
