// Where a conversation forks: a message that was changed and sent anew begins another branch, and
// all branches stay there to go back to.

import {el} from "./dom.js";

// One fork. A branch is {turns, nodes}: the turns from the fork on that belong to the conversation,
// and everything that the thread shows of them.
class Fork {
  constructor(position) {
    this.position = position;  // turns before it
    this.branches = [];
    this.shown = 0;
    this.heads = [];  // the first message of each branch
  }
}

export class Branches {
  // `thread` is the element whose children are the messages; conversation() is the one it shows.
  constructor(thread, conversation) {
    this.thread = thread;
    this.conversation = conversation;
  }

  // Puts aside what follows from message `head` of `turn` on, and makes room for another branch.
  // Returns what the head of the new one has to be given to, by add().
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

  // The first message of a new branch is there: `head` in the thread, and `turn`.
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

  // Which branch this is, below its first message.
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
