// Client of the igcf service, for browsers and Node 18 or newer; no dependencies.
//
// A reaction gets an event id before it is first sent, and is sent again with the same one: it counts once, however
// often that happens. While the service cannot be reached, reactions wait in a queue, in the browser across reloads.

/** The service cannot be reached or has no time: try again later. */
export class AwayError extends Error {
  constructor(message) {
    super(message);
    this.name = "AwayError";
  }
}

/** The service understood and said no; `status` and `kind` tell why. */
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

/** The part of an address after the path; what is null or undefined is left out. */
function search(options) {
  const given = Object.entries(options).filter(([, value]) => value !== null && value !== undefined);
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

export class Client {
  #url;
  #headers;
  #pauses;
  #timeout;
  #fetch;
  #storage;
  #queueKey;
  #sending = null;
  #onItsWay = null; // user, event id and end of the queued reaction that is being sent

  constructor(url, options = {}) {
    this.#url = String(url).replace(/\/+$/, "");
    this.#headers = options.apiKey ?? options.token ? { Authorization: `Bearer ${options.apiKey ?? options.token}` } : {};
    this.#pauses = options.pausesMs ?? PAUSES_MS;
    this.#timeout = options.timeoutMs ?? 10_000;
    this.#fetch = options.fetch ?? ((...args) => globalThis.fetch(...args));
    this.#storage = options.storage ?? defaultStorage();
    this.#queueKey = options.queueKey ?? `igcf.queue:${this.#url}`;
    globalThis.addEventListener?.("online", () => void this.flush());
    if (this.waiting().length) void this.flush();
  }

  /** The best items that this user has not reacted to; an unknown user is a new one. */
  recommend(user, options = {}) {
    return this.#send("POST", `/v1/users/${part(user)}/recommendations`, { k: 5, ...options });
  }

  /** Report a reaction and wait until it is stored. Without a value: a success, where every reaction of the log counts
   * alike; `kind: "shown"` says that the item drew no reaction. */
  feedback(user, item, value, options = {}) {
    return this.#send("POST", `/v1/users/${part(user)}/feedback`, reaction(item, value, options));
  }

  /** Report a reaction without waiting: it is queued first, and sent as soon as the service can be reached. */
  queue(user, item, value, options = {}) {
    const entry = { user, ...reaction(item, value, { time: Date.now() / 1000, ...options }) };
    this.#save([...this.waiting(), entry].slice(-MOST_WAITING));
    void this.flush();
    return entry.event_id;
  }

  /** Put an item aside: not now, which says nothing about taste. */
  skip(user, item, options = {}) {
    return this.feedback(user, item, undefined, { ...options, kind: "skip" });
  }

  /** Report many reactions at once, each with its user; those that are refused are told one by one. */
  feedbackBatch(reactions) {
    const feedback = reactions.map((each) => ({ ...each, event_id: each.event_id ?? newEventId() }));
    return this.#send("POST", "/v1/feedback", { feedback });
  }

  /** Report what a user did elsewhere, out of a log. */
  history(user, reactions) {
    return this.#send("POST", `/v1/users/${part(user)}/history`, { reactions });
  }

  /** An anonymous visitor becomes a user: the visitor's reactions count as the user's, once. */
  merge(user, visitor) {
    return this.#send("POST", `/v1/users/${part(user)}/merge`, { from: visitor });
  }

  /** The best items for each of at most 1,000 users. */
  recommendMany(users, options = {}) {
    return this.#send("POST", "/v1/recommendations", { k: 5, ...options, users });
  }

  /** Take a reaction back, also one that waits here. */
  async undo(user, eventId) {
    const all = this.waiting();
    const others = all.filter((entry) => entry.event_id !== eventId);
    this.#save(others);
    if (this.#onItsWay?.eventId === eventId) await this.#onItsWay.end; // or it would be stored after this
    try {
      return await this.#send("DELETE", `/v1/users/${part(user)}/feedback/${part(eventId)}`);
    } catch (error) {
      if (others.length === all.length || error.status !== 404) throw error;
      const { revision } = await this.user(user, { limit: 0 }); // it never reached the service
      return { revision };
    }
  }

  /** Where an expectation comes from; `limit` is how many reactions are named, those that matter most. */
  explain(user, item, options = {}) {
    return this.#send("GET", `/v1/users/${part(user)}/explanations/${part(item)}${search(options)}`);
  }

  /** History, as many of the latest reactions as `limit` says, and belief of a user. */
  user(user, options = {}) {
    return this.#send("GET", `/v1/users/${part(user)}${search(options)}`);
  }

  /** Delete everything about a user, also what waits here. */
  async forget(user) {
    this.#save(this.waiting().filter((entry) => entry.user !== user));
    if (this.#onItsWay?.user === user) await this.#onItsWay.end; // or it would be stored after the deletion
    return this.#send("DELETE", `/v1/users/${part(user)}`);
  }

  /** A page of the catalogue; `sort: "trending"` begins with what is liked more than it used to be. */
  items(page = {}) {
    return this.#send("GET", `/v1/items${search({ limit: 50, ...page })}`);
  }

  /** One item of the catalogue. */
  item(item) {
    return this.#send("GET", `/v1/items/${part(item)}`);
  }

  /** A page of the users; `after` is the `next` of the page before. */
  users(page = {}) {
    return this.#send("GET", `/v1/users${search(page)}`);
  }

  /** A page of the reactions of all users to one item. */
  itemFeedback(item, page = {}) {
    return this.#send("GET", `/v1/items/${part(item)}/feedback${search(page)}`);
  }

  /** The items that the same people like. */
  similar(item, options = {}) {
    return this.#send("GET", `/v1/items/${part(item)}/similar${search(options)}`);
  }

  /** Add items, or describe them anew (server key): all of them or none. */
  addItems(items, { eventId } = {}) {
    return this.#send("POST", "/v1/items", { items, event_id: eventId ?? newEventId() });
  }

  /** Change some fields of an item; null takes one back (server key). */
  changeItem(item, fields) {
    return this.#send("PATCH", `/v1/items/${part(item)}`, fields);
  }

  /** Retire an item: it is in no answer any more (server key). */
  retireItem(item) {
    return this.#send("DELETE", `/v1/items/${part(item)}`);
  }

  /** Serve another model, a folder on the server (admin key); `force`: also one of another catalogue. */
  loadModel(folder, { force = false } = {}) {
    return this.#send("POST", "/v1/model", { folder, force });
  }

  /** What is served. */
  model() {
    return this.#send("GET", "/v1/model");
  }

  /** Reactions that are not yet stored by the service, oldest first. */
  waiting() {
    try {
      const found = JSON.parse(this.#storage.getItem(this.#queueKey) ?? "[]");
      return Array.isArray(found) ? found.filter((entry) => entry?.event_id) : [];
    } catch {
      return [];
    }
  }

  /** Send what waits, in order; resolves to the number that is still waiting. Never rejects. */
  flush() {
    this.#sending ??= this.#sendWaiting();
    return this.#sending;
  }

  async #sendWaiting() {
    await null; // `flush` notes first that this runs
    try {
      for (let entry = this.waiting()[0]; entry; entry = this.waiting()[0]) {
        try {
          await this.#sendEntry(entry);
        } catch (error) {
          if (!isFinal(error)) break; // the rest waits
          console.warn(`igcf: a reaction was refused and dropped: ${error.message}`);
        }
        this.#save(this.waiting().filter((each) => each.event_id !== entry.event_id));
      }
    } finally {
      this.#sending = null; // at once after the last look at the queue: whatever is queued now needs another call
    }
    return this.waiting().length;
  }

  #sendEntry({ user, ...body }) {
    const sent = this.#send("POST", `/v1/users/${part(user)}/feedback`, body);
    this.#onItsWay = { user, eventId: body.event_id, end: sent.catch(() => {}) };
    return sent;
  }

  #save(entries) {
    if (entries.length) this.#storage.setItem(this.#queueKey, JSON.stringify(entries));
    else this.#storage.removeItem(this.#queueKey);
  }

  async #send(method, path, body) {
    for (const pause of [...this.#pauses, null]) {
      try {
        return await this.#once(method, path, body);
      } catch (error) {
        if (pause === null || !(error instanceof AwayError)) throw error;
        await wait(pause);
      }
    }
  }

  async #once(method, path, body) {
    const headers = { Accept: "application/json", ...this.#headers };
    if (body !== undefined) headers["Content-Type"] = "application/json";
    let response, answer;
    try {
      response = await this.#fetch(this.#url + path, {
        method,
        headers,
        body: body === undefined ? undefined : JSON.stringify(body),
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

/** Whether the service itself has refused a reaction for good: not for a key, a defect, or in the name of a proxy. */
function isFinal(error) {
  return error instanceof RefusedError && error.kind !== "" && error.status < 500 && ![401, 403].includes(error.status);
}

/** The body of a reaction, with an event id of its own unless one is given. */
function reaction(item, value, { eventId, kind, time, recommendationId } = {}) {
  const body = { item, event_id: eventId ?? newEventId() };
  if (kind !== undefined) body.kind = kind;
  if (value !== undefined && value !== null) body.value = value;
  if (time !== undefined) body.time = time;
  if (recommendationId !== undefined) body.recommendation_id = recommendationId;
  return body;
}
