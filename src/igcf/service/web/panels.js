// What it believes, in numbers and bars: the best bets, the reasons for a card, the learning curve, past reactions.

import { cover } from "./cover.js";
import { badge } from "./deck.js";
import { el, svg } from "./dom.js";
import { isHit, isShare, plural, rewardRange, rewardText, starsOf, titleAndYear } from "./values.js";

const REASONS_SHOWN = 4;

/** @typedef {{ mean: number, std: number }} Spread */

/**
 * The top items; rows are kept and changed in place, so that bars move and the keyboard's focus stays.
 * @param {HTMLElement} list
 * @param {Api.BelievedItem[]} top
 * @param {Api.RewardInfo} reward
 * @param {string | null} asked
 * @param {(item: string | null) => void} ask
 */
export function drawBets(list, top, reward, asked, ask) {
  while (list.children.length > top.length) list.lastElementChild?.remove();
  top.forEach((bet, i) => {
    const row = list.children[i] ?? list.appendChild(betRow());
    const button = /** @type {HTMLButtonElement} */ (row.firstElementChild);
    button.onclick = () => ask(bet.item === asked ? null : bet.item);
    button.setAttribute("aria-pressed", String(bet.item === asked));
    const [title, year] = titleAndYear(bet);
    const [name, gauge, value] = /** @type {Iterable<HTMLElement>} */ (button.children);
    name.textContent = title;
    name.title = year ? `${title} (${year})` : title;
    setGauge(gauge, bet, rewardRange(reward));
    value.textContent = withSpread(bet, reward);
  });
}

/** @type {(about: Spread, reward: Api.RewardInfo) => string} */
const withSpread = ({ mean, std }, reward) => `${rewardText(mean, reward).replace("\u00a0%", "")}\u00a0±\u00a0${rewardText(std, reward)}`;

function betRow() {
  const gauge = svg("svg", { class: "gauge", "aria-hidden": "true" },
    svg("rect", { class: "rail", y: 6, height: 6, width: "100%", rx: 3 }),
    svg("rect", { class: "fill", y: 6, height: 6, rx: 3 }),
    svg("line", { class: "range", y1: 9, y2: 9 }),
    svg("circle", { class: "dot", cy: 9, r: 4.5 }));
  return el("li", null, el("button", { type: "button" },
    el("span", { class: "name" }), gauge, el("span", { class: "value" })));
}

/**
 * @param {Element} gauge
 * @param {Spread} bet
 * @param {[number, number]} range
 */
function setGauge(gauge, { mean, std }, [low, high]) {
  /** @param {number} value */
  const at = (value) => `${(100 * Math.min(1, Math.max(0, (value - low) / (high - low || 1)))).toFixed(2)}%`;
  const [, fill, range, dot] = gauge.children;
  fill.setAttribute("width", at(mean));
  range.setAttribute("x1", at(mean - std));
  range.setAttribute("x2", at(mean + std));
  dot.setAttribute("cx", at(mean));
}

/**
 * Why an item is expected to please: the population, plus what each past reaction adds; it sums to the expectation.
 * @param {HTMLElement} place
 * @param {Api.Explained} why
 * @param {Card | null} card
 * @param {Api.RewardInfo} reward
 */
export function drawWhy(place, why, card, reward) {
  const isCard = card?.item === why.item;
  const parts = [...why.contributions].sort((a, b) => Math.abs(b.amount) - Math.abs(a.amount));
  const rest = parts.slice(REASONS_SHOWN);
  /** @type {[string, number, string?][]} */
  const rows = [["What people think of it", why.prior, "base"]];
  for (const part of parts.slice(0, REASONS_SHOWN)) rows.push([`${deed(part.value, reward)} ${part.title ?? part.item}`, part.amount]);
  if (rest.length) rows.push([plural(rest.length, "more reaction"), rest.reduce((sum, part) => sum + part.amount, 0)]);
  const widest = Math.max(...rows.map(([, amount]) => Math.abs(amount)), 1e-9);
  place.replaceChildren(
    el("div", { class: "about" }, isCard ? badge(card?.reason) : null, el("span", null, reasonText(why, isCard ? card : null, reward))),
    el("table", { "aria-label": `Where the expectation for ${why.title ?? why.item} comes from` },
      el("tbody", null,
        rows.map(([name, amount, kind]) => el("tr", null,
          el("th", { scope: "row", title: name }, name),
          el("td", null, push(amount / widest, kind)),
          el("td", { class: "number" }, rewardText(amount, reward, { sign: true })))),
        el("tr", { class: "sum" }, el("th", { scope: "row" }, "Expected"), el("td"),
          el("td", { class: "number" }, rewardText(why.mean, reward))))));
}

/**
 * The reason that came with a card, for the time in which the server cannot say more.
 * @param {HTMLElement} place
 * @param {Card} card
 * @param {Api.RewardInfo} reward
 */
export function drawReason(place, card, reward) {
  place.replaceChildren(el("div", { class: "about" }, badge(card.reason),
    el("span", null, card.mean === undefined || card.std === undefined ? "" : reasonText({ ...card, mean: card.mean, std: card.std }, card, reward))));
}

/**
 * @param {Spread & { item: string, title?: string | null }} why
 * @param {Card | null} card
 * @param {Api.RewardInfo} reward
 */
function reasonText(why, card, reward) {
  const about = withSpread(why, reward);
  const expected = isShare(reward) ? `a chance of ${about} that you like it` : `expected ${about}`;
  if (!card) return `${why.title ?? why.item}: ${expected}.`;
  if (card.reason === "learn") return `Only number ${card.mean_rank} by expectation (${expected}), but it is unsure, and your answer teaches it most.`;
  if (card.reason === "please") return `One of its best guesses: ${expected}.`;
  return `${expected[0].toUpperCase()}${expected.slice(1)}.`;
}

/**
 * @param {number | null} value
 * @param {Api.RewardInfo} reward
 */
function deed(value, reward) {
  return value === null ? "skipped" : `${starsOf(value, reward)}★`;
}

/**
 * @param {number} share
 * @param {string} [kind]
 */
function push(share, kind) {
  const width = 50 * Math.min(1, Math.abs(share));
  return svg("svg", { class: "push", "aria-hidden": "true" },
    svg("rect", { class: kind ?? (share < 0 ? "minus" : "plus"), x: `${share < 0 ? 50 - width : 50}%`, y: 2, width: `${width}%`, height: 8, rx: 2 }),
    svg("line", { class: "axis", x1: "50%", x2: "50%", y1: 0, y2: 12 }));
}

/** @param {number[]} numbers */
export const last = (numbers) => numbers[numbers.length - 1];

/**
 * Hits so far, and the hits that the population's favourites would have had: known reactions, otherwise the chance as believed now.
 * @param {Round[]} rounds
 * @param {Api.PopularItem[]} popular
 * @param {Api.RewardInfo} reward
 */
export function curves(rounds, popular, reward) {
  const values = new Map(rounds.map((round) => [round.item, round.value]));
  /** @param {number[]} chances */
  const sums = (chances) => chances.reduce((all, each) => [...all, last(all) + each], [0]);
  return {
    ours: sums(rounds.map((round) => Number(isHit(round.value, reward)))),
    popular: sums(popular.map((each) => (values.has(each.item) ? Number(isHit(values.get(each.item) ?? null, reward)) : each.chance))),
  };
}

/**
 * @param {HTMLElement} place
 * @param {{ ours: number[], popular: number[] }} sums
 */
export function drawCurve(place, { ours, popular }) {
  const W = 480, H = 246, left = 26, bottom = 24, top = 12, right = 14;
  const rounds = Math.max(10, ours.length - 1), most = Math.max(4, last(ours), last(popular));
  /** @param {number} round */
  const x = (round) => left + (round / rounds) * (W - left - right);
  /** @param {number} hits */
  const y = (hits) => H - bottom - (hits / most) * (H - bottom - top);
  /** @param {number[]} sums */
  const line = (sums) => sums.map((hits, round) => `${round ? "L" : "M"}${x(round).toFixed(1)} ${y(hits).toFixed(1)}`).join("");
  /** @param {number} end */
  const ticks = (end) => { const step = Math.ceil(end / 4); return Array.from({ length: Math.floor(end / step) + 1 }, (_, i) => i * step); };
  const label = ours.length > 1
    ? `After ${plural(ours.length - 1, "card")} it has ${plural(last(ours), "hit")}; everybody’s favourites would have about ${last(popular).toFixed(1)}.`
    : "No reactions yet.";
  place.replaceChildren(svg("svg", { class: "chart", viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": label },
    ticks(most).map((hits) => [
      svg("line", { class: "grid", x1: left, x2: W - right, y1: y(hits), y2: y(hits) }),
      svg("text", { x: left - 6, y: y(hits) + 4, "text-anchor": "end" }, String(hits))]),
    ticks(rounds).map((round) => svg("text", { x: x(round), y: H - 6, "text-anchor": "middle" }, String(round))),
    popular.length > 1 && svg("path", { class: "popular", d: line(popular) }),
    svg("path", { class: "ours", d: line(ours) }),
    svg("circle", { class: "end", cx: x(ours.length - 1), cy: y(last(ours)), r: 5 })));
}

/**
 * The past reactions, newest first.
 * @param {HTMLElement} list
 * @param {Round[]} rounds
 * @param {Api.RewardInfo} reward
 * @param {(item: string) => string[] | undefined} categoriesOf
 * @param {(event_id: string) => boolean} isWaiting
 */
export function drawPast(list, rounds, reward, categoriesOf, isWaiting) {
  list.replaceChildren(...rounds.slice(-40).reverse().map((round) => {
    const hit = round.value === null ? "" : isHit(round.value, reward) ? "good" : "bad";
    const done = round.value === null ? "skipped" : plural(starsOf(round.value, reward), "star");
    const state = isWaiting(round.event_id) ? "waiting" : "";
    const words = `${round.title ?? round.item}: ${done}${state ? ", waiting to be sent" : ""}`;
    return el("li", { class: `${hit} ${state}`, title: words },
      cover(round.item, round.categories ?? categoriesOf(round.item)),
      el("span", { "aria-hidden": "true" }, round.value === null ? "–" : `${starsOf(round.value, reward)}★`),
      el("b", { class: "visually-hidden" }, words));
  }));
}
