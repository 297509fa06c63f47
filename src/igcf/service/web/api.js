// The client of the service, as this page uses it, and the routes that only this page needs.

import { AwayError, Client, RefusedError } from "/static/client.js";

export { AwayError, RefusedError };

const KEY = "igcf.key";

/** Whether this server asks for keys, as far as this tab knows. */
export const hasKey = () => sessionStorage.getItem(KEY) !== null;

/** @param {string} key */
export const setKey = (key) => sessionStorage.setItem(KEY, key);

/** It tries each request once: the page itself decides when to try again and says so. */
export const client = new Client("", { token: () => sessionStorage.getItem(KEY), pausesMs: [], queueKey: "igcf.out" });

/** @param {string} id */
const page = (id) => `/page/users/${encodeURIComponent(id)}`;

/** @param {object} fields */
function query(fields) {
  const pairs = Object.entries(fields).flatMap(([name, value]) => (Array.isArray(value) ? value : [value]).map((each) => [name, each]));
  return new URLSearchParams(pairs.filter(([, value]) => value !== undefined && value !== null));
}

export const api = {
  /** @type {(id: string, top: number, popular: number) => Promise<Api.Beliefs>} */
  beliefs: (id, top, popular) => client.call("GET", `${page(id)}/beliefs?top=${top}&popular=${popular}`),
  /** @type {(id: string, ask: ChoicesAsk) => Promise<Api.Choices>} */
  choices: (id, ask) => client.call("GET", `${page(id)}/choices?${query(ask)}`),
  /** @type {(k: number) => Promise<Api.StartingItems>} */
  start: (k) => client.call("GET", `/page/start?k=${k}`),
  /** @type {() => Promise<Api.Regions>} */
  regions: () => client.call("GET", "/page/regions"),
  /** @type {() => Promise<Api.Stats>} */
  stats: () => client.call("GET", "/page/stats"),
};
