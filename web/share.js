// These functions make and read links that contain a prompt and its settings. The server stores
// nothing.

const kPrefix = "#share=";

function toBase64(text) {
  let bytes = "";  // a call takes too few arguments for all bytes of a long prompt at once
  for (const byte of new TextEncoder().encode(text)) bytes += String.fromCharCode(byte);
  return btoa(bytes).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

function fromBase64(text) {
  const bytes = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
  return new TextDecoder("utf-8", {fatal: true}).decode(bytes);
}

// `shared` is {prompt, system, values}.
export function shareLink(shared) {
  const {origin, pathname} = location;
  return `${origin}${pathname}${kPrefix}${toBase64(JSON.stringify(shared))}`;
}

// Returns the contents of the page's own address, once, and removes them from it. Returns null if
// there is nothing, or nothing readable.
export function takeShared() {
  if (!location.hash.startsWith(kPrefix)) return null;
  const text = location.hash.slice(kPrefix.length);
  history.replaceState(null, "", location.pathname + location.search);
  try {
    const shared = JSON.parse(fromBase64(text));
    return shared !== null && typeof shared === "object" ? shared : null;
  } catch {
    return null;
  }
}
