// Client of the igcf service, for browsers and Node 18 or newer; no dependencies. The service's own page uses it too.
//
// Every reaction gets an event id before it is first sent and keeps it when it is sent again, so it counts once. While
// the service cannot be reached, reactions wait in a queue; in a browser the queue survives reloads.

/** The service cannot be reached or is overloaded; try again later. */
export class AwayError extends Error {
  constructor(message) {
    super(message);
    this.name = "AwayError";
  }
}

/** The service refused the request; `status` and `kind` say why. */
export class RefusedError extends Error {
  constructor(status, kind, message) {
    super(message);
    this.name = "RefusedError";
    this.status = status;
    this.kind = kind;
  }
}

const BUSY = new Set([408, 429, 502, 503, 504]);
const PAUSES_MS = [100, 300, 1000, 2000];
const MOST_WAITING = 1000;

const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** A part of a path; "." and ".." would lead to another path, however they are written. */
function part(text) {
  const known = String(text);
  if (known === "." || known === ".." || /\p{Surrogate}/u.test(known)) {
    throw new RefusedError(422, "RequestError", `${JSON.stringify(known)} cannot be an id`);
  }
  return encodeURIComponent(known);
}

/** The part of an address after the path; a list repeats its name, what is null or undefined is left out. */
function search(options) {
  const pairs = Object.entries(options).flatMap(([name, values]) => [values].flat().map((value) => [name, value]));
  const given = pairs.filter(([, value]) => value !== null && value !== undefined);
  return given.length ? `?${new URLSearchParams(given)}` : "";
}

/** Where waiting reactions are kept: the browser's storage where there is one, otherwise memory. */
export function defaultStorage() {
  try {
    const probe = "igcf.probe";
    globalThis.localStorage.setItem(probe, "1");
    globalThis.localStorage.removeItem(probe);
    return globalThis.localStorage;
  } catch {
    return memoryStorage();
  }
}

/** A storage that ends with the page or the process. */
export function memoryStorage() {
  const entries = new Map();
  return {
    get length() {
      return entries.size;
    },
    key: (place) => [...entries.keys()][place] ?? null,
    getItem: (key) => entries.get(key) ?? null,
    setItem: (key, value) => void entries.set(key, value),
    removeItem: (key) => void entries.delete(key),
  };
}

/** A new event id; also where the page is not served over TLS, which `crypto.randomUUID` needs. */
export function newEventId() {
  const bytes = globalThis.crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Events: `change` when the queue changes, `refused` (detail: the error) when the service rejects a queued reaction,
 * `elsewhere` (detail: entry, isNew, isGone) when another tab of this browser changes the queue. */
export class Client extends EventTarget {
  #url;
  #token;
  #pauses;
  #timeout;
  #fetch;
  #storage;
  #prefix;
  #lastQueued = 0; // milliseconds in the name of the last entry: entries of one millisecond keep their order
  #sending = null;
  #onItsWay = null; // user, event id and end of the queued reaction that is being sent

  constructor(url, options = {}) {
    super();
    this.#url = String(url).replace(/\/+$/, "");
    const token = options.apiKey ?? options.token;
    this.#token = typeof token === "function" ? token : () => token;
    this.#pauses = options.pausesMs ?? PAUSES_MS;
    this.#timeout = options.timeoutMs ?? 10_000;
    this.#fetch = options.fetch ?? ((...args) => globalThis.fetch(...args));
    this.#storage = options.storage ?? defaultStorage();
    this.#prefix = `${options.queueKey ?? `igcf.queue:${this.#url}`}.`;
    globalThis.addEventListener?.("online", () => this.#flushSoon());
    globalThis.addEventListener?.("storage", ({ key, oldValue, newValue }) => {
      const entry = key?.startsWith(this.#prefix) && parsed(key, newValue ?? oldValue);
      if (!entry) return;
      this.#emit("elsewhere", { entry, isNew: oldValue === null, isGone: newValue === null });
      this.#emit("change");
    });
    if (this.waiting().length) this.#flushSoon();
  }

  /** The best items that this user has not reacted to; an unknown user is a new one. */
  recommend(user, options = {}) {
    return this.call("POST", `/v1/users/${part(user)}/recommendations`, { k: 5, ...options });
  }

  /** Report a reaction and wait until it is stored. Without a value: a success, where every reaction of the log counts
   * alike; `kind: "shown"` says that the item drew no reaction. */
  feedback(user, item, value, options = {}) {
    return this.call("POST", `/v1/users/${part(user)}/feedback`, reaction(item, value, options));
  }

  /** Report a reaction without waiting: it is stored here first, and sent as soon as the service can be reached. */
  queue(user, item, value, options = {}) {
    const body = reaction(item, value, { time: Date.now() / 1000, ...options });
    this.#add({ user, ...body, note: options.note });
    return body.event_id;
  }

  /** Put an item aside: not now, which says nothing about taste. */
  skip(user, item, options = {}) {
    return this.feedback(user, item, undefined, { ...options, kind: "skip" });
  }

  /** Report many reactions at once, each with its user; those that are refused are listed in the answer. */
  feedbackBatch(reactions) {
    const feedback = reactions.map((each) => ({ ...each, event_id: each.event_id ?? newEventId() }));
    return this.call("POST", "/v1/feedback", { feedback });
  }

  /** Report what a user did elsewhere, out of a log. */
  history(user, reactions) {
    return this.call("POST", `/v1/users/${part(user)}/history`, { reactions });
  }

  /** An anonymous visitor becomes a user: the visitor's reactions count as the user's, once. */
  merge(user, visitor) {
    return this.call("POST", `/v1/users/${part(user)}/merge`, { from: visitor });
  }

  /** The best items for each of at most 1,000 users. */
  recommendMany(users, options = {}) {
    return this.call("POST", "/v1/recommendations", { k: 5, ...options, users });
  }

  /** Take a reaction back, also one that waits here. */
  async undo(user, eventId) {
    const unsent = this.#drop((entry) => entry.event_id === eventId);
    if (this.#onItsWay?.eventId === eventId) await this.#onItsWay.end; // or it would be stored after this
    try {
      return await this.call("DELETE", `/v1/users/${part(user)}/feedback/${part(eventId)}`);
    } catch (error) {
      if (!unsent || error.status !== 404) throw error;
      const { revision } = await this.user(user, { limit: 0 }); // it never reached the service
      return { revision };
    }
  }

  /** Take a reaction back without waiting: drop it if it was never sent, otherwise queue the request. */
  queueUndo(user, eventId) {
    if (!this.#drop((entry) => entry.event_id === eventId && !entry.undo && !entry.tried)) {
      this.#add({ user, event_id: eventId, undo: true });
    }
  }

  /** Store what is known of a user beside reactions, by the names that `model` lists, instead of any before (server key). */
  setAttributes(user, attributes) {
    return this.call("PUT", `/v1/users/${part(user)}/attributes`, { attributes });
  }

  /** Where an expectation comes from; `limit` is how many reactions are named, those that matter most. */
  explain(user, item, options = {}) {
    return this.call("GET", `/v1/users/${part(user)}/explanations/${part(item)}${search(options)}`);
  }

  /** History, as many of the latest reactions as `limit` says, and belief of a user. */
  user(user, options = {}) {
    return this.call("GET", `/v1/users/${part(user)}${search(options)}`);
  }

  /** Delete everything about a user, also what waits here. */
  async forget(user) {
    this.#drop((entry) => entry.user === user);
    if (this.#onItsWay?.user === user) await this.#onItsWay.end; // or it would be stored after the deletion
    return this.call("DELETE", `/v1/users/${part(user)}`);
  }

  /** A page of the catalogue; `sort: "trending"` begins with what is liked more than it used to be. */
  items(page = {}) {
    return this.call("GET", `/v1/items${search({ limit: 50, ...page })}`);
  }

  /** One item of the catalogue. */
  item(item) {
    return this.call("GET", `/v1/items/${part(item)}`);
  }

  /** A page of the users; `after` is the `next` of the page before. */
  users(page = {}) {
    return this.call("GET", `/v1/users${search(page)}`);
  }

  /** A page of the reactions of all users to one item. */
  itemFeedback(item, page = {}) {
    return this.call("GET", `/v1/items/${part(item)}/feedback${search(page)}`);
  }

  /** The items that the same people like. */
  similar(item, options = {}) {
    return this.call("GET", `/v1/items/${part(item)}/similar${search(options)}`);
  }

  /** Add items, or describe them anew (server key): all of them or none. */
  addItems(items, { eventId } = {}) {
    return this.call("POST", "/v1/items", { items, event_id: eventId ?? newEventId() });
  }

  /** Change some fields of an item; null takes one back (server key). */
  changeItem(item, fields) {
    return this.call("PATCH", `/v1/items/${part(item)}`, fields);
  }

  /** Retire an item: it is in no answer any more (server key). */
  retireItem(item) {
    return this.call("DELETE", `/v1/items/${part(item)}`);
  }

  /** Serve another model, a folder on the server (admin key); `force`: also one of another catalogue. */
  loadModel(folder, { force = false } = {}) {
    return this.call("POST", "/v1/model", { folder, force });
  }

  /** Serve the previous model again (admin key). */
  rollBack() {
    return this.call("POST", "/v1/model/rollback");
  }

  /** The experiments of the store, the latest first (admin key). */
  experiments() {
    return this.call("GET", "/v1/experiments");
  }

  /** What an experiment has shown so far (admin key); `value`: names of numbers of the items to compare. */
  experiment(name, options = {}) {
    return this.call("GET", `/v1/experiments/${part(name)}${search(options)}`);
  }

  /** Start an experiment, change its shares, stop it or promote an arm (admin key): `{ action, ... }`. */
  changeExperiment(change) {
    return this.call("POST", "/v1/experiments", change);
  }

  /** What is served. */
  model() {
    return this.call("GET", "/v1/model");
  }

  /** What the service has not stored yet, oldest first. Each entry has a key of its own: tabs never overwrite each other. */
  waiting(user) {
    const keys = Array.from({ length: this.#storage.length }, (_, place) => this.#storage.key(place) ?? "");
    const own = keys.filter((key) => key.startsWith(this.#prefix)).sort();
    const entries = own.map((key) => parsed(key, this.#storage.getItem(key))).filter(Boolean);
    return user === undefined ? entries : entries.filter((entry) => entry.user === user);
  }

  /** Send what waits, in order; rejects when the service is away or asks for another key, and the rest waits. */
  flush() {
    this.#sending ??= this.#sendWaiting();
    return this.#sending;
  }

  /** Call a route that has no method of its own. */
  async call(method, path, body) {
    for (const pause of [...this.#pauses, null]) {
      try {
        return await this.#once(method, path, body);
      } catch (error) {
        if (pause === null || !(error instanceof AwayError)) throw error;
        await wait(pause);
      }
    }
  }

  #flushSoon() {
    this.flush().catch(() => {}); // it waits for the next call, `online` or reload
  }

  async #sendWaiting() {
    await null; // `flush` notes first that this runs
    try {
      for (let entry = this.waiting()[0]; entry; entry = this.waiting()[0]) {
        try {
          await this.#sendEntry(entry);
        } catch (error) {
          if (!isFinal(error)) throw error; // the rest waits
          if (this.#emit("refused", error)) console.warn(`igcf: a reaction was refused and dropped: ${error.message}`);
        }
        this.#drop((each) => each.key === entry.key);
      }
    } finally {
      this.#sending = null; // at once after the last look at the queue: whatever is queued now needs another call
    }
  }

  #sendEntry({ key, user, note, undo, tried, ...body }) {
    const path = () => `/v1/users/${part(user)}/feedback`;
    const send = async () => {
      if (!undo) return this.call("POST", path(), body);
      return this.call("DELETE", `${path()}/${part(body.event_id)}`).catch((error) => {
        if (error.kind === "" || error.status !== 404) throw error; // 404: already taken back
      });
    };
    if (!undo && !tried) this.#storage.setItem(key, JSON.stringify({ user, note, ...body, tried: true }));
    const sent = send();
    this.#onItsWay = { user, eventId: body.event_id, end: sent.catch(() => {}) };
    return sent;
  }

  #add(entry) {
    this.#lastQueued = Math.max(Date.now(), this.#lastQueued + 1);
    const key = `${this.#prefix}${String(this.#lastQueued).padStart(15, "0")}.${entry.undo ? 1 : 0}.${entry.event_id}`;
    this.#storage.setItem(key, JSON.stringify(entry));
    for (const old of this.waiting().slice(0, -MOST_WAITING)) this.#storage.removeItem(old.key);
    this.#emit("change");
    this.#flushSoon();
  }

  /** Remove the entries of the queue for which `is` holds; returns whether there were any. */
  #drop(is) {
    const found = this.waiting().filter(is);
    for (const { key } of found) this.#storage.removeItem(key);
    if (found.length) this.#emit("change");
    return found.length > 0;
  }

  /** Returns false where a listener called `preventDefault`. */
  #emit(name, detail) {
    return this.dispatchEvent(Object.assign(new Event(name, { cancelable: true }), { detail }));
  }

  async #once(method, path, body) {
    const headers = { Accept: "application/json" };
    const token = this.#token();
    if (token) headers.Authorization = `Bearer ${token}`;
    if (body !== undefined) headers["Content-Type"] = "application/json";
    let response, answer;
    try {
      response = await this.#fetch(this.#url + path, {
        method,
        headers,
        body: body === undefined ? undefined : JSON.stringify(body),
        cache: "no-store",
        signal: AbortSignal.timeout(this.#timeout),
      });
      answer = await response.json();
    } catch (error) {
      if (response && !response.ok && !BUSY.has(response.status)) {
        throw new RefusedError(response.status, "", `the service answered ${response.status} to ${method} ${path}`);
      }
      throw new AwayError(`no answer to ${method} ${path}: ${error.message}`);
    }
    if (response.ok) return answer;
    const message = answer?.message ?? `the service answered ${response.status} to ${method} ${path}`;
    if (BUSY.has(response.status)) throw new AwayError(message);
    throw new RefusedError(response.status, answer?.error ?? "", message);
  }
}

/** An entry of the queue with the key under which it is stored; null where the storage was damaged. */
function parsed(key, text) {
  try {
    const entry = JSON.parse(text);
    return entry?.event_id ? { ...entry, key } : null;
  } catch {
    return null;
  }
}

/** Whether the service itself has refused a reaction for good: not for a key, a defect, or in the name of a proxy. */
function isFinal(error) {
  return error instanceof RefusedError && error.kind !== "" && error.status < 500 && ![401, 403].includes(error.status);
}

/** The body of a reaction, with an event id of its own unless one is given. */
function reaction(item, value, { eventId, kind, time, recommendationId, context } = {}) {
  const body = { item, event_id: eventId ?? newEventId() };
  if (kind !== undefined) body.kind = kind;
  if (value !== undefined && value !== null) body.value = value;
  if (time !== undefined) body.time = time;
  if (recommendationId !== undefined) body.recommendation_id = recommendationId;
  if (context !== undefined) body.context = context;
  return body;
}
