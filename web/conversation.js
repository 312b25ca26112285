// A Conversation is what is sent of a chat: the turns that still fit into the context. A turn is
// {user, images, steps, answer, dropped}; only answered turns belong to the conversation. Each of
// its steps is {content, calls, results}: functions that the model called before it answered.

// Returns a message's content. Pictures come before the text about them.
function contentOf({user, images}) {
  if (!images?.length) return user;
  const pictures = images.map(({url}) => ({type: "image_url", image_url: {url}}));
  return user ? [...pictures, {type: "text", text: user}] : pictures;
}

function messagesOf({content, calls, results}) {
  const tool_calls = calls.map(
      ({id, name, arguments: text}) => ({id, type: "function", function: {name, arguments: text}}));
  return [
    {role: "assistant", content: content || null, tool_calls},
    ...results.map((text, i) => ({role: "tool", tool_call_id: calls[i].id, content: text}))
  ];
}

// Returns the messages of a turn before its answer: the question and the calls with their results.
function questionOf(turn) {
  return [{role: "user", content: contentOf(turn)}, ...(turn.steps ?? []).flatMap(messagesOf)];
}

export class Conversation {
  constructor() {
    this.turns = [];
  }

  kept() {
    return this.turns.filter((turn) => !turn.dropped);
  }

  // Returns the messages of a request: the system prompt, the turns before `current`, and its
  // question.
  messages(system, current) {
    const before = this.kept().filter((turn) => turn !== current);
    return [
      ...(system ? [{role: "system", content: system}] : []), ...before.flatMap((turn) => [
        ...questionOf(turn), {role: "assistant", content: turn.answer}
      ]),
      ...questionOf(current)
    ];
  }

  // Drops the oldest turns until the request has at most `mostTokens` by `count(messages)`. Nothing
  // is dropped for a question that is longer than `limit` by itself, because it will be refused.
  async fit(system, current, {mostTokens, limit}, count) {
    const dropped = [];
    for (;;) {
      const tokens = await count(this.messages(system, current));
      const oldest = this.kept().find((turn) => turn !== current);
      if (tokens <= mostTokens || !oldest) {
        if (tokens > limit)
          for (const turn of dropped) turn.dropped = false;
        return;
      }
      oldest.dropped = true;
      dropped.push(oldest);
    }
  }

  // Stores `turn` with its answer. Without an answer it is dropped, so that a refused question is
  // not sent again with every later one.
  settle(turn, answer) {
    turn.answer = answer;
    this.turns = this.turns.filter((other) => other !== turn);
    if (answer !== null) this.turns.push(turn);
  }
}
