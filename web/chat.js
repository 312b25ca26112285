// The playground sends, streams and stops requests, and keeps the conversation within the context.

import {Answer} from "./answer.js";
import {ApiError, postJson, streamChat} from "./api.js";
import {Branches} from "./branches.js";
import {Conversation} from "./conversation.js";
import {$, el, hideTip, number, percent} from "./dom.js";
import {Images, thumbnail} from "./images.js";
import {shareLink} from "./share.js";

const kIdeas = [
  "Tell me a story about a fox named Pip.", "What is 7 + 5?", "Spell strawberry backwards.",
  "Fill JSON: Mia is 7 years old and lives in Paris.", "What is the KV cache?", "Tell me a joke."
];
// The share of the context that a request keeps free for its answer.
const kAnswerShare = 1 / 4;

export class Chat {
  // model() returns the card of the selected model: {id, max_model_len}.
  constructor(settings, model) {
    this.settings = settings;
    this.model = model;
    this.conversation = new Conversation();
    this.branches = new Branches($("thread"), () => this.conversation);
    this.images = new Images();
    this.abort = null;
    this.dropNote = el("p", {class: "dropped-note"});
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
    $("share").addEventListener("click", (event) => this.share(event.target));
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

  // The button and Enter send the message, or stop the running answer.
  submit() {
    if (this.abort) return this.stop();
    const text = $("prompt").value.trim();
    if (text || this.images.list.length) this.send(text, this.images.take());
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
    this.images.take();
    this.conversation = new Conversation();
    $("thread").replaceChildren($("welcome"));
    $("welcome").hidden = false;
    this.showUsed(0);
    $("prompt").focus();
  }

  send(text, images = []) {
    if (this.abort) return;
    $("prompt").value = "";
    this.grow();
    $("welcome").hidden = true;
    const turn = {user: text, images, steps: [], answer: null, dropped: false, nodes: []};
    turn.nodes = [this.message(turn)];
    $("thread").append(turn.nodes[0]);
    this.answer(turn);
    return turn;
  }

  // Shows the user's message, with a button to edit it.
  message(turn) {
    const text = el("span", {class: "said", text: turn.user});
    const pictures = turn.images.length ? el("div", {class: "pictures"}, ...turn.images.map(thumbnail)) : null;
    const node = el("article", {class: "turn user", "aria-label": "You"}, pictures, text);
    const change = el("button", {
      class: "quiet",
      type: "button",
      text: "Edit",
      onclick: () => this.edit(turn, node, text)
    });
    node.append(el("div", {class: "actions"}, change));
    return node;
  }

  // Replaces a message by a box for editing it. Sending it begins another branch of the
  // conversation.
  edit(turn, node, text) {
    if (this.abort || node.querySelector("form")) return;
    const box = el("textarea", {rows: 3, "aria-label": "Changed message"});
    box.value = turn.user;
    const close = () => {
      form.remove();
      text.hidden = false;
      node.querySelector(".actions").hidden = false;
    };
    const submit = (event) => {
      event.preventDefault();
      const changed = box.value.trim();
      close();
      if (!changed || this.abort) return;
      const fork = this.branches.fork(turn, node);
      const next = this.send(changed, turn.images);
      this.branches.add(fork, next, next.nodes[0]);
    };
    const form = el(
        "form", {class: "edit", onsubmit: submit}, box,
        el("div", {class: "dialog-actions"},
           el("button", {class: "quiet", type: "button", text: "Cancel", onclick: close}),
           el("button", {class: "primary", type: "submit", text: "Send"})));
    text.hidden = true;
    node.querySelector(".actions").hidden = true;
    node.append(form);
    box.focus();
  }

  // Copies a link that opens the page with the settings and the message in the box, or the last
  // message.
  async share(button) {
    const prompt = $("prompt").value.trim() || (this.conversation.turns.at(-1)?.user ?? "");
    const link = shareLink({prompt, system: this.settings.system(), values: this.settings.values()});
    await this.toClipboard(button, link);
  }

  // Fills in what a link contains. Nothing is sent before the user sends it.
  open({prompt, system, values}) {
    this.settings.use({system, values});
    if (typeof prompt === "string") $("prompt").value = prompt;
    this.grow();
  }

  body(turn) {
    return {
      model: this.model().id,
      messages: this.conversation.messages(this.settings.system(), turn),
      stream: true,
      stream_options: {include_usage: true},
      return_timings: true,
      logprobs: true,
      top_logprobs: 5,
      ...this.settings.values()
    };
  }

  // Drops the oldest turns if the context has no room for this turn and an answer.
  async makeRoom(turn, signal) {
    const {id, max_model_len} = this.model();
    if (!max_model_len) return;
    const wanted = this.settings.values().max_tokens ?? Infinity;
    const answerTokens = Math.max(1, Math.min(wanted, Math.floor(max_model_len * kAnswerShare)));
    const count = async (messages) =>
        (await postJson("/tokenize", {model: id, messages}, signal)).count;
    const room = {mostTokens: max_model_len - answerTokens, limit: max_model_len - 1};
    try {
      await this.conversation.fit(this.settings.system(), turn, room, count);
    } catch (error) {
      // A proxy may pass only /v1, so that tokens cannot be counted.
      if (error.status !== 404) throw error;
    }
    this.showDropped();
  }

  async answer(turn) {
    const conversation = this.conversation;
    const answer = new Answer(this.model().max_model_len);
    turn.nodes = [...turn.nodes.filter((node) => node.isConnected), answer.node];
    $("thread").append(answer.node);
    this.busy(true);
    const signal = this.abort.signal;
    this.scroll(true);
    let queued = false;
    const draw = () => {
      queued = false;
      const follow = this.atEnd();
      answer.draw();
      this.scroll(follow);
    };
    let refused = false;
    try {
      await this.makeRoom(turn, signal);
      for await (const chunk of streamChat(this.body(turn), signal)) {
        answer.add(chunk);
        if (!queued) {
          queued = true;
          requestAnimationFrame(draw);
        }
      }
    } catch (error) {
      refused = this.failed(answer, error);
    }
    this.busy(false);
    answer.node.classList.remove("waiting");
    if (answer.usage) this.showUsed(answer.usage.total_tokens);
    conversation.settle(turn, answer.saidSomething() ? answer.content : null);
    draw();
    if (refused) {
      this.giveBack(turn);
      this.scroll(true);
    }
    this.offerActions(turn, answer, refused);
    if (answer.finish === "tool_calls" && answer.calls.length)
      return answer.askForResults((results) => this.goOn(turn, answer, results));
    $("prompt").focus({preventScroll: true});
  }

  // Sends the results of the functions to the model, which continues the answer.
  goOn(turn, answer, results) {
    if (this.abort) return;
    turn.steps.push({content: answer.content, calls: answer.calls, results});
    this.answer(turn);
  }

  // Shows an error; returns whether the server refused the request itself, so that sending it again
  // is useless.
  failed(answer, error) {
    if (error.name === "AbortError") {
      answer.finish = "stopped";
      return false;
    }
    answer.fail(
        error instanceof ApiError ? error.message :
                                    `The page could not read the answer: ${error.message}`);
    return error.status >= 400 && error.status < 500 && !answer.saidSomething();
  }

  // Removes a refused message from the conversation and puts it back into the box for editing.
  giveBack(turn) {
    turn.nodes[0].classList.add("refused");
    turn.nodes[0].append(el("span", {
      class: "refused-note",
      text: "Not part of the conversation: change it below and send it again."
    }));
    if ($("prompt").value) return;
    this.images.putBack(turn.images);
    $("prompt").value = turn.user;
    this.grow();
  }

  offerActions(turn, answer, refused) {
    for (const old of document.querySelectorAll("[data-again]")) old.remove();
    const button = (text, more) => el("button", {class: "quiet", type: "button", text, ...more});
    if (answer.content)
      answer.actions.append(button("Copy", {onclick: (e) => this.toClipboard(e.target, answer.content)}));
    if (!refused)
      answer.actions.append(
          button("Try again", {"data-again": true, onclick: () => this.again(turn, answer)}));
  }

  async toClipboard(button, text) {
    const before = button.textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Not allowed";
    }
    setTimeout(() => {
      button.textContent = before;
    }, 1200);
  }

  again(turn, answer) {
    if (this.abort) return;
    answer.node.remove();
    this.answer(turn);
  }

  // Updates the context meter below the conversation.
  showUsed(tokens) {
    const limit = this.model().max_model_len;
    $("context").hidden = !limit;
    if (!limit) return;
    const share = Math.min(1, tokens / limit);
    $("context-meter").setAttribute("aria-valuenow", tokens);
    $("context-meter").setAttribute("aria-valuemax", limit);
    $("context-meter").setAttribute("aria-valuetext", `${tokens} of ${limit} tokens`);
    $("context-fill").style.width = `${100 * share}%`;
    $("context-fill").dataset.full = share > 1 - kAnswerShare;
    $("context-text").textContent =
        `Context ${number(tokens)} / ${number(limit)} tokens (${percent(share)})`;
  }

  // Dims the turns that are no longer sent, and says so where they end.
  showDropped() {
    const dropped = this.conversation.turns.filter((turn) => turn.dropped);
    if (!dropped.length) return;
    for (const turn of dropped)
      for (const node of turn.nodes) node.classList.add("dropped");
    this.dropNote.textContent = dropped.length === 1 ?
        "The context is full. The turn above is no longer sent to the model." :
        `The context is full. The ${dropped.length} turns above are no longer sent to the model.`;
    dropped.at(-1).nodes.at(-1).after(this.dropNote);
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
