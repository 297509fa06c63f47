// The HTTP API of the service, and the two ways in which a call can fail.

const KEY = "igcf.key";
const PATIENCE_MS = 10_000;
const BUSY = new Set([408, 429, 502, 503, 504]);

/** The server cannot be reached or has no time: try again later. */
export class Away extends Error {}

/** The server understood and said no; `status` and `kind` tell why. */
export class Refused extends Error {
  /**
   * @param {number} status
   * @param {string} kind
   * @param {string} message
   */
  constructor(status, kind, message) {
    super(message);
    this.status = status;
    this.kind = kind;
  }
}

/** Whether this server asks for keys, as far as this tab knows. */
export const hasKey = () => sessionStorage.getItem(KEY) !== null;

/** @param {string} key */
export const setKey = (key) => sessionStorage.setItem(KEY, key);

/**
 * @param {string} method
 * @param {string} path
 * @param {object} [body]
 * @returns {Promise<any>}
 */
export async function call(method, path, body) {
  const key = sessionStorage.getItem(KEY);
  /** @type {Record<string, string>} */
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

/** @param {string} id */
const user = (id) => `/v1/users/${encodeURIComponent(id)}`;

/** @param {string} id */
const page = (id) => `/page/users/${encodeURIComponent(id)}`;

/** @param {object} fields */
function query(fields) {
  const pairs = Object.entries(fields).flatMap(([name, value]) => (Array.isArray(value) ? value : [value]).map((each) => [name, each]));
  return new URLSearchParams(pairs.filter(([, value]) => value !== undefined && value !== null));
}

export const api = {
  /** @type {() => Promise<Api.ModelInfo>} */
  model: () => call("GET", "/v1/model"),
  /** @type {(after: string | null, limit: number) => Promise<Api.CataloguePage>} */
  items: (after, limit) => call("GET", `/v1/items?${query({ after, limit })}`),
  /** @type {(id: string) => Promise<Api.CatalogueItem>} */
  item: (id) => call("GET", `/v1/items/${encodeURIComponent(id)}`),
  /** @type {(item: object) => Promise<Api.ItemsStored>} */
  addItem: (item) => call("POST", "/v1/items", { items: [item] }),
  /** @type {(id: string, ask: Api.RecommendationRequest) => Promise<Api.RecommendationResponse>} */
  recommend: (id, ask) => call("POST", `${user(id)}/recommendations`, ask),
  /** @type {(id: string, reaction: Api.Feedback) => Promise<Api.FeedbackReceipt>} */
  react: (id, reaction) => call("POST", `${user(id)}/feedback`, reaction),
  /** @type {(id: string, event: string) => Promise<Api.UndoResponse>} */
  retract: (id, event) => call("DELETE", `${user(id)}/feedback/${encodeURIComponent(event)}`),
  /** @type {(id: string) => Promise<Api.UserState>} */
  user: (id) => call("GET", user(id)),
  /** @type {(id: string, top: number, popular: number) => Promise<Api.Beliefs>} */
  beliefs: (id, top, popular) => call("GET", `${page(id)}/beliefs?top=${top}&popular=${popular}`),
  /** @type {(id: string, item: string) => Promise<Api.ExplanationResponse>} */
  explain: (id, item) => call("GET", `${user(id)}/explanations/${encodeURIComponent(item)}`),
  /** @type {(id: string, ask: ChoicesAsk) => Promise<Api.Choices>} */
  choices: (id, ask) => call("GET", `${page(id)}/choices?${query(ask)}`),
  /** @type {(k: number) => Promise<Api.StartingItems>} */
  start: (k) => call("GET", `/page/start?k=${k}`),
  /** @type {(id: string) => Promise<Api.DeletionResponse>} */
  forget: (id) => call("DELETE", user(id)),
  /** @type {() => Promise<Api.Stats>} */
  stats: () => call("GET", "/page/stats"),
};
