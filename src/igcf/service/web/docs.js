// The HTTP API, drawn from the OpenAPI document of this server.

import { byId, el } from "./dom.js";
import { setUpTheme } from "./theme.js";

/** @typedef {Record<string, any>} Json */

/**
 * A type in words; names of schemas lead to their tables.
 * @param {Json} schema
 * @returns {Child[]}
 */
function typeOf(schema) {
  if (schema.$ref) {
    const name = schema.$ref.split("/").pop();
    return [el("a", { href: `#${name}` }, name)];
  }
  if (schema.anyOf) return schema.anyOf.flatMap((/** @type {Json} */ each, /** @type {number} */ n) => (n ? [" or ", ...typeOf(each)] : typeOf(each)));
  if (schema.enum) return [schema.enum.map((/** @type {unknown} */ each) => JSON.stringify(each)).join(", ")];
  if (schema.const !== undefined) return [JSON.stringify(schema.const)];
  if (schema.type === "array") return ["list of ", ...typeOf(schema.items ?? {})];
  const bounds = [
    schema.minimum !== undefined && `from ${schema.minimum}`,
    schema.maximum !== undefined && `to ${schema.maximum}`,
    schema.maxLength !== undefined && `at most ${schema.maxLength} characters`,
  ].filter(Boolean);
  return [[schema.type ?? "anything", ...bounds].join(" ")];
}

/**
 * @param {string[]} head
 * @param {Child[][]} rows
 */
function table(head, rows) {
  return el("table", null, el("thead", null, el("tr", null, head.map((name) => el("th", null, name)))),
    el("tbody", null, rows.map((row) => el("tr", null, row.map((cell) => el("td", null, cell))))));
}

/** @param {Json} schema */
function fields(schema) {
  const required = schema.required ?? [];
  return table(["field", "type", ""], Object.entries(schema.properties ?? {}).map(([name, each]) => [
    el("code", null, name, required.includes(name) ? "" : "?"), typeOf(each),
    `${each.description ?? ""}${each.default === undefined || each.default === null ? "" : ` Default ${JSON.stringify(each.default)}.`}`,
  ]));
}

/**
 * @param {string} method
 * @param {string} path
 * @param {Json} operation
 */
function example(method, path, operation) {
  const needsKey = (operation.security ?? [{}]).every((/** @type {Json} */ each) => Object.keys(each).length > 0);
  const parts = [`curl -X ${method.toUpperCase()} '${location.origin}${path}'`];
  if (needsKey) parts.push("-H \"Authorization: Bearer $KEY\"");
  if (operation.requestBody) parts.push("-H 'content-type: application/json' -d '{...}'");
  return el("pre", { tabindex: "0" }, parts.join(" \\\n  "));
}

/**
 * @param {string} path
 * @param {string} method
 * @param {Json} operation
 */
function route(path, method, operation) {
  const body = operation.requestBody?.content?.["application/json"]?.schema;
  const answer = operation.responses?.["200"]?.content?.["application/json"]?.schema;
  const parameters = operation.parameters ?? [];
  return el("details", { id: operation.operationId },
    el("summary", null, el("code", { class: "method" }, method.toUpperCase()), el("code", null, path), " ", el("span", { class: "muted" }, operation.description ?? operation.summary)),
    parameters.length > 0 && table(["parameter", "in", "type", ""], parameters.map((/** @type {Json} */ each) => [
      el("code", null, each.name), each.in, typeOf(each.schema ?? {}), each.description ?? ""])),
    body && el("p", null, "Body: ", typeOf(body)),
    answer && Object.keys(answer).length > 0 && el("p", null, "Answer: ", typeOf(answer)),
    el("p", { class: "muted" }, `Statuses: ${Object.keys(operation.responses ?? {}).join(", ")}`),
    example(method, path, operation));
}

/** Open what the address names. */
function openNamed() {
  const named = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (named instanceof HTMLDetailsElement) {
    named.open = true;
    named.scrollIntoView();
  }
}

async function start() {
  setUpTheme();
  const notice = byId("notice");
  try {
    const response = await fetch("/openapi.json");
    if (!response.ok) throw new Error(`the server answered ${response.status}`);
    /** @type {Json} */
    const found = await response.json();
    byId("version").textContent = `version ${found.info.version}`;
    for (const [path, methods] of Object.entries(found.paths)) {
      for (const [method, operation] of Object.entries(methods)) byId("routes").append(route(path, method, operation));
    }
    for (const [name, schema] of Object.entries(found.components.schemas)) {
      byId("schemas").append(el("details", { id: name }, el("summary", null, el("code", null, name)), el("p", null, schema.description ?? ""), fields(schema)));
    }
    byId("schemas").hidden = false;
    notice.hidden = true;
    addEventListener("hashchange", openNamed);
    openNamed();
  } catch (error) {
    notice.textContent = `The document could not be read: ${error.message}`;
  }
}

start();
