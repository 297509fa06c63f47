// The visitor's page: connects the visit to what is on the screen.

import { AwayError, api, client, setKey } from "./api.js";
import { loadedPicture } from "./cover.js";
import { Deck } from "./deck.js";
import { byId, el, on, svg } from "./dom.js";
import { openFinale, setUpFinale } from "./finale.js";
import { setUpKeys } from "./keys.js";
import { compare, offerAttributes, offerPolicies, setUpLab, uncoverPage } from "./lab.js";
import { setUpOwnItem, showOwnItem } from "./own_item.js";
import { GOALS, factsOf, showLearned, showProgress } from "./learned.js";
import { CatalogueMap } from "./map.js";
import { friendlyName } from "./names.js";
import { curves, drawBets, drawCurve, drawPast, drawReason, drawWhy, last } from "./panels.js";
import { affinity, explored } from "./regions.js";
import { openRound } from "./rounds.js";
import { expectStart, setUpStart } from "./start.js";
import { setUpTheme } from "./theme.js";
import { isHit, nuOf, offer, plural, titleAndYear } from "./values.js";
import { Visit } from "./visit.js";

const MOST_ON_MAP = 4_000;
const PAGE = 1_000;
const BETS = 7;
const WAY = "igcf.way";
const STAR = "M12 3l2.8 5.7 6.2.9-4.5 4.4 1.1 6.2L12 17.3l-5.6 2.9 1.1-6.2L3 9.6l6.2-.9z";

const visit = new Visit();
const map = new CatalogueMap(byId("map"), byId("map-tip"), (item) => visit.ask(item));
const deck = new Deck(byId("deck"), (side) => (side === "right" ? like() : side === "left" ? dislike() : skip()));
/** @type {Map<string, Api.CatalogueItem>} */
const catalogue = new Map();
/** @type {string | null} */
let catalogueModel = null;
let isStarting = false;
let finaleDue = 0; // the number of reactions of the taste card still to be shown; 0: none

/**
 * React with one of the reactions that fit the log, the worst first; a negative place counts from the best.
 * @param {number} place
 */
function choose(place) {
  const choice = !isStarting && visit.model && offer(visit.model.reward).choices.at(place);
  if (choice) visit.react(choice.value);
}
const like = () => choose(-1);
const dislike = () => choose(0);
const skip = () => isStarting || visit.react(null, "skip");
const undo = () => isStarting || visit.undo();
const help = () => byId("help-dialog").showModal();

// The first screen of a newcomer.
/** @param {boolean} isOn */
function setStarting(isOn) {
  isStarting = isOn;
  byId("start").hidden = !isOn;
  byId("desk").hidden = isOn;
}

let startTurn = 0;

async function showStart() {
  const turn = ++startTurn;
  /** @param {Api.NamedItem[]} picks */
  const done = (picks) => {
    setStarting(false);
    visit.begin(picks);
    byId("stage").focus({ preventScroll: true });
  };
  expectStart(() => done([]));
  setStarting(true);
  const items = await api.start(12).then((answer) => answer.items, () => []);
  if (!isStarting || turn !== startTurn) return; // left since, or started again
  if (items.length < 6) return setStarting(false); // hardly a choice, or none: the cards need no choice
  setUpStart(items, done);
}

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
  const n = client.waiting().length;
  const kept = n ? `${plural(n, "reaction")} ${n === 1 ? "is" : "are"} saved here and will be sent when it is back.` : "Trying again.";
  notice(`The server cannot be reached. ${kept}`, { kind: "away", action: ["Try now", () => visit.retry()] });
}

// The stage.
function showCard() {
  const { card } = visit;
  if (card) {
    deck.show(card, visit.settings.slate > 1 ? visit.slate.length : 0);
    const [title, year] = titleAndYear(card);
    const why = card.reason ? { please: "Shown to please.", learn: "Shown to learn.", rule: "Shown by a rule." }[card.reason] : "";
    byId("announce").textContent = `${title} ${year}. ${why}`;
    if (visit.failures) drawReason(byId("why"), card);
  } else if (visit.failures) {
    deck.showEmpty("You are ahead of the server", "It cannot be reached right now. Your reactions are saved here, and the next card will come when it is back.");
  } else if (visit.isEmpty) {
    deck.showEmpty("You have seen everything", "There are no more items in this catalogue. Undo a reaction, or start again as a new visitor.");
  } else {
    deck.showEmpty("One moment", "The next card is on its way.", "soon");
  }
  showFacts();
}

/** How many of the reactions were hits. */
const hitsOf = () => visit.reactions.filter((round) => visit.model && isHit(round.value, visit.model.reward)).length;

function showFacts() {
  const { rounds, reactions, logged, model } = visit;
  const isReady = Boolean(visit.card && model);
  const buttons = /** @type {NodeListOf<HTMLButtonElement>} */ (document.querySelectorAll(".actions button, .stars button"));
  for (const button of buttons) button.disabled = !isReady;
  byId("undo").disabled = !rounds.length;
  if (!model) return;
  byId("facts").replaceChildren(...factsOf(reactions.length, hitsOf(), logged));
  showProgress(reactions.length);
  const waiting = new Set(client.waiting(visit.user).map((entry) => entry.event_id));
  drawPast(byId("past"), rounds, model.reward, (item) => catalogue.get(item)?.categories, (id) => waiting.has(id), (round) => openRound(
    round, catalogue.get(round.item)?.categories, model.reward,
    { change: (value) => visit.change(round.event_id, value), remove: () => visit.remove(round.event_id), ask: () => visit.ask(round.item) }));
}

/** What the cards so far would have scored as everybody's favourites, and the hits of this visit. */
function sums() {
  const { reactions, beliefs, model } = visit;
  return model && beliefs ? curves(reactions, beliefs.popular, model.reward) : { ours: [0], popular: [0] };
}

function showView() {
  const { beliefs, why, rounds, reactions, model, card } = visit;
  if (!model || !beliefs) return;
  const { reward } = model;
  showLearned(beliefs.taste, reactions.length + visit.logged);
  drawBets(byId("bets"), beliefs.top.slice(0, BETS), visit.asked, (item) => visit.ask(item));
  if (why) drawWhy(byId("why"), why, card, reward);
  if (why && why.item === card?.item) deck.setChance(why);
  byId("why-back").hidden = !visit.asked;
  /** @type {[string, Mark][]} */
  const marks = rounds.map(({ item, value, evidence }) => [item, evidence === "skip" || (value === null && !reward.implicit) ? "skipped" : isHit(value, reward) ? "liked" : "disliked"]);
  const way = wayWith(beliefs, reactions.length);
  map.setView({ taste: beliefs.taste, marks: new Map(marks), now: visit.asked ?? card?.item, way });
  byId("replay").hidden = way.length < 2;
  map.canvas.setAttribute("aria-label", `Map of ${plural(map.items.length, "item")}, ${explored(beliefs.taste.unknown)}. ${beliefs.taste.sentence}`);
  const found = sums();
  drawCurve(byId("curve"), found);
  byId("curve-sum").textContent = reactions.length && found.popular.length > 1 ? `${last(found.ours)} against ${last(found.popular).toFixed(1)}` : "";
  showFacts();
  compareNow();
  if (finaleDue && visit.isUpToDate) showFinale();
}

/**
 * The way over the map: from the start, where nothing is known, over what was believed about the regions after the
 * reactions of this browser. Those in quick succession are one step, since only the last of them has its view.
 * @param {Api.Beliefs} beliefs
 * @param {number} n
 */
function wayWith(beliefs, n) {
  const kept = JSON.parse(localStorage.getItem(WAY) ?? "{}");
  const names = beliefs.taste.groups.map((each) => each.name).sort();
  const isSame = kept.user === visit.user && kept.model === beliefs.model;
  const steps = isSame ? kept.steps.slice(0, n) : [];
  const near = new Map(beliefs.taste.groups.map((each) => [each.name, Number(affinity(each).toFixed(2))]));
  const order = steps.length && isSame ? kept.names : names;
  if (n && near.size) steps[Math.min(n, steps.length + 1) - 1] = order.map((/** @type {string} */ name) => near.get(name) ?? 0);
  localStorage.setItem(WAY, JSON.stringify({ user: visit.user, model: beliefs.model, names: order, steps }));
  return [new Map(), ...steps.map((/** @type {number[]} */ step) => new Map(order.map((/** @type {string} */ name, /** @type {number} */ i) => [name, step[i]])))];
}

function showFinale() {
  const { beliefs, reactions } = visit;
  if (!beliefs || document.querySelector("dialog[open]")) return;
  finaleDue = 0;
  openFinale({ taste: beliefs.taste, top: beliefs.top, n: reactions.length, hits: hitsOf(), popular: last(sums().popular) });
}

/** A reaction was taken back: its taste card comes when there are as many again. */
function putOffFinale() {
  if (visit.reactions.length < finaleDue) finaleDue = 0;
}

function compareNow() {
  const { model, settings } = visit;
  if (!model) return;
  const name = settings.policy ?? model.policy.name;
  showOwnItem();
  compare(visit.user, { name, nu: nuOf(model, name, settings.nu) });
}

async function loadCatalogue() {
  const model = visit.model?.model ?? null;
  if (catalogueModel === model) return;
  catalogueModel = model;
  catalogue.clear();
  try {
    /** @type {string | null} */
    let after = null;
    do {
      const page = await client.items({ after, limit: PAGE });
      after = page.next;
      for (const item of page.items) catalogue.set(item.item, item);
    } while (after !== null && catalogue.size < MOST_ON_MAP);
    map.setItems([...catalogue.values()], (await api.regions()).regions);
  } catch (error) {
    if (!(error instanceof AwayError)) throw error;
    catalogueModel = null;
    return;
  }
  showView();
}

// Events of the visit.
visit.addEventListener("begin", () => {
  byId("visitor").textContent = friendlyName(visit.user);
  for (const id of ["own-id", "own-id-again"]) byId(id).textContent = visit.user;
  finaleDue = 0;
  map.reset();
  if (visit.isNewcomer) showStart();
  else setStarting(false);
  showLearned(undefined, 0);
  showCard();
  notice("");
});
visit.addEventListener("card", showCard);
visit.addEventListener("undone", () => { putOffFinale(); showCard(); });
visit.addEventListener("changed", () => { putOffFinale(); showFacts(); });
visit.addEventListener("view", showView);
on(visit, "reacted", ({ card, evidence, isHit: hit }) => {
  deck.throw(evidence === "skip" ? "down" : hit ? "right" : "left");
  if (evidence === "skip" && !visit.failures) notice(`${titleAndYear(card)[0]} was skipped. It may be shown again later.`, { ms: 3_000 });
  if (evidence !== "skip" && GOALS.includes(visit.reactions.length)) finaleDue = visit.reactions.length;
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
on(visit, "ahead", ({ cards }) => { for (const card of cards) void loadedPicture(card.item); });
on(visit, "problem", (detail) => notice(`Something went wrong: ${detail.message}`, { kind: "bad", ms: 12_000 }));
client.addEventListener("change", () => { if (visit.failures) awayNotice(); showFacts(); });
client.addEventListener("refused", (event) => {
  event.preventDefault(); // it is said here
  notice(`The server rejected a reaction: ${/** @type {CustomEvent} */ (event).detail.message}`, { kind: "bad", ms: 12_000 });
});

// Controls.
function showControls() {
  if (!visit.model) return;
  const { policy, policies, limits } = visit.model;
  const { policy: name = policy.name, nu = policy.nu ?? 0.5, slate } = visit.settings;
  offerPolicies(policies);
  byId("policy").value = name;
  byId("nu").max = String(Math.min(3, limits.max_nu ?? 3));
  byId("nu").value = String(nu);
  byId("nu-value").value = Number(byId("nu").value).toFixed(2);
  byId("nu").disabled = !policies.some((each) => each.name === name && "nu" in each.parameters);
  byId("slate").value = String(slate);
  offerAttributes(visit.model.attributes, visit.attributes, (attributes) => visit.describe(attributes));
}

/** The reactions between the worst and the best, in the form that fits the log. */
function showChoices() {
  if (!visit.model) return;
  const { form, choices } = offer(visit.model.reward);
  const star = () => svg("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" }, svg("path", { d: STAR, "stroke-linejoin": "round" }));
  byId("stars").className = form === "stars" ? "stars" : "stars amounts";
  byId("stars").setAttribute("aria-label", form === "stars" ? "Rate with stars" : "Say how much");
  byId("stars").replaceChildren(...(form === "like" ? [] : choices.map(({ label, mark, unit }, place) => el("button",
    { type: "button", "aria-label": label, title: unit ? `about ${mark} ${unit}` : label, onclick: () => choose(place) },
    form === "stars" ? star() : [label, " ", el("small", null, `${mark} ${unit ?? ""}`)]))));
}
byId("like").addEventListener("click", like);
byId("dislike").addEventListener("click", dislike);
byId("skip").addEventListener("click", skip);
byId("undo").addEventListener("click", undo);
byId("help").addEventListener("click", help);
byId("why-back").addEventListener("click", () => visit.ask(null));
byId("replay").addEventListener("click", () => map.replay());
byId("show-finale").addEventListener("click", showFinale);
setUpFinale(async () => {
  await visit.newVisitor();
  if (!visit.failures) notice("A fresh start: nothing is known about you.", { ms: 4_000 });
});
setUpOwnItem();
setUpLab(compareNow);
const chosenPolicy = () => /** @type {VisitSettings["policy"]} */ (byId("policy").value);
byId("policy").addEventListener("change", () => {
  visit.choose({ policy: chosenPolicy() });
  showControls();
});
byId("slate").addEventListener("change", () => visit.choose({ slate: Number(byId("slate").value) }));
byId("nu").addEventListener("input", () => { byId("nu-value").value = Number(byId("nu").value).toFixed(2); });
byId("nu").addEventListener("change", () => visit.choose({ nu: Number(byId("nu").value), policy: chosenPolicy() }));
byId("new-visitor").addEventListener("click", async () => {
  uncoverPage();
  await visit.newVisitor();
  if (!visit.failures) notice("Welcome. Nothing is known about you yet.", { ms: 4_000 });
});
byId("load-user").addEventListener("click", () => byId("load-dialog").showModal());
byId("load-dialog").addEventListener("close", async () => {
  const name = byId("load-name").value.trim();
  if (byId("load-dialog").returnValue !== "load" || !name) return;
  uncoverPage();
  await visit.load(name);
  if (visit.failures || visit.user !== name) return;
  notice(visit.isKnown ? `Welcome back, ${name}: ${plural(visit.rounds.length + visit.logged, "reaction")} remembered.` : `Nothing is stored about ${name} yet.`, { ms: 6_000 });
});
byId("forget").addEventListener("click", () => {
  byId("forget-name").textContent = friendlyName(visit.user);
  byId("forget-dialog").returnValue = "";
  byId("forget-dialog").showModal();
});
byId("forget-dialog").addEventListener("close", async () => {
  if (byId("forget-dialog").returnValue !== "forget") return;
  const name = visit.user;
  uncoverPage();
  try {
    await visit.forget();
    localStorage.removeItem(WAY);
    notice(`Everything about ${friendlyName(name)} has been deleted. You are a new visitor.`, { ms: 8_000 });
  } catch (error) {
    notice(`Nothing was deleted: ${error instanceof AwayError ? "the server cannot be reached" : error.message}. Try again later.`, { kind: "bad" });
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
