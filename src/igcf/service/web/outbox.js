// Reactions on their way to the server. Each is kept in the browser's storage until it is acknowledged, so that neither a
// reload nor a server that is away loses one; the event_id makes sending it twice harmless.

import { Refused, api } from "./api.js";

const PREFIX = "igcf.out.";

export class Outbox extends EventTarget {
  /** @type {Promise<void> | null} */
  sending = null;
  /** The time in the name of the last entry: entries of one millisecond keep their order. */
  #last = 0;

  constructor() {
    super();
    addEventListener("storage", ({ key, oldValue, newValue }) => { // what another tab of this browser keeps, sends and takes back
      if (!key?.startsWith(PREFIX)) return;
      this.dispatchEvent(new CustomEvent("elsewhere", { detail: { letter: JSON.parse(newValue ?? oldValue ?? "{}"), isNew: oldValue === null, isGone: newValue === null } }));
      this.tell();
    });
  }

  /**
   * What waits, oldest first; every entry lies under a key of its own, so that two tabs never overwrite each other.
   * @param {string} [user]
   * @returns {KeptLetter[]}
   */
  waiting(user) {
    const names = Object.keys(localStorage).filter((name) => name.startsWith(PREFIX)).sort();
    const letters = names.map((name) => ({ name, ...JSON.parse(localStorage.getItem(name) ?? "{}") }));
    return user === undefined ? letters : letters.filter((letter) => letter.user === user);
  }

  /**
   * Keep a reaction before anything else happens to it.
   * @param {Letter} letter
   */
  add(letter) {
    this.#last = Math.max(Date.now(), this.#last + 1);
    const name = `${PREFIX}${String(this.#last).padStart(15, "0")}.${letter.kind === "undo" ? 1 : 0}.${letter.event_id}`;
    localStorage.setItem(name, JSON.stringify(letter));
    this.tell();
  }

  /**
   * Take a reaction back: drop it where it was never sent, otherwise ask the server after it.
   * @param {string} user
   * @param {string} event_id
   */
  undo(user, event_id) {
    const unsent = this.waiting(user).find((each) => each.event_id === event_id && each.kind === "react" && !each.tried);
    if (unsent) {
      localStorage.removeItem(unsent.name);
      this.tell();
    } else {
      this.add({ kind: "undo", user, event_id });
    }
  }

  /** Send all that waits, one after the other; rejects when the server is away and keeps what is left. */
  async flush() {
    do {
      this.sending ??= this.#sendAll().finally(() => { this.sending = null; });
      await this.sending;
    } while (this.waiting().length);
  }

  async #sendAll() {
    for (let next = this.waiting()[0]; next; next = this.waiting()[0]) {
      try {
        await this.#send(next);
      } catch (error) {
        if (!(error instanceof Refused) || error.status === 401 || error.status >= 500) throw error;
        this.dispatchEvent(new CustomEvent("refused", { detail: error })); // sending it again would not help
      }
      localStorage.removeItem(next.name);
      this.tell();
    }
  }

  /** @param {KeptLetter} letter */
  async #send({ name, ...letter }) {
    const { kind, user, event_id, item = "", value = null, evidence, recommendation_id } = letter;
    if (kind === "undo") {
      await api.retract(user, event_id).catch((error) => {
        if (error.status !== 404) throw error; // already taken back
      });
      return;
    }
    localStorage.setItem(name, JSON.stringify({ ...letter, tried: true }));
    await api.react(user, { item, ...(evidence === "skip" ? { kind: "skip" } : value === null ? { kind: "shown" } : { value }), event_id, recommendation_id });
  }

  tell() {
    this.dispatchEvent(new CustomEvent("change"));
  }
}
