// One visitor's visit: which card is shown, which come next, what was reacted to, what is believed. Draws nothing.

import { Away, api } from "./api.js";
import { Outbox } from "./outbox.js";
import { isHit, randomName } from "./values.js";
import { wait } from "./dom.js";

const USER = "igcf.user";
const SETTINGS = "igcf.settings";
const CARD = "igcf.card";
const RESERVE = 8; // cards kept for the moment when the server is slow or away
const PATIENCE_MS = 200; // how long the next card may wait for the newest answer before one of the reserve is shown
const RETRY_MS = [1_000, 2_000, 4_000, 8_000];
const TOP = 7;
const LONGEST_BASELINE = 500;

export class Visit extends EventTarget {
  outbox = new Outbox();
  /** @type {Api.ModelInfo | null} */
  model = null;
  user = localStorage.getItem(USER) ?? "";
  /** @type {VisitSettings} */
  settings = { slate: 1, ...JSON.parse(localStorage.getItem(SETTINGS) ?? "{}") };
  failures = 0;
  turn = 0;
  look = 0;
  timer = 0;
  /** @type {Round[]} */
  rounds = [];
  logged = 0; // reactions out of a log, from before this service met the user
  /** @type {Card[]} */
  slate = [];
  /** @type {Card[]} */
  reserve = [];
  /** @type {Card | null} */
  card = null;
  /** @type {Api.Beliefs | null} */
  beliefs = null;
  /** @type {Api.Explained | null} */
  why = null;
  /** @type {string | null} */
  asked = null;
  isTurning = false;
  isEmpty = false;
  isKnown = false;

  constructor() {
    super();
    this.#reset();
    if (!this.user) this.#become(randomName("visitor-"));
    addEventListener("online", () => this.retry());
  }

  /** The rounds that say something: a skip does not. */
  get reactions() {
    return this.rounds.filter((round) => round.evidence !== "skip");
  }

  /** Begin, or begin again with another user: the first card waits for nothing but itself. */
  async start() {
    this.card = this.#keptCard();
    this.#tell("begin");
    const { user } = this;
    if (!(await this.sync(true)) || user !== this.user) return;
    this.next();
    try {
      const [model, state] = await Promise.all([this.model ?? api.model(), api.user(user)]);
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
      this.#tell("ready");
      if (!this.card) this.next();
      await this.refresh();
    } catch (error) {
      this.#fail(error);
    }
  }

  /**
   * React to the card on the stage; `value` is in the units of the log, null is no reaction. A skip says nothing: not now.
   * @param {number | null} value
   * @param {"shown" | "skip"} [evidence]
   */
  async react(value, evidence = "shown") {
    const { card, user } = this;
    if (!card || this.isTurning || !this.model) return;
    this.isTurning = true;
    const event_id = randomName("page-", 20);
    const { item, recommendation_id } = card;
    this.outbox.add({ kind: "react", user, event_id, item, value, evidence, recommendation_id });
    this.rounds.push({ event_id, item, value, evidence, title: card.title, categories: card.categories, card });
    this.card = null;
    this.#tell("reacted", { card, evidence, isHit: isHit(value, this.model.reward) });
    const isLast = this.slate.length === 0;
    const synced = this.sync(isLast);
    if (isLast) await Promise.race([synced, wait(PATIENCE_MS)]);
    this.isTurning = false;
    if (user !== this.user) return;
    this.next();
    if (!(await synced)) return;
    if (!this.card && !this.isTurning) this.next(); // the answer came late and nothing was in reserve
    await this.refresh();
  }

  /** Take the last reaction back; its card returns to the stage. */
  async undo() {
    const last = this.isTurning ? undefined : this.rounds.pop();
    if (!last) return;
    this.outbox.undo(this.user, last.event_id);
    if (this.card) this.slate.unshift(this.card);
    this.card = last.card ?? { item: last.item, title: last.title, categories: last.categories, model: this.model?.model };
    this.#keepCard();
    this.#tell("undone", { card: this.card });
    if (await this.sync(false)) await this.refresh();
  }

  /**
   * Choose otherwise from now on; the cards that wait are chosen anew.
   * @param {Partial<VisitSettings>} settings
   */
  async choose(settings) {
    Object.assign(this.settings, settings);
    localStorage.setItem(SETTINGS, JSON.stringify(this.settings));
    this.slate = [];
    const { card } = this;
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
    return this.load(randomName("visitor-"));
  }

  /** Delete everything about this user on the server; fails without a change when the server is away. */
  async forget() {
    await this.outbox.flush();
    await api.forget(this.user);
    await this.newVisitor();
  }

  /** Show the next card. */
  next() {
    this.card ??= this.slate.shift() ?? this.reserve.shift() ?? null;
    this.asked = null;
    this.#keepCard();
    this.#tell("card");
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
      await this.outbox.flush();
      if (isRefill) await this.#refill();
    } catch (error) {
      this.#fail(error);
      return false;
    }
    const wasAway = this.failures > 0;
    this.failures = 0;
    if (wasAway) this.#tell("back");
    return true;
  }

  /** Try again now. */
  async retry() {
    clearTimeout(this.timer);
    if (!this.model) return this.start();
    if (!(await this.sync(true))) return;
    if (!this.card && !this.isTurning) this.next();
    await this.refresh();
  }

  /** Fetch what is believed now, and why the card (or the item asked about) is expected to please. */
  async refresh() {
    const look = ++this.look;
    const item = this.asked ?? this.card?.item;
    const { user } = this;
    try {
      const rounds = Math.min(this.reactions.length, LONGEST_BASELINE);
      const [beliefs, why] = await Promise.all([api.beliefs(user, TOP, rounds), item ? this.#explained(item) : null]);
      if (look !== this.look || user !== this.user) return;
      if (this.model && beliefs.model !== this.model.model) return await this.#meetModel();
      Object.assign(this, { beliefs, why });
      this.#tell("view");
    } catch (error) {
      if (look === this.look) this.#fail(error);
    }
  }

  /** @param {string} item */
  async #explained(item) {
    try {
      return await api.explain(this.user, item);
    } catch (error) {
      if (error.status !== 404) throw error;
      return null; // not an item of the model that serves now
    }
  }

  /** Another model serves now: what was chosen by the old one is put away. */
  async #meetModel() {
    this.model = await api.model();
    this.slate = this.reserve = [];
    this.card = null;
    this.#tell("ready");
    await this.retry();
  }

  async #refill() {
    const turn = ++this.turn;
    const { slate: k, policy, nu } = this.settings;
    const busy = [...(this.card ? [this.card] : []), ...this.slate].map((card) => card.item);
    const unsent = this.outbox.waiting(this.user).flatMap((letter) => letter.item ?? []);
    /** @type {Api.RecommendAsk & { k: number }} */
    const ask = { k, reserve: RESERVE, exclude: [...busy, ...unsent] };
    if (policy) ask.policy = policy;
    if (nu !== undefined && (policy ?? "ucb") === "ucb") ask.nu = nu;
    /** @type {Api.Recommended | null} */
    let answer = null;
    while (ask.k) {
      try {
        answer = await api.recommend(this.user, ask);
        break;
      } catch (error) {
        if (error.kind !== "NoItemsLeftError") throw error;
        ask.k = Math.floor(ask.k / 2); // the end of the catalogue is near
      }
    }
    if (turn !== this.turn) return; // overtaken by a newer question
    const known = new Set([this.card?.item, ...this.reactions.map((round) => round.item)]);
    /** @type {(cards: Api.RecommendedItem[]) => Card[]} */
    const fresh = (cards) => cards
      .filter((card) => !known.has(card.item))
      .map((card) => ({ ...card, recommendation_id: answer?.recommendation_id, model: answer?.model }));
    this.slate = fresh(answer?.items ?? []);
    this.reserve = fresh(answer?.reserve ?? []);
    this.isEmpty = !answer?.items.length;
  }

  /** @param {any} error */
  #fail(error) {
    if (error instanceof Away) {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.retry(), RETRY_MS[Math.min(this.failures, RETRY_MS.length - 1)]);
      this.failures += 1;
      this.#tell("away");
    } else if (error.status === 401) {
      this.#tell("locked");
    } else {
      this.#tell("problem", error);
    }
  }

  /** The card on the stage outlives a reload. */
  #keepCard() {
    localStorage.setItem(CARD, JSON.stringify({ user: this.user, card: this.card }));
  }

  /** @returns {Card | null} */
  #keptCard() {
    const { user, card } = JSON.parse(localStorage.getItem(CARD) ?? "{}");
    return user === this.user && !this.rounds.some((round) => round.item === card?.item) ? card ?? null : null;
  }

  /** @param {string} user */
  #become(user) {
    this.user = user;
    localStorage.setItem(USER, user);
  }

  #reset() {
    this.turn += 1;
    this.look += 1;
    this.rounds = this.#unsentRounds();
    this.logged = 0;
    this.slate = [];
    this.reserve = [];
    this.card = this.beliefs = this.why = this.asked = null;
    this.isTurning = this.isEmpty = this.isKnown = false;
  }

  /** @returns {Round[]} */
  #unsentRounds() {
    const letters = this.outbox.waiting(this.user);
    const undone = new Set(letters.filter((letter) => letter.kind === "undo").map((letter) => letter.event_id));
    const reactions = letters.filter((letter) => letter.kind === "react" && !undone.has(letter.event_id));
    return reactions.map((letter) => ({ ...letter, item: letter.item ?? "", value: letter.value ?? null, evidence: letter.evidence ?? "shown" }));
  }

  /**
   * @param {string} name
   * @param {unknown} [detail]
   */
  #tell(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }
}
