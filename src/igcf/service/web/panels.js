// What it believes, in numbers and bars: the best bets, the reasons for a card, the learning curve, past reactions.

import { cover } from "./cover.js";
import { badge } from "./deck.js";
import { el, svg } from "./dom.js";
import { chanceText, choiceOf, isHit, plural, rewardText, sureness, titleAndYear } from "./values.js";

const REASONS_SHOWN = 4;

/**
 * The top items; rows are kept and changed in place, so that bars move and the keyboard's focus stays.
 * @param {HTMLElement} list
 * @param {Api.BelievedItem[]} top
 * @param {string | null} asked
 * @param {(item: string | null) => void} ask
 */
export function drawBets(list, top, asked, ask) {
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
    setGauge(gauge, bet);
    value.textContent = chanceText(bet);
    value.title = sureness(bet);
  });
}

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
 * @param {Chance} bet
 */
function setGauge(gauge, { chance, low, high }) {
  /** @param {number} share */
  const at = (share) => `${(100 * Math.min(1, Math.max(0, share))).toFixed(2)}%`;
  const [, fill, range, dot] = gauge.children;
  fill.setAttribute("width", at(chance));
  range.setAttribute("x1", at(low));
  range.setAttribute("x2", at(high));
  dot.setAttribute("cx", at(chance));
}

/**
 * Why an item is expected to please: the population, plus what each past reaction adds; it sums to what is ranked by. What comes
 * from a reaction that was no success is never shown as praise, even where it adds.
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
  for (const part of parts.slice(0, REASONS_SHOWN)) {
    const isPraise = part.amount > 0 && isHit(part.value, reward);
    rows.push([deed(part, reward), part.amount, isPraise ? "plus" : part.amount < 0 ? "minus" : "base"]);
  }
  if (rest.length) rows.push([plural(rest.length, "more reaction"), rest.reduce((sum, part) => sum + part.amount, 0), "base"]);
  if (why.absence) rows.push(["What your log does not contain", why.absence, "base"]);
  const widest = Math.max(...rows.map(([, amount]) => Math.abs(amount)), 1e-9);
  place.replaceChildren(
    el("div", { class: "about" }, isCard ? badge(card?.reason) : null, el("span", null, reasonText(why, isCard ? card : null))),
    el("table", { "aria-label": `Where the expectation for ${why.title ?? why.item} comes from` },
      el("tbody", null,
        rows.map(([name, amount, kind]) => el("tr", null,
          el("th", { scope: "row", title: name }, name),
          el("td", null, push(amount / widest, kind)),
          el("td", { class: "number" }, rewardText(amount, reward, { sign: true })))),
        el("tr", { class: "sum" }, el("th", { scope: "row", title: "The expectation by which items are ranked; the chance above is its part for you, if you see it" }, "Ranked by"), el("td"),
          el("td", { class: "number" }, rewardText(why.mean, reward))))));
}

/**
 * The reason that came with a card, for the time in which the server cannot say more.
 * @param {HTMLElement} place
 * @param {Card} card
 */
export function drawReason(place, card) {
  const { chance, low, high } = card;
  const isTold = chance !== undefined && low !== undefined && high !== undefined;
  place.replaceChildren(el("div", { class: "about" }, badge(card.reason), el("span", null, isTold ? reasonText({ ...card, chance, low, high }, card) : "")));
}

/**
 * @param {Chance & { item: string, title?: string | null }} why
 * @param {Card | null} card
 */
function reasonText(why, card) {
  const expected = `${chanceText(why)} likely to like it (${sureness(why)})`;
  if (!card) return `${why.title ?? why.item}: you are ${expected}.`;
  if (card.reason === "learn") return `Only number ${card.mean_rank} by expectation: you are ${expected}, and your answer teaches it most.`;
  if (card.reason === "please") return `One of its best guesses: you are ${expected}.`;
  return `You are ${expected}.`;
}

/**
 * @param {Api.ContributionPart} part
 * @param {Api.RewardInfo} reward
 */
function deed({ value, evidence, title, item }, reward) {
  const said = value === null && !reward.implicit ? "no reaction:" : choiceOf(value, reward).mark;
  return `${said} ${title ?? item}${evidence === "logged" ? " (in your log)" : ""}`;
}

/**
 * @param {number} share
 * @param {string} [kind]
 */
function push(share, kind) {
  const width = 50 * Math.min(1, Math.abs(share));
  return svg("svg", { class: "push", "aria-hidden": "true" },
    svg("rect", { class: kind ?? "base", x: `${share < 0 ? 50 - width : 50}%`, y: 2, width: `${width}%`, height: 8, rx: 2 }),
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
    const isAside = round.evidence === "skip", isSilent = round.value === null && !reward.implicit;
    const choice = choiceOf(round.value, reward);
    const hit = isAside || isSilent ? "" : isHit(round.value, reward) ? "good" : "bad";
    const done = isAside ? "put aside" : isSilent ? "no reaction" : choice.label.toLowerCase();
    const state = isWaiting(round.event_id) ? "waiting" : "";
    const words = `${round.title ?? round.item}: ${done}${state ? ", waiting to be sent" : ""}`;
    return el("li", { class: `${hit} ${state}`, title: words },
      cover(round.item, round.categories ?? categoriesOf(round.item)),
      el("span", { "aria-hidden": "true" }, isAside || isSilent ? "–" : choice.mark),
      el("b", { class: "visually-hidden" }, words));
  }));
}
