// The visitor's page: connects the visit to what is on the screen.

import { Away, api, setKey } from "./api.js";
import { Deck } from "./deck.js";
import { byId, el, on, svg } from "./dom.js";
import { setUpKeys } from "./keys.js";
import { CatalogueMap, areaOf } from "./map.js";
import { curves, drawBets, drawCurve, drawPast, drawReason, drawWhy, last } from "./panels.js";
import { setUpTheme } from "./theme.js";
import { isHit, offer, plural, titleAndYear } from "./values.js";
import { Visit } from "./visit.js";

const MOST_ON_MAP = 4_000;
const PAGE = 1_000;
const STAR = "M12 3l2.8 5.7 6.2.9-4.5 4.4 1.1 6.2L12 17.3l-5.6 2.9 1.1-6.2L3 9.6l6.2-.9z";

const visit = new Visit();
const map = new CatalogueMap(byId("map"));
const deck = new Deck(byId("deck"), (side) => (side === "right" ? like() : dislike()));
/** @type {Map<string, Api.CatalogueItem>} */
const catalogue = new Map();
/** @type {string | null} */
let catalogueModel = null;

/**
 * React with one of the reactions that fit the log, the worst first; a negative place counts from the best.
 * @param {number} place
 */
function choose(place) {
  const choice = visit.model && offer(visit.model.reward).choices.at(place);
  if (choice) visit.react(choice.value);
}
const like = () => choose(-1);
const dislike = () => choose(0);
const skip = () => visit.react(null, "skip");
const undo = () => visit.undo();
const help = () => byId("help-dialog").showModal();

// Messages.
let hideTimer = 0;
/**
 * @param {string} text
 * @param {{ kind?: string, action?: [string, () => unknown] | null, ms?: number }} [options]
 */
function notice(text, { kind = "", action = null, ms = 0 } = {}) {
  clearTimeout(hideTimer);
  const button = byId("notice-action");
  byId("notice").className = `notice toast ${kind}`;
  byId("notice").hidden = !text;
  byId("notice-text").textContent = text;
  button.hidden = !action;
  if (action) [button.textContent, button.onclick] = action;
  if (ms) hideTimer = setTimeout(() => notice(""), ms);
}

function awayNotice() {
  const n = visit.outbox.waiting().length;
  const kept = n ? `${plural(n, "reaction")} ${n === 1 ? "is" : "are"} kept here and will be sent when it is back.` : "Trying again.";
  notice(`The server cannot be reached. ${kept}`, { kind: "away", action: ["Try now", () => visit.retry()] });
}

/**
 * The belief as an ellipse on the map.
 * @param {Api.Beliefs} beliefs
 */
const onMap = (beliefs) => /** @type {MapEllipse} */ (beliefs.map);

// The stage.
function showCard() {
  const { card } = visit;
  if (card) {
    deck.show(card, visit.slate.length);
    const [title, year] = titleAndYear(card);
    const why = card.reason ? { please: "Shown to please.", learn: "Shown to learn.", rule: "Shown by a rule." }[card.reason] : "";
    byId("announce").textContent = `${title} ${year}. ${why}`;
    if (visit.failures) drawReason(byId("why"), card);
  } else if (visit.failures) {
    deck.showEmpty("No card left", "The server cannot be reached. The next card comes when it is back.");
  } else if (visit.isEmpty) {
    deck.showEmpty("You have seen everything", "There is no further item in this catalogue. Undo, or come as a new visitor.");
  } else {
    deck.showEmpty("One moment", "The next card is on its way.", "soon");
  }
  showFacts();
}

function showFacts() {
  const { rounds, reactions, logged, model } = visit;
  const isReady = Boolean(visit.card && model);
  const buttons = /** @type {NodeListOf<HTMLButtonElement>} */ (document.querySelectorAll(".actions button, .stars button"));
  for (const button of buttons) button.disabled = !isReady;
  byId("undo").disabled = !rounds.length;
  if (!model) return;
  const hits = reactions.filter((round) => isHit(round.value, model.reward)).length;
  /** @type {(value: string | number, words: string) => HTMLElement} */
  const fact = (value, words) => el("span", null, el("b", null, value), ` ${words}`);
  byId("facts").replaceChildren(
    fact(reactions.length, reactions.length === 1 ? "reaction" : "reactions"), fact(hits, hits === 1 ? "hit" : "hits"),
    ...(logged ? [fact(logged, "in your log")] : []),
    ...(visit.beliefs ? [fact(`${Math.round(100 * areaOf(onMap(visit.beliefs).cov))} %`, "of the map still possible")] : []));
  const waiting = new Set(visit.outbox.waiting(visit.user).map((letter) => letter.event_id));
  drawPast(byId("past"), rounds, model.reward, (item) => catalogue.get(item)?.categories, (id) => waiting.has(id));
}

function showView() {
  const { beliefs, why, rounds, reactions, model, card } = visit;
  if (!model || !beliefs) return;
  const { reward } = model;
  drawBets(byId("bets"), beliefs.top, visit.asked, (item) => visit.ask(item));
  byId("bets-unit").textContent = "how likely you are to like it";
  if (why) drawWhy(byId("why"), why, card, reward);
  byId("why-back").hidden = !visit.asked;
  /** @type {[string, Mark][]} */
  const marks = rounds.map(({ item, value, evidence }) => [item, evidence === "skip" || (value === null && !reward.implicit) ? "skipped" : isHit(value, reward) ? "liked" : "disliked"]);
  map.setBelief(onMap(beliefs), new Map(marks), visit.asked ?? card?.item);
  const area = `${Math.round(100 * areaOf(onMap(beliefs).cov))} %`;
  byId("map-share").textContent = `${area} of everybody’s area`;
  map.canvas.setAttribute("aria-label", `Map of ${plural(map.items.length, "item")}. The belief about you covers ${area} of the area that it covers for a stranger.`);
  const sums = curves(reactions, beliefs.popular, reward);
  drawCurve(byId("curve"), sums);
  byId("curve-sum").textContent = reactions.length && sums.popular.length > 1 ? `${last(sums.ours)} against ${last(sums.popular).toFixed(1)}` : "";
  showFacts();
}

async function loadCatalogue() {
  const model = visit.model?.model ?? null;
  if (catalogueModel === model) return;
  catalogueModel = model;
  catalogue.clear();
  try {
    for (let offset = 0, total = 1; offset < Math.min(total, MOST_ON_MAP); offset += PAGE) {
      const page = await api.items(offset, PAGE);
      total = page.total;
      for (const item of page.items) catalogue.set(item.item, item);
    }
  } catch (error) {
    if (!(error instanceof Away)) throw error;
    catalogueModel = null;
    return;
  }
  map.setItems([...catalogue.values()]);
  showView();
}

// What the visit tells.
visit.addEventListener("begin", () => {
  byId("visitor").textContent = visit.user;
  byId("own-id").textContent = visit.user;
  map.reset();
  showCard();
  notice("");
});
visit.addEventListener("card", showCard);
visit.addEventListener("undone", showCard);
visit.addEventListener("view", showView);
on(visit, "reacted", ({ card, evidence, isHit: hit }) => {
  deck.throw(evidence === "skip" ? "down" : hit ? "right" : "left");
  if (evidence === "skip" && !visit.failures) notice(`${titleAndYear(card)[0]} is put aside; it may come back later.`, { ms: 3_000 });
  showFacts();
});
visit.addEventListener("ready", () => {
  showChoices();
  showControls();
  showFacts();
  loadCatalogue();
});
visit.addEventListener("away", () => { awayNotice(); if (!visit.card) showCard(); });
visit.addEventListener("back", () => notice("The server is back and has everything.", { ms: 4_000 }));
visit.addEventListener("locked", () => byId("key-dialog").open || byId("key-dialog").showModal());
on(visit, "problem", (detail) => notice(`Something went wrong: ${detail.message}`, { kind: "bad", ms: 12_000 }));
visit.outbox.addEventListener("change", () => { if (visit.failures) awayNotice(); showFacts(); });
on(visit.outbox, "refused", (detail) => notice(`The server did not take a reaction: ${detail.message}`, { kind: "bad", ms: 12_000 }));

// Controls.
function showControls() {
  if (!visit.model) return;
  const { policy, limits } = visit.model;
  const { policy: name = policy.name, nu = policy.nu ?? 0.5, slate } = visit.settings;
  byId("policy").value = name;
  byId("nu").max = String(Math.min(3, limits.max_nu ?? 3));
  byId("nu").value = String(nu);
  byId("nu-value").value = Number(byId("nu").value).toFixed(2);
  byId("nu").disabled = name !== "ucb";
  byId("slate").value = String(slate);
}

/** The reactions between the worst and the best, in the form that fits the log. */
function showChoices() {
  if (!visit.model) return;
  const { form, choices } = offer(visit.model.reward);
  const star = () => svg("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" }, svg("path", { d: STAR, "stroke-linejoin": "round" }));
  byId("stars").className = form === "stars" ? "stars" : "stars amounts";
  byId("stars").setAttribute("aria-label", form === "stars" ? "Rate with stars" : "Say how much");
  byId("stars").replaceChildren(...(form === "like" ? [] : choices.map(({ label, mark }, place) => el("button",
    { type: "button", "aria-label": form === "stars" ? label : `${label}: ${mark}`, title: label, onclick: () => choose(place) }, form === "stars" ? star() : mark))));
}
byId("like").addEventListener("click", like);
byId("dislike").addEventListener("click", dislike);
byId("skip").addEventListener("click", skip);
byId("undo").addEventListener("click", undo);
byId("help").addEventListener("click", help);
byId("why-back").addEventListener("click", () => visit.ask(null));
byId("policy").addEventListener("change", () => {
  visit.choose({ policy: /** @type {VisitSettings["policy"]} */ (byId("policy").value) });
  showControls();
});
byId("slate").addEventListener("change", () => visit.choose({ slate: Number(byId("slate").value) }));
byId("nu").addEventListener("input", () => { byId("nu-value").value = Number(byId("nu").value).toFixed(2); });
byId("nu").addEventListener("change", () => visit.choose({ nu: Number(byId("nu").value), policy: "ucb" }));
byId("new-visitor").addEventListener("click", async () => {
  await visit.newVisitor();
  if (!visit.failures) notice("Welcome. Nothing is known about you yet.", { ms: 4_000 });
});
byId("load-user").addEventListener("click", () => byId("load-dialog").showModal());
byId("load-dialog").addEventListener("close", async () => {
  const name = byId("load-name").value.trim();
  if (byId("load-dialog").returnValue !== "load" || !name) return;
  await visit.load(name);
  if (visit.failures || visit.user !== name) return;
  notice(visit.isKnown ? `Welcome back, ${name}: ${plural(visit.rounds.length + visit.logged, "reaction")} remembered.` : `Nothing is stored about ${name} yet.`, { ms: 6_000 });
});
byId("forget").addEventListener("click", () => {
  byId("forget-name").textContent = visit.user;
  byId("forget-dialog").returnValue = "";
  byId("forget-dialog").showModal();
});
byId("forget-dialog").addEventListener("close", async () => {
  if (byId("forget-dialog").returnValue !== "forget") return;
  const name = visit.user;
  try {
    await visit.forget();
    notice(`Everything about ${name} is deleted. You are a new visitor.`, { ms: 8_000 });
  } catch (error) {
    notice(`Nothing was deleted: ${error instanceof Away ? "the server cannot be reached" : error.message}. Try again later.`, { kind: "bad" });
  }
});
byId("key-dialog").addEventListener("close", () => {
  if (byId("key-dialog").returnValue === "use") setKey(byId("key").value.trim());
  byId("key").value = "";
  visit.retry();
});
for (const button of document.querySelectorAll("[data-close]")) button.addEventListener("click", () => button.closest("dialog")?.close("closed"));

setUpKeys({
  ArrowRight: like, ArrowLeft: dislike, ArrowDown: skip, z: undo, "?": help,
  1: () => choose(0), 2: () => choose(1), 3: () => choose(2), 4: () => choose(3), 5: () => choose(4),
});
setUpTheme(() => map.draw());
visit.start();
