// Single keys for those who react without a mouse; never while a field or a dialog has the keyboard.

import { byId } from "./dom.js";

const OFF = "igcf.keys-off";

/** @param {Record<string, () => unknown>} actions */
export function setUpKeys(actions) {
  const box = byId("use-keys");
  box.checked = localStorage.getItem(OFF) === null;
  box.addEventListener("change", () => (box.checked ? localStorage.removeItem(OFF) : localStorage.setItem(OFF, "1")));
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || document.querySelector("dialog[open]")) return;
    if (event.target instanceof Element && event.target.closest("input, select, textarea, .regions")) return;
    const action = actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!action || (!box.checked && event.key !== "?")) return;
    event.preventDefault();
    action();
  });
}
