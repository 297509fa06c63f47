// A past card, opened: what was said about it, and a way to say something else or nothing.

import { cover } from "./cover.js";
import { byId, el } from "./dom.js";
import { saidOf } from "./panels.js";
import { offer, titleAndYear } from "./values.js";

/**
 * @param {Round} round
 * @param {string[] | undefined} categories
 * @param {Api.RewardInfo} reward
 * @param {{ change: (value: number | null) => unknown, remove: () => unknown, ask: () => unknown }} acts
 */
export function openRound(round, categories, reward, acts) {
  const dialog = byId("round-dialog");
  const [title, year] = titleAndYear(round);
  const { done } = saidOf(round, reward);
  byId("round-cover").replaceChildren(cover(round.item, round.categories ?? categories));
  byId("round-title").textContent = title;
  byId("round-title").dir = "auto";
  byId("round-said").textContent = [year, (round.categories ?? categories ?? []).join(", "), `You said: ${done}.`].filter(Boolean).join(" · ");
  /** @type {(act: () => unknown) => () => void} */
  const closing = (act) => () => { dialog.close(); act(); };
  byId("round-choices").replaceChildren(...offer(reward).choices.map(({ label, mark, value }) => el("button",
    { type: "button", "aria-pressed": String(round.evidence !== "skip" && round.value === value), title: label, onclick: closing(() => acts.change(value)) },
    el("span", { "aria-hidden": "true" }, mark), el("span", { class: "visually-hidden" }, label))));
  byId("round-remove").onclick = closing(acts.remove);
  byId("round-why").onclick = closing(acts.ask);
  dialog.showModal();
}
