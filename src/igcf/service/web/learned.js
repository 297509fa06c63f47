// What was learned, in words, and how far it is to the taste card.

import { byId, el } from "./dom.js";
import { plural } from "./values.js";

export const GOALS = [12, 30];
const OFTEN = 3; // hits from which a category is counted, and how many hits it has for each miss

/** @type {Record<Api.Taste["confidence"], string>} */
const CONFIDENCE = { none: "", "first impression": "A first impression.", "fairly sure": "Fairly sure.", sure: "Sure of it." };

/**
 * @param {Api.Taste | undefined} taste
 * @param {number} n how many reactions there are
 */
export function showLearned(taste, n) {
  const sentence = taste?.sentence ?? "";
  const counted = taste ? countedLikes(taste) : "";
  const silent = n === 0 ? "Nothing yet. It starts from what most people like." : counted ? `So far you liked ${counted}.` : "No clear pattern yet.";
  setText(byId("learned"), sentence || silent);
  byId("learned").classList.toggle("silent", !sentence);
  const most = taste?.groups.find((each) => each.standing === "liked");
  const seen = most && taste ? ` You liked ${most.hits} of ${plural(most.hits + most.misses, "card")} ${inGroup(taste, most)}.` : "";
  const early = counted ? "Too early to say how you differ from others. " : "";
  setText(byId("learned-more"), sentence && taste ? `${CONFIDENCE[taste.confidence]}${seen}` : n ? `${early}After ${plural(n, "reaction")}.` : "React to a few cards to see what it makes of them.");
}

/**
 * Where most cards were hits, in numbers: a fact even where this visitor does not differ from others.
 * @param {Api.Taste} taste
 */
export function countedLikes(taste) {
  const often = taste.groups.filter(({ hits, misses }) => hits >= OFTEN && hits >= OFTEN * misses);
  often.sort((a, b) => b.hits - a.hits || (a.name < b.name ? -1 : 1));
  return often.slice(0, 2).map((group) => `${group.hits} of ${group.hits + group.misses} ${inGroup(taste, group)}`).join(" and ");
}

/** @type {(taste: Api.Taste, group: Api.GroupTaste) => string} */
const inGroup = ({ kind }, { name }) => `${kind === "categories" ? "in" : "like"} ${/^\d+$/.test(name) ? "category " : ""}${name}`;

/**
 * @param {number} n how many reactions there are
 */
export function showProgress(n) {
  const goal = GOALS.find((each) => n < each);
  const bar = byId("progress");
  const before = goal === GOALS[0] ? 0 : GOALS[0];
  bar.hidden = goal === undefined;
  byId("show-finale").hidden = n < GOALS[0];
  if (goal === undefined) return;
  bar.setAttribute("aria-valuemax", String(goal));
  bar.setAttribute("aria-valuenow", String(n));
  bar.setAttribute("aria-valuetext", `${n} of ${goal} reactions`);
  const filled = /** @type {HTMLElement} */ (bar.firstElementChild);
  filled.style.width = `${(100 * (n - before)) / (goal - before)}%`;
}

/**
 * @param {number} n
 * @param {number} hits
 * @param {number} logged
 */
export function factsOf(n, hits, logged) {
  /** @type {(value: string | number, words: string) => HTMLElement} */
  const fact = (value, words) => el("span", null, el("b", null, value), ` ${words}`);
  const goal = GOALS.find((each) => n < each);
  return [
    fact(n, n === 1 ? "reaction" : "reactions"), fact(hits, hits === 1 ? "hit" : "hits"),
    ...(logged ? [fact(logged, "from your history")] : []),
    ...(goal ? [fact(goal - n, `to your ${goal === GOALS[0] ? "" : "next "}taste card`)] : []),
  ];
}

/**
 * Change a live region only where its text differs, so that nothing is announced twice.
 * @param {HTMLElement} element
 * @param {string} text
 */
function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
