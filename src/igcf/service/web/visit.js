// One visitor's visit: which card is shown, which come next, what was reacted to, what is believed. Draws nothing.

import { AwayError, api, client } from "./api.js";
import { on } from "./dom.js";
import { isHit, nuOf, offer, randomName } from "./values.js";

const VISITOR = "visitor-";
const USER = "igcf.user";
const SETTINGS = "igcf.settings";
const CARD = "igcf.card";
const BEGUN = "igcf.begun";
const RESERVE = 20; // cards kept for the moment when the server is slow or away
const RETRY_MS = [1_000, 2_000, 4_000, 8_000];
const TOP = 10;
const LONGEST_BASELINE = 500;

export class Visit extends EventTarget {
  /** Whether what is believed counts every reaction of this visit. */
  isUpToDate = false;
  /** @type {Api.ModelInfo | null} */
  model = null;
  user = localStorage.getItem(USER) ?? "";
  /** @type {VisitSettings} */
  settings = { slate: 1, ...JSON.parse(localStorage.getItem(SETTINGS) ?? "{}") };
  failures = 0;
  turn = 0;
  look = 0;
  refills = 0;
  timer = 0;
  /** @type {Round[]} */
  rounds = [];
  logged = 0; // reactions imported from a log
  /** @type {Card[]} */
  slate = [];
  /** @type {Card[]} */
  reserve = [];
  /** @type {Card | null} */
  card = null;
  /** @type {Ahead | null} */
  ahead = null; // the card that comes next after each outcome of the one on the stage
  /** @type {Api.Beliefs | null} */
  beliefs = null;
  /** @type {Api.ExplanationResponse | null} */
  why = null;
  /** @type {string | null} */
  asked = null;
  /** @type {Api.NamedItem[]} */
  favourites = []; // picked before the model was known, and so not yet reacted to
  isEmpty = false;
  isKnown = false;
  /** @type {Record<string, any>} */
  attributes = {}; // what is stored about the user beside reactions

  constructor() {
    super();
    const named = new URLSearchParams(location.search).get("user");
    if (named) this.#become(named);
    else if (!this.user) this.#become(randomName(VISITOR));
    this.#reset();
    addEventListener("online", () => this.retry());
    on(client, "elsewhere", ({ entry, isNew, isGone }) => this.#onOtherTab(entry, isNew, isGone));
  }

  /** Whether this is somebody new who has not been offered a choice of favourites yet. */
  get isNewcomer() {
    return this.user.startsWith(VISITOR) && localStorage.getItem(BEGUN) !== this.user && !this.rounds.length;
  }

  /** The rounds that say something: a skip does not. */
  get reactions() {
    return this.rounds.filter((round) => round.evidence !== "skip");
  }

  /** Begin, or begin again with another user: the first card waits for nothing but itself. */
  async start() {
    this.card = this.#savedCard();
    this.#emit("begin");
    const { user } = this;
    if (!(await this.sync(true)) || user !== this.user) return;
    this.next();
    try {
      const [model, state] = await Promise.all([this.model ?? client.model(), client.user(user)]);
      if (user !== this.user) return;
      this.model = model;
      const { card } = this;
      const isOld = card && (card.model !== model.model || state.history.some((round) => round.item === card.item));
      if (isOld) this.card = null; // reacted to in another tab, or chosen by another model
      const here = new Set(this.rounds.map((round) => round.event_id));
      const stored = state.history.filter((round) => !here.has(round.event_id));
      this.logged = stored.filter((round) => round.evidence === "logged").length;
      this.rounds = [...stored.filter((round) => round.evidence !== "logged"), ...this.rounds];
      this.isKnown = state.known;
      this.attributes = state.attributes;
      this.#emit("ready");
      if (this.favourites.length) return await this.begin(this.favourites);
      if (!this.card) this.next();
      await this.refresh();
    } catch (error) {
      this.#fail(error);
    }
  }

  /**
   * Begin with some favourites, or with none; the first card then knows them.
   * @param {Api.NamedItem[]} favourites
   */
  async begin(favourites) {
    localStorage.setItem(BEGUN, this.user);
    this.favourites = this.model ? [] : favourites; // what a like is worth, the model says: start() fills them in
    if (!favourites.length || !this.model) return;
    const best = offer(this.model.reward).choices.at(-1);
    for (const { item, title, categories } of favourites) this.#keep({ item, title, categories }, best?.value ?? null, "shown");
    this.card = null;
    this.#putAway();
    this.#emit("card");
    if (await this.sync(true)) this.next();
    await this.refresh();
  }

  /**
   * React to the card on the stage; `value` is in the units of the log, null is no reaction. A skip says nothing: not now. The
   * next card is there at once: the one that was foreseen for this outcome, or one of the reserve.
   * @param {number | null} value
   * @param {"shown" | "skip"} [evidence]
   */
  async react(value, evidence = "shown") {
    const { card, model, slate } = this;
    if (!card || !model) return;
    const hit = isHit(value, model.reward);
    this.#keep(card, value, evidence);
    this.card = null;
    this.#emit("reacted", { card, evidence, isHit: hit });
    const isLast = slate.length === 0;
    const hasTrial = slate.some((each) => this.#isTrial(each)); // which a foreseen card came before
    const foreseen = evidence !== "skip" && !hasTrial && this.settings.slate === 1 && this.ahead?.item === card.item ? this.ahead[hit ? "hit" : "miss"] : null;
    if (foreseen && !this.#isUsed(foreseen)) this.card = foreseen;
    this.next();
    await this.#follow(isLast || foreseen !== null);
  }

  /**
   * Send what waits, then fetch what is needed; later changes are left to the newest call.
   * @param {boolean} isRefill
   */
  async #follow(isRefill) {
    const { user } = this, count = this.rounds.length;
    if (!(await this.sync(isRefill)) || user !== this.user) return;
    if (!this.card) this.next(); // nothing was in reserve
    if (count === this.rounds.length) await this.refresh();
  }

  /**
   * @param {Card} card
   * @param {number | null} value
   * @param {"shown" | "skip"} evidence
   */
  #keep(card, value, evidence) {
    const { item, title, categories } = card;
    this.rounds.push({ event_id: this.#send(card, value, evidence), item, value, evidence, title, categories, card });
  }

  /**
   * Queue a reaction; returns its event id.
   * @param {Card} card
   * @param {number | null} value
   * @param {"shown" | "skip"} evidence
   */
  #send({ item, title, categories, recommendation_id }, value, evidence) {
    const kind = evidence === "skip" ? "skip" : value === null ? "shown" : undefined;
    return client.queue(this.user, item, value, { kind, recommendationId: recommendation_id, note: { title, categories } });
  }

  /**
   * Another tab has the same visitor: what is said and taken back there counts here, and no card is asked about twice.
   * @param {Waiting} entry
   * @param {boolean} isNew
   * @param {boolean} isGone
   */
  #onOtherTab(entry, isNew, isGone) {
    if (entry.user !== this.user) return;
    const isBack = entry.undo || (isGone && !entry.tried); // what goes untried was taken back before it was sent
    if (isBack) this.rounds = this.rounds.filter((round) => round.event_id !== entry.event_id);
    else if (isNew) this.rounds.push(asRound(entry));
    if (this.card && this.#isUsed(this.card)) {
      this.card = null;
      this.next();
    }
    this.#emit("changed");
    if (isGone) void (this.card ? this.refresh() : this.retry());
  }

  /** Take the last reaction back; its card returns to the stage. */
  async undo() {
    const last = this.rounds.pop();
    if (!last) return;
    client.queueUndo(this.user, last.event_id);
    if (this.card) this.slate.unshift(this.card);
    this.card = last.card ?? { item: last.item, title: last.title, categories: last.categories, model: this.model?.model };
    this.#saveCard();
    this.#emit("undone", { card: this.card });
    if (await this.sync(false)) await this.refresh();
  }

  /**
   * Change an earlier reaction: the old one is taken back and the new one takes its place.
   * @param {string} event_id
   * @param {number | null} value
   */
  async change(event_id, value) {
    const round = this.rounds.find((each) => each.event_id === event_id);
    if (!round) return;
    client.queueUndo(this.user, event_id);
    Object.assign(round, { event_id: this.#send(round, value, "shown"), value, evidence: "shown" });
    await this.#recount();
  }

  /**
   * Take an earlier reaction back; its item may be shown again.
   * @param {string} event_id
   */
  async remove(event_id) {
    this.rounds = this.rounds.filter((each) => each.event_id !== event_id);
    client.queueUndo(this.user, event_id);
    await this.#recount();
  }

  /** The past is another one: the card stays, what comes after it is chosen anew. */
  async #recount() {
    this.#putAway();
    this.#emit("changed");
    await this.#follow(true);
  }

  /**
   * Choose otherwise from now on; the cards that wait are chosen anew.
   * @param {Partial<VisitSettings>} settings
   */
  async choose(settings) {
    Object.assign(this.settings, settings);
    localStorage.setItem(SETTINGS, JSON.stringify(this.settings));
    await this.#chooseAnew();
  }

  /**
   * Store other attributes of the user; the cards that wait are chosen anew.
   * @param {Record<string, any>} attributes
   */
  async describe(attributes) {
    const { user } = this;
    try {
      const stored = await client.setAttributes(user, attributes);
      if (user !== this.user) return;
      this.attributes = stored.attributes;
    } catch (error) {
      return this.#fail(error);
    }
    await this.#chooseAnew();
  }

  async #chooseAnew() {
    const { card, reserve } = this;
    this.#putAway();
    this.reserve = reserve; // for a server that is away
    this.card = null; // so that it may be chosen again
    if (!(await this.sync(true))) this.card ??= card;
    else this.next();
    await this.refresh();
  }

  /**
   * Be somebody else.
   * @param {string} user
   */
  async load(user) {
    this.#become(user);
    this.#reset();
    await this.start();
  }

  newVisitor() {
    return this.load(randomName(VISITOR));
  }

  /** Delete everything about this user on the server; fails without a change when the server is away. */
  async forget() {
    await client.flush();
    await client.forget(this.user);
    localStorage.removeItem(BEGUN);
    await this.newVisitor();
  }

  /** Show the next card. */
  next() {
    this.card ??= this.#drawn(this.slate) ?? this.#drawn(this.reserve);
    this.asked = null;
    this.#saveCard();
    this.#emit("card");
  }

  /**
   * The first card of a pile that has not been on the stage since.
   * @param {Card[]} pile
   * @returns {Card | null}
   */
  #drawn(pile) {
    for (let card = pile.shift(); card; card = pile.shift()) {
      if (!this.#isUsed(card)) return card;
    }
    return null;
  }

  /** @param {Card} card */
  #isUsed(card) {
    return this.rounds.some((round) => round.item === card.item);
  }

  /**
   * Whether a card is of a new item that the server tries out, and has not been on the stage yet.
   * @param {Card} card
   */
  #isTrial(card) {
    return card.new === true && card.item !== this.card?.item && !this.#isUsed(card);
  }

  /** All cards that wait are to be chosen anew, those that are on their way as well. */
  #putAway() {
    this.turn += 1;
    this.slate = this.reserve = [];
    this.ahead = null;
  }

  /**
   * Ask about another item than the card.
   * @param {string | null} item
   */
  async ask(item) {
    this.asked = item;
    await this.refresh();
  }

  /**
   * Send what waits and, if `isRefill`, fetch new cards; resolves to whether the server was there.
   * @param {boolean} isRefill
   */
  async sync(isRefill) {
    try {
      const mine = isRefill ? ++this.refills : 0;
      await client.flush();
      if (isRefill && mine === this.refills) await this.#refill();
    } catch (error) {
      this.#fail(error);
      return false;
    }
    const wasAway = this.failures > 0;
    this.failures = 0;
    if (wasAway) this.#emit("back");
    return true;
  }

  /** Try again now. */
  async retry() {
    clearTimeout(this.timer);
    if (!this.model) return this.start();
    if (!(await this.sync(true))) return;
    if (!this.card) this.next();
    await this.refresh();
  }

  /** Fetch what is believed now, and why the card (or the item asked about) is expected to please. */
  async refresh() {
    const look = ++this.look;
    const item = this.asked ?? this.card?.item;
    const { user } = this;
    const n = this.reactions.length, isAllSent = !client.waiting(user).length;
    try {
      const rounds = Math.min(n, LONGEST_BASELINE);
      const [beliefs, why] = await Promise.all([api.beliefs(user, TOP, rounds), item ? this.#explained(item) : null]);
      if (look !== this.look || user !== this.user) return;
      if (this.model && beliefs.model !== this.model.model) return await this.#switchModel();
      beliefs.top.sort((a, b) => b.chance - a.chance); // the list says how likely each is, and reads in that order
      Object.assign(this, { beliefs, why, isUpToDate: isAllSent && n === this.reactions.length });
      this.#emit("view");
      await this.#lookAhead();
    } catch (error) {
      if (look === this.look) this.#fail(error);
    }
  }

  /** @param {string} item */
  async #explained(item) {
    try {
      return await client.explain(this.user, item);
    } catch (error) {
      if (error.status !== 404) throw error;
      return null; // not an item of the model that serves now
    }
  }

  /** Ask which card would come next after each outcome, so that it is there when the reaction comes. */
  async #lookAhead() {
    const { card, model, user, settings: { policy, nu, slate } } = this;
    if (!card || !model || slate !== 1 || this.ahead?.item === card.item) return;
    const { choices } = offer(model.reward);
    const outcomes = [choices[0].value, choices[choices.length - 1].value];
    const found = await api.choices(user, { k: 2, item: card.item, value: outcomes.map((value) => value ?? "none"), policy, nu: nuOf(model, policy, nu) })
      .catch(() => null); // the reserve serves as well
    if (!found || this.card !== card || found.model !== model.model) return;
    const [miss, hit] = found.outcomes.map(({ items }) => items.map((each) => ({ ...each, model: found.model })).find((each) => !this.#isUsed(each)) ?? null);
    this.ahead = { item: card.item, hit, miss };
    this.#emit("ahead", { cards: [hit, miss].filter((each) => each !== null) });
  }

  /** Another model serves now: what was chosen by the old one is put away. */
  async #switchModel() {
    this.model = await client.model();
    this.#putAway();
    this.card = null;
    this.#emit("ready");
    await this.retry();
  }

  async #refill() {
    const turn = ++this.turn;
    const { user, settings: { slate: k, policy, nu } } = this;
    const foreseen = this.card && !this.card.recommendation_id ? this.card : null; // on the stage, and unknown to the server
    const busy = [...(this.card && !foreseen ? [this.card] : []), ...this.slate].map((card) => card.item);
    const unsent = client.waiting(this.user).flatMap((entry) => entry.item ?? []);
    /** @type {Api.RecommendationRequest & { k: number }} */
    const ask = { k, reserve: RESERVE, exclude: [...busy, ...unsent] };
    if (policy) ask.policy = policy;
    if (nu !== undefined) ask.nu = nuOf(this.model, policy, nu);
    /** @type {Api.RecommendationResponse | null} */
    let answer = null;
    while (ask.k) {
      try {
        answer = await client.recommend(user, ask);
        break;
      } catch (error) {
        if (error.kind !== "NoItemsLeftError") throw error;
        ask.k = Math.floor(ask.k / 2); // the end of the catalogue is near
      }
    }
    if (turn !== this.turn) return this.#keepTrials(user, answer);
    const same = foreseen && answer?.items.find((card) => card.item === foreseen.item);
    if (same && this.card === foreseen) Object.assign(foreseen, same, { recommendation_id: answer?.recommendation_id });
    const known = new Set([this.card?.item, ...this.reactions.map((round) => round.item)]);
    /** @type {(cards: Api.RecommendedItem[]) => Card[]} */
    const fresh = (cards) => cards
      .filter((card) => !known.has(card.item))
      .map((card) => ({ ...card, recommendation_id: answer?.recommendation_id, model: answer?.model }));
    const trials = this.slate.filter((card) => this.#isTrial(card)); // of answers that were overtaken
    this.slate = [...trials, ...fresh(answer?.items ?? []).filter(({ item }) => !trials.some((trial) => trial.item === item))];
    this.reserve = fresh(answer?.reserve ?? []);
    this.isEmpty = !answer?.items.length;
  }

  /**
   * Of an answer that a newer question overtook, only trials of new items are shown: the server counts each as made, and makes few.
   * @param {string} user
   * @param {Api.RecommendationResponse | null} answer
   */
  #keepTrials(user, answer) {
    if (!answer || user !== this.user || answer.model !== this.model?.model) return;
    const { recommendation_id, model } = answer;
    const trials = answer.items.filter((card) => this.#isTrial(card) && !this.slate.some(({ item }) => item === card.item));
    this.slate.unshift(...trials.map((card) => ({ ...card, recommendation_id, model })));
  }

  /** @param {any} error */
  #fail(error) {
    if (error instanceof AwayError) {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.retry(), RETRY_MS[Math.min(this.failures, RETRY_MS.length - 1)]);
      this.failures += 1;
      this.#emit("away");
    } else if (error.status === 401) {
      this.#emit("locked");
    } else {
      this.#emit("problem", error);
    }
  }

  /** The card on the stage outlives a reload. */
  #saveCard() {
    localStorage.setItem(CARD, JSON.stringify({ user: this.user, card: this.card }));
  }

  /** @returns {Card | null} */
  #savedCard() {
    const { user, card } = JSON.parse(localStorage.getItem(CARD) ?? "{}");
    return user === this.user && !this.rounds.some((round) => round.item === card?.item) ? card ?? null : null;
  }

  /** @param {string} user */
  #become(user) {
    this.user = user;
    localStorage.setItem(USER, user);
    const query = user.startsWith(VISITOR) ? "" : `?user=${encodeURIComponent(user)}`;
    if (location.search !== query) history.replaceState(null, "", location.pathname + query);
  }

  #reset() {
    this.turn += 1;
    this.look += 1;
    this.rounds = this.#unsentRounds();
    this.favourites = [];
    this.logged = 0;
    this.slate = [];
    this.reserve = [];
    this.card = this.beliefs = this.why = this.asked = this.ahead = null;
    this.isEmpty = this.isKnown = false;
    this.attributes = {};
  }

  /** @returns {Round[]} */
  #unsentRounds() {
    const entries = client.waiting(this.user);
    const undone = new Set(entries.filter((entry) => entry.undo).map((entry) => entry.event_id));
    return entries.filter((entry) => !undone.has(entry.event_id)).map(asRound);
  }

  /**
   * @param {string} name
   * @param {unknown} [detail]
   */
  #emit(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }
}

/** @type {(entry: Waiting) => Round} */
const asRound = ({ event_id, item = "", value = null, kind, note }) => ({ event_id, item, value, evidence: kind === "skip" ? "skip" : "shown", ...note });
