// A link that carries a prompt and its settings. It is the link itself that holds them: the server
// keeps nothing.

const kPrefix = "#share=";

function toBase64(text) {
  const bytes = new TextEncoder().encode(text);
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
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

// What the page's own address carries, once: the address then loses it. Null: nothing, or nothing
// that can be read.
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
