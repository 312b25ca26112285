// These functions talk to the server: JSON requests, the streamed chat completion, and errors as
// one clear sentence. When the server has asked for a key, nothing is sent until there is one. When
// it has said that it has no /quire/* routes, they are not requested again.

let apiKey = sessionStorage.getItem("quire-api-key") ?? "";
let locked = false;
let viewsOff = false;
let onLocked = () => {};

// Asks the server whether it accepts the key, which is kept for the browser's session. Nothing else
// is sent meanwhile, so that a wrong key is refused only once.
export async function tryApiKey(key) {
  const wasLocked = locked;
  locked = true;
  apiKey = key.trim();
  sessionStorage.setItem("quire-api-key", apiKey);
  try {
    await send("/v1/models", {cache: "no-store"});
    locked = false;
  } catch (error) {
    if (error.status !== 401) locked = wasLocked;
    throw error;
  }
}

export function getApiKey() {
  return apiKey;
}

// Returns whether the server refused the last request because the key was missing or wrong.
export function isLocked() {
  return locked;
}

// Returns whether the server has no /quire/* routes: they are off, or a proxy hides them.
export function areViewsOff() {
  return viewsOff;
}

// Calls `callback` when the server asks for a key, and not again until tryApiKey() has succeeded.
export function whenLocked(callback) {
  onLocked = callback;
}

export class ApiError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

function headers() {
  const out = {"Content-Type": "application/json"};
  if (apiKey) out.Authorization = `Bearer ${apiKey}`;
  return out;
}

function explain(status, body) {
  let message = body;
  try {
    const parsed = JSON.parse(body);
    message = parsed.error?.message ?? parsed.error ?? parsed.message ?? parsed.detail ?? body;
  } catch {
    // The text is not JSON, so it is shown as it is.
  }
  if (typeof message !== "string" || !message.trim()) message = "The server gave no reason.";
  if (status === 429) return `The server is busy: ${message}`;
  return `${message.trim()} (HTTP ${status})`;
}

const kKeyWanted = "The server asks for an API key.";
const kViewsOff = "This view is switched off on this server (/quire/*).";

function lock() {
  if (!locked) {
    locked = true;
    onLocked();
  }
  return new ApiError(kKeyWanted, 401);
}

async function request(path, options) {
  if (locked) throw new ApiError(kKeyWanted, 401);
  return send(path, options);
}

async function send(path, options) {
  const isView = path.startsWith("/quire/");
  if (viewsOff && isView) throw new ApiError(kViewsOff, 404);
  let response;
  try {
    response = await fetch(path, {...options, headers: headers()});
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("The server cannot be reached.", 0);
  }
  if (response.status === 401) throw lock();
  viewsOff ||= isView && response.status === 404;
  if (viewsOff && isView) throw new ApiError(kViewsOff, 404);
  if (!response.ok)
    throw new ApiError(explain(response.status, await response.text()), response.status);
  return response;
}

export async function getJson(path) {
  return (await request(path, {cache: "no-store"})).json();
}

export async function postJson(path, body, signal) {
  return (await request(path, {method: "POST", body: JSON.stringify(body), signal})).json();
}

// An EventParser splits a stream of text into server-sent events and returns the data of each
// complete event.
export class EventParser {
  constructor() {
    this.buffer = "";
    this.data = [];
  }

  push(text) {
    const events = [];
    this.buffer += text;
    let end;
    while ((end = this.buffer.search(/\r\n|\n|\r(?!$)/)) >= 0) {
      const line = this.buffer.slice(0, end);
      this.buffer = this.buffer.slice(end + (this.buffer.startsWith("\r\n", end) ? 2 : 1));
      if (line === "") {
        if (this.data.length) events.push(this.data.join("\n"));
        this.data = [];
      } else if (line.startsWith("data:")) {
        this.data.push(line.slice(line[5] === " " ? 6 : 5));
      }
    }
    return events;
  }
}

// Yields the parsed chunks of a streamed chat completion. Throws ApiError if the server reports an
// error or if the stream ends without its [DONE] mark, so that an incomplete answer is never shown
// as complete.
export async function* streamChat(body, signal) {
  const response =
      await request("/v1/chat/completions", {method: "POST", body: JSON.stringify(body), signal});
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const parser = new EventParser();
  for (;;) {
    const {value, done} = await reader.read();
    if (done) throw new ApiError("The answer was cut off: the connection closed early.", 0);
    for (const data of parser.push(value)) {
      if (data === "[DONE]") return;
      const chunk = JSON.parse(data);
      if (chunk.error)
        throw new ApiError(
            chunk.error.message ?? "The server stopped with an error.", chunk.error.code ?? 0);
      yield chunk;
    }
  }
}
