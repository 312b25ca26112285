// These are the pictures of the next message: chosen by a button, dropped, or pasted. They are
// shown as canvases, because the page loads nothing, not even from itself.

import {$, el} from "./dom.js";

const kTypes = ["image/jpeg", "image/png", "image/webp"];
const kThumbPx = 72;

function dataUrl(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

// Returns a small copy of a picture. `image` is {url, name, bitmap}.
export function thumbnail(image) {
  const {width, height} = image.bitmap;
  const scale = Math.min(1, kThumbPx / Math.max(width, height));
  const canvas = el("canvas", {
    class: "thumb",
    role: "img",
    "aria-label": `Image ${image.name}`,
    width: Math.max(1, Math.round(width * scale)),
    height: Math.max(1, Math.round(height * scale))
  });
  canvas.getContext("2d").drawImage(image.bitmap, 0, 0, canvas.width, canvas.height);
  return canvas;
}

export class Images {
  constructor() {
    this.list = [];
    $("attach").addEventListener("click", () => $("image-file").click());
    $("image-file").addEventListener("change", () => {
      this.add([...$("image-file").files]);
      $("image-file").value = "";
    });
    $("prompt").addEventListener("paste", (event) => this.takeFrom(event, event.clipboardData));
    const place = $("view-chat");
    place.addEventListener("dragover", (event) => {
      if (![...(event.dataTransfer?.types ?? [])].includes("Files")) return;
      event.preventDefault();
      $("composer").classList.add("dropping");
    });
    place.addEventListener("dragleave", () => $("composer").classList.remove("dropping"));
    place.addEventListener("drop", (event) => this.takeFrom(event, event.dataTransfer));
  }

  // Text that is pasted or dropped is left to the browser.
  takeFrom(event, data) {
    $("composer").classList.remove("dropping");
    const files = [...(data?.files ?? [])];
    if (!files.length) return;
    event.preventDefault();
    this.add(files);
  }

  async add(files) {
    const refused = [];
    for (const file of files) {
      try {
        if (!kTypes.includes(file.type)) throw new Error("type");
        const bitmap = await createImageBitmap(file);
        this.list.push({url: await dataUrl(file), name: file.name || "pasted", bitmap});
      } catch {
        refused.push(file.name || "what was pasted");
      }
    }
    this.draw(refused.length ? `${refused.join(", ")}: expected a JPEG, PNG or WebP` : "");
    $("prompt").focus();
  }

  // Puts the pictures of a refused message back.
  putBack(images) {
    if (!this.list.length) this.list = [...images];
    this.draw("");
  }

  take() {
    const taken = this.list;
    this.list = [];
    this.draw("");
    return taken;
  }

  draw(note) {
    $("images").replaceChildren(...this.list.map(
        (image) => el("li", {}, thumbnail(image), el("button", {
                        type: "button",
                        class: "quiet",
                        text: "×",
                        "aria-label": `Remove image ${image.name}`,
                        onclick: () => {
                          this.list = this.list.filter((other) => other !== image);
                          this.draw("");
                        }
                      }))));
    $("images").hidden = !this.list.length;
    $("images-note").textContent = note;
    $("images-note").hidden = !note;
  }
}
