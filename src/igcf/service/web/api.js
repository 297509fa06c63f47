// The HTTP API of the service, and the two ways in which a call can fail.

const KEY = "igcf.key";
const PATIENCE_MS = 10_000;
const BUSY = new Set([408, 429, 502, 503, 504]);

/** The server cannot be reached or has no time: try again later. */
export class Away extends Error {}

/** The server understood and said no; `status` and `kind` tell why. */
export class Refused extends Error {
  constructor(status, kind, message) {
    super(message);
    this.status = status;
    this.kind = kind;
  }
}

export const setKey = (key) => sessionStorage.setItem(KEY, key);

export async function call(method, path, body) {
  const key = sessionStorage.getItem(KEY);
  const headers = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (key) headers.Authorization = `Bearer ${key}`;
  let response, answer;
  try {
    response = await fetch(path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store",
      signal: AbortSignal.timeout(PATIENCE_MS),
    });
    answer = await response.json();
  } catch (error) {
    throw new Away(`no answer from ${path}: ${error.message}`);
  }
  if (response.ok) return answer;
  if (BUSY.has(response.status)) throw new Away(answer.message);
  throw new Refused(response.status, answer.error, answer.message);
}

const user = (id) => `/v1/users/${encodeURIComponent(id)}`;

export const api = {
  model: () => call("GET", "/v1/model"),
  items: (offset, limit) => call("GET", `/v1/items?offset=${offset}&limit=${limit}`),
  recommend: (id, ask) => call("POST", `${user(id)}/recommendations`, ask),
  react: (id, reaction) => call("POST", `${user(id)}/feedback`, reaction),
  retract: (id, event) => call("DELETE", `${user(id)}/feedback/${encodeURIComponent(event)}`),
  user: (id) => call("GET", user(id)),
  beliefs: (id, top, popular) => call("GET", `${user(id)}/beliefs?top=${top}&popular=${popular}`),
  explain: (id, item) => call("GET", `${user(id)}/explanations/${encodeURIComponent(item)}`),
  forget: (id) => call("DELETE", user(id)),
  stats: () => call("GET", "/v1/stats"),
};
