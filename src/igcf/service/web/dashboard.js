// The operator's dashboard: asks for the figures every few seconds and draws them.

import { AwayError, api, setKey } from "./api.js";
import { byId, el } from "./dom.js";
import { setUpTheme } from "./theme.js";

const PERIOD_MS = 5_000;

let isPaused = false;
let timer = 0;

/** @param {number | null | undefined} n */
const count = (n) => (n ?? 0).toLocaleString("en");
/** @param {number} bytes */
const size = (bytes) => (bytes > 1e6 ? `${(bytes / 1e6).toFixed(1)} MB` : `${count(Math.round((bytes ?? 0) / 1e3))} kB`);

/** @param {number} seconds */
function duration(seconds) {
  /** @type {[string, number][]} */
  const units = [["day", 86_400], ["h", 3_600], ["min", 60]];
  const [unit, length] = units.find(([, least]) => seconds >= least) ?? ["s", 1];
  const n = Math.floor(seconds / length);
  return `${n} ${unit}${unit === "day" && n !== 1 ? "s" : ""}`;
}

/**
 * @param {string} name
 * @param {string} value
 * @param {string} more
 */
function tile(name, value, more) {
  return el("div", { class: "tile" }, el("dt", null, name), el("dd", null, value, more && el("small", null, more)));
}

/**
 * A table; a column is [heading, cell(row), "number" | undefined], the first one names the row.
 * @template T
 * @param {string} caption
 * @param {[string, (row: T) => Child, string?][]} columns
 * @param {T[]} rows
 */
function table(caption, columns, rows) {
  if (!rows.length) return el("p", { class: "muted" }, "Nothing yet.");
  return el("table", null,
    el("caption", { class: "visually-hidden" }, caption),
    el("thead", null, el("tr", null, columns.map(([heading, , kind]) =>
      el("th", { scope: "col", class: kind }, heading)))),
    el("tbody", null, rows.map((row) => el("tr", null, columns.map(([, cell, kind], i) =>
      (i ? el("td", { class: kind }, cell(row)) : el("th", { scope: "row" }, cell(row))))))));
}

/**
 * Nested metadata as "data.users" -> "1200".
 * @param {any} value
 * @returns {[string, string][]}
 */
function flat(value, name = "") {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return [[name, plain(value)]];
  return Object.entries(value).flatMap(([key, inner]) => flat(inner, name ? `${name}.${key}` : key));
}

/** @param {unknown} value */
const plain = (value) => (typeof value === "number" ? String(Number.isInteger(value) ? value : Number(value.toPrecision(6))) : typeof value === "string" ? value : JSON.stringify(value) ?? "–");

/** @param {[string, string][]} pairs */
function facts(pairs) {
  return el("dl", { class: "facts" }, pairs.map(([name, value]) => el("div", null, el("dt", null, name), el("dd", null, value))));
}

/** @param {Api.Stats} stats */
function draw(stats) {
  const { model, store } = stats;
  byId("served").textContent = `Model ${model.model}: ${count(model.items)} items, ${model.dim} dimensions`;
  byId("tiles").replaceChildren(
    tile("Users", count(store.users), ""),
    tile("Reactions", count(store.reactions), `${count(store.retracted)} taken back`),
    tile("Answers", count(store.recommendations), "in the audit"));

  /** @param {{ item: string, title: string | null }} each */
  const name = (each) => each.title ?? each.item;
  byId("changes").replaceChildren(table("Items that came, changed or went", [
    ["Item", name],
    ["State", (each) => each.new?.settled ? `${each.state}, settled` : each.state, "number"],
    ["Tried out", (each) => each.new ? `${count(each.new.trials)} times` : "–", "number"],
    ["Estimate", (each) => each.new ? `${each.new.expected.toFixed(2)} ± ${each.new.std.toFixed(2)}` : "–", "number"],
    ["Hits", (each) => `${count(each.hits)} of ${count(each.reactions)}`, "number"],
    ["Since", (each) => ago(each.time), "number"],
  ], stats.catalogue_changes));
  for (const [id, rows] of /** @type {[string, unknown[]][]} */ ([["changes", stats.catalogue_changes], ["generations", stats.generations], ["experiment", stats.experiment?.arms ?? []]])) {
    /** @type {HTMLElement} */ (byId(id).closest(".panel")).hidden = !rows.length;
  }
  byId("generations").replaceChildren(table("Models that were announced", [
    ["Model", (each) => each.model],
    ["Generation", (each) => count(each.generation), "number"],
    ["Since", (each) => ago(each.time), "number"],
  ], stats.generations));

  const { experiment } = stats;
  byId("experiment-name").textContent = !experiment ? "" : experiment.state === "planned" ? `${experiment.name}, planned` : `${experiment.name}, started ${ago(experiment.started)}`;
  byId("experiment").replaceChildren(table("Arms", [
    ["Arm", (each) => each.arm],
    ["Share", (each) => `${(100 * each.share).toFixed(1)} %`, "number"],
    ["Model", (each) => each.model],
  ], experiment?.arms ?? []));

  byId("store").replaceChildren(facts([
    ["Kind", store.kind], ["Schema", String(store.schema)], ["Size", size(store.bytes)],
  ]));
  const { reward, metadata: { settings = {}, ...rest } } = model;
  byId("model").replaceChildren(facts([
    ["Model", model.model], ["Loaded models so far", String(model.generation)], ["Reward", `${reward.kind}, a hit from ${reward.threshold} (${reward.low} to ${reward.high})`],
    ["Forgetting", String(model.forgetting)], ...flat(rest),
  ]));
  byId("settings").replaceChildren(facts(flat(settings)));
  byId("when").textContent = `as of ${new Date().toLocaleTimeString()}`;
}

/** @param {number} time */
const ago = (time) => `${duration(Math.max(0, Date.now() / 1000 - time))} ago`;

/** @param {string} text */
function notice(text) {
  byId("notice").className = "notice away";
  byId("notice").hidden = !text;
  byId("notice").textContent = text;
}

async function refresh() {
  clearTimeout(timer);
  try {
    draw(await api.stats());
    notice("");
    byId("figures").hidden = false;
    byId("key-form").hidden = true;
  } catch (error) {
    if (error.status === 401 || error.status === 403) {
      byId("key-form").hidden = false;
      byId("figures").hidden = true;
      notice(sessionStorage.getItem("igcf.key") ? "This key does not open the dashboard." : "");
      return;
    }
    notice(error instanceof AwayError ? "The server cannot be reached. These are the last figures; trying again." : `No figures: ${error.message}`);
  }
  if (!isPaused) timer = setTimeout(refresh, PERIOD_MS);
}

byId("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  setKey(byId("key").value.trim());
  byId("key").value = "";
  refresh();
});
byId("pause").addEventListener("click", () => {
  isPaused = !isPaused;
  byId("pause").setAttribute("aria-pressed", String(isPaused));
  byId("pause").textContent = isPaused ? "Go on" : "Pause";
  refresh();
});
setUpTheme();
refresh();
