// Light, dark, or as the system has it.

import { byId } from "./dom.js";

/** @type {Record<string, string>} */
const NAMES = { "": "as the system", light: "light", dark: "dark" };
const ORDER = Object.keys(NAMES);

export function setUpTheme(changed = () => {}) {
  const button = byId("theme");
  /** @param {string} theme */
  const apply = (theme) => {
    if (theme) document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
    button.setAttribute("aria-label", `Colours: ${NAMES[theme]}`);
    button.title = `Colours: ${NAMES[theme]}`;
    changed();
  };
  button.addEventListener("click", () => {
    const next = ORDER[(ORDER.indexOf(document.documentElement.dataset.theme ?? "") + 1) % ORDER.length];
    localStorage.setItem("igcf.theme", next);
    apply(next);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => changed());
  const kept = localStorage.getItem("igcf.theme") ?? "";
  apply(kept in NAMES ? kept : "");
}
