// Building elements. Text is always set as text, never as markup: a title is only ever a title.

const SVG = "http://www.w3.org/2000/svg";

/**
 * @template {Element} E
 * @param {E} element
 * @param {Attributes | undefined} attributes
 * @param {Child[]} children
 * @returns {E}
 */
function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  const given = /** @type {unknown[]} */ (/** @type {any[]} */ (children).flat(Infinity)).filter((child) => child !== null && child !== undefined && child !== false);
  element.append(.../** @type {(string | Node)[]} */ (given));
  return element;
}

/** @type {<K extends keyof HTMLElementTagNameMap>(tag: K, attributes?: Attributes, ...children: Child[]) => HTMLElementTagNameMap[K]} */
export const el = (tag, attributes, ...children) => filled(document.createElement(tag), attributes, children);
/** @type {<K extends keyof SVGElementTagNameMap>(tag: K, attributes?: Attributes, ...children: Child[]) => SVGElementTagNameMap[K]} */
export const svg = (tag, attributes, ...children) => filled(document.createElementNS(SVG, tag), attributes, children);
/** @type {<K extends string>(id: K) => K extends keyof PageElements ? PageElements[K] : HTMLElement} */
export const byId = (id) => /** @type {any} */ (document.getElementById(id));

/**
 * A colour of the style sheet as the browser computes it, for a canvas.
 * @param {string} name
 */
export function colour(name) {
  const probe = el("i");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

/**
 * Call `listener` with the details of each event.
 * @param {EventTarget} target
 * @param {string} name
 * @param {(detail: any) => void} listener
 */
export const on = (target, name, listener) => target.addEventListener(name, (event) => listener(/** @type {CustomEvent} */ (event).detail));

export const isStill = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
/** @param {number} ms */
export const wait = (ms) => new Promise((done) => setTimeout(done, ms));
