// What it believes, in numbers and bars: the best bets, the reasons for a card, the learning curve, past reactions.

import { cover } from "./cover.js";
import { badge } from "./deck.js";
import { el, svg } from "./dom.js";
import { chanceText, chanceWords, choiceOf, isHit, listed, plural, rangeText, rewardText, sureness, titleAndYear } from "./values.js";

const REASONS_SHOWN = 4;
const NAMED = 2; // items that a reason in words names
const WORTH_NAMING = 0.12; // of the largest part

/**
 * The top items; rows are kept and changed in place, so that bars move and the keyboard's focus stays.
 * @param {HTMLElement} list
 * @param {Api.ScoredItem[]} top
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
    name.dir = "auto";
    name.title = year ? `${title} (${year})` : title;
    setGauge(gauge, bet);
    value.textContent = chanceText(bet);
    value.title = `${sureness(bet)}: ${rangeText(bet)}`;
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
 * Why an item is expected to please, in words; the exact numbers on demand. What comes from a reaction that was no success is
 * never shown as praise, even where it adds.
 * @param {HTMLElement} place
 * @param {Api.ExplanationResponse} why
 * @param {Card | null} card
 * @param {Api.RewardInfo} reward
 */
export function drawWhy(place, why, card, reward) {
  const isCard = card?.item === why.item;
  const isOpen = place.querySelector("details")?.open ?? false;
  place.replaceChildren(
    about(why, isCard ? card : null),
    el("ul", { class: "reasons" }, reasonsOf(why, isCard ? card : null, reward).map(([sign, words]) => el("li", { class: sign }, words))),
    el("details", { open: isOpen }, el("summary", null, "Exact numbers"), numbersOf(why, reward)));
}

/**
 * Reasons in words, grouped: what speaks for the item and what speaks against it.
 * @param {Api.ExplanationResponse} why
 * @param {Card | null} card
 * @param {Api.RewardInfo} reward
 * @returns {[string, string][]}
 */
function reasonsOf(why, card, reward) {
  const largest = Math.max(Math.abs(why.prior), ...[...why.contributions, ...why.attributes].map((part) => Math.abs(part.amount)), 1e-9);
  /** @type {(is: (part: Api.ContributionPart, hit: boolean) => boolean) => string} */
  const named = (is) => {
    const parts = why.contributions.filter((part) => Math.abs(part.amount) > WORTH_NAMING * largest && is(part, isHit(part.value, reward)));
    const titles = parts.sort((a, b) => Math.abs(b.amount) - Math.abs(a.amount)).slice(0, NAMED).map((part) => titleAndYear(part)[0]);
    return listed(titles);
  };
  const liked = named((part, hit) => hit && part.amount > 0), unlike = named((part, hit) => !hit && part.amount > 0);
  const passed = named((part, hit) => !hit && part.amount < 0), apart = named((part, hit) => hit && part.amount < 0);
  /** @type {[string, string][]} */
  const reasons = [];
  if (liked) reasons.push(["plus", `because you liked ${liked}`]);
  if (unlike) reasons.push(["base", `it is unlike ${unlike}, which you passed on`]);
  if (passed) reasons.push(["minus", `although you passed on ${passed}`]);
  if (apart) reasons.push(["minus", `although it is not much like ${apart}, which you liked`]);
  for (const part of why.attributes.filter(({ amount }) => Math.abs(amount) > WORTH_NAMING * largest)) {
    reasons.push(part.amount > 0 ? ["plus", `because of your ${attributeText(part)}`] : ["minus", `although your ${attributeText(part)} speaks against it`]);
  }
  if (card?.popularity_rank && card.popularity_rank <= 50) reasons.push(["base", "many people like it"]);
  if (why.absence && Math.abs(why.absence) > WORTH_NAMING * largest) reasons.push(["base", "what is missing from your history also counts"]);
  if (!reasons.length) reasons.push(["base", why.contributions.length ? "your reactions say little about it; this is what most people think" : "this is what most people think of it"]);
  return reasons;
}

/** @param {Api.AttributePart} part */
const attributeText = ({ name, value }) => `${name} (${[value].flat().join(", ")})`;

/**
 * Where the expectation comes from: the population, plus what each past reaction adds; the parts sum to what is ranked by.
 * @param {Api.ExplanationResponse} why
 * @param {Api.RewardInfo} reward
 */
function numbersOf(why, reward) {
  const parts = [...why.contributions].sort((a, b) => Math.abs(b.amount) - Math.abs(a.amount));
  const rest = parts.slice(REASONS_SHOWN);
  /** @type {[string, number, string?][]} */
  const rows = [["What most people think of it", why.prior, "base"]];
  for (const part of why.attributes) rows.push([`Your ${attributeText(part)}`, part.amount, part.amount < 0 ? "minus" : "plus"]);
  for (const part of parts.slice(0, REASONS_SHOWN)) {
    const isPraise = part.amount > 0 && isHit(part.value, reward);
    rows.push([deed(part, reward), part.amount, isPraise ? "plus" : part.amount < 0 ? "minus" : "base"]);
  }
  if (rest.length) rows.push([plural(rest.length, "more reaction"), rest.reduce((sum, part) => sum + part.amount, 0), "base"]);
  if (why.absence) rows.push(["What is missing from your history", why.absence, "base"]);
  const widest = Math.max(...rows.map(([, amount]) => Math.abs(amount)), 1e-9);
  return [
    el("p", { class: "small muted" }, `${chanceText(why)} likely to be a hit, if you see it; ${rangeText(why)}.`),
    el("table", { "aria-label": `Where the expectation for ${why.title ?? why.item} comes from` },
      el("tbody", null,
        rows.map(([name, amount, kind]) => el("tr", null,
          el("th", { scope: "row", title: name }, name),
          el("td", null, push(amount / widest, kind)),
          el("td", { class: "number" }, rewardText(amount, reward, { sign: true })))),
        el("tr", { class: "sum" }, el("th", { scope: "row", title: "Items are ranked by this number; the chance above is about items that you see" }, "Total"), el("td"),
          el("td", { class: "number" }, rewardText(why.mean, reward))))),
  ];
}

/**
 * The reason that came with a card, for the time in which the server cannot say more.
 * @param {HTMLElement} place
 * @param {Card} card
 */
export function drawReason(place, card) {
  const { chance, low, high } = card;
  const isKnown = chance !== undefined && low !== undefined && high !== undefined;
  place.replaceChildren(isKnown ? about({ ...card, chance, low, high }, card) : el("p", { class: "about" }, badge(card.reason)));
}

/**
 * @param {Chance & { item: string, title?: string | null }} why
 * @param {Card | null} card
 */
function about(why, card) {
  const words = `${chanceWords(why)}, ${sureness(why)}`;
  const which = card ? null : el("b", { dir: "auto" }, titleAndYear(why)[0]);
  const learn = card?.reason === "learn" ? ` It ranks only number ${card.mean_rank} by expectation, but it could turn out better.` : "";
  return el("div", { class: "about" }, card ? badge(card.reason) : null, which, which && ": ", el("span", null, `${words}.${learn}`));
}

/**
 * @param {Api.ContributionPart} part
 * @param {Api.RewardInfo} reward
 */
function deed({ value, evidence, title, item }, reward) {
  const said = value === null && !reward.implicit ? "no reaction:" : choiceOf(value, reward).mark;
  return `${said} ${title ?? item}${evidence === "logged" ? " (from your history)" : ""}`;
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
 * @param {Api.ScoredItem[]} popular
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
  const W = Math.max(280, place.clientWidth || 480), H = Math.max(150, place.clientHeight || 246), left = 26, bottom = 24, top = 12, right = 14;
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
    ? `After ${plural(ours.length - 1, "card")} there were ${plural(last(ours), "hit")}; the most popular items would have had about ${last(popular).toFixed(1)}.`
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
 * The past reactions, newest first; each can be opened.
 * @param {HTMLElement} list
 * @param {Round[]} rounds
 * @param {Api.RewardInfo} reward
 * @param {(item: string) => string[] | undefined} categoriesOf
 * @param {(event_id: string) => boolean} isWaiting
 * @param {(round: Round) => void} open
 */
export function drawPast(list, rounds, reward, categoriesOf, isWaiting, open) {
  const drawn = new Map(/** @type {HTMLElement[]} */ ([...list.children]).map((row) => [row.dataset.key, row]));
  list.replaceChildren(...rounds.slice(-40).reverse().map((round) => {
    const { kind, done, mark } = saidOf(round, reward);
    const state = isWaiting(round.event_id) ? "waiting" : "";
    const words = `${titleAndYear(round)[0]}: ${done}${state ? ", waiting to be sent" : ""}`;
    const key = JSON.stringify([round.event_id, words, kind]);
    return drawn.get(key) ?? el("li", { class: `${kind} ${state}`, title: words, "data-key": key },
      el("button", { type: "button", onclick: () => open(round) },
        cover(round.item, round.categories ?? categoriesOf(round.item)),
        el("span", { "aria-hidden": "true" }, mark),
        el("b", { class: "visually-hidden" }, words)));
  }));
}

/**
 * What was said in a round: its kind, in words, and as a mark.
 * @param {Round} round
 * @param {Api.RewardInfo} reward
 */
export function saidOf(round, reward) {
  const isAside = round.evidence === "skip", isSilent = round.value === null && !reward.implicit;
  const choice = choiceOf(round.value, reward);
  return {
    kind: isAside || isSilent ? "" : isHit(round.value, reward) ? "good" : "bad",
    done: isAside ? "skipped" : isSilent ? "no reaction" : choice.label.toLowerCase(),
    mark: isAside || isSilent ? "–" : choice.mark,
  };
}
