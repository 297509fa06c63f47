// Small charts over time for the dashboard: one thing each, labelled where the line ends.

import { el, svg } from "./dom.js";

const W = 320, H = 132, LEFT = 34, RIGHT = 8, TOP = 10, BOTTOM = 20;

/**
 * @typedef {object} Line
 * @property {string} name
 * @property {string} kind
 * @property {(number | null)[]} values
 */

/**
 * A figure with a heading that says the newest value in words.
 * @param {string} title
 * @param {string} now
 * @param {Line[]} lines
 * @param {{ bars?: boolean, from: string, percent?: boolean }} options
 */
export function timeChart(title, now, lines, { bars = false, from, percent = false }) {
  const all = lines.flatMap((line) => line.values).filter((value) => value !== null);
  const most = percent ? 1 : Math.max(1, ...all) * 1.08;
  const n = Math.max(1, ...lines.map((line) => line.values.length));
  /** @param {number} i */
  const x = (i) => LEFT + ((i + 0.5) / n) * (W - LEFT - RIGHT);
  /** @param {number} value */
  const y = (value) => H - BOTTOM - (value / most) * (H - BOTTOM - TOP);
  /** @param {number} value */
  const text = (value) => (percent ? `${Math.round(100 * value)} %` : value >= 1000 ? `${Number((value / 1000).toPrecision(2))}k` : String(Number(value.toPrecision(2))));
  const ticks = percent ? [0, 0.5, 1] : [0, most / 1.08];
  const label = `${title}: ${now}. ${all.length ? "" : "Nothing yet."}`;
  return el("figure", { class: "series" },
    el("figcaption", null, el("b", null, title), el("span", { class: "number" }, now)),
    svg("svg", { class: "chart", viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": label },
      ticks.map((value) => [
        svg("line", { class: "grid", x1: LEFT, x2: W - RIGHT, y1: y(value), y2: y(value) }),
        svg("text", { x: LEFT - 5, y: y(value) + 4, "text-anchor": "end" }, text(value))]),
      svg("text", { x: LEFT, y: H - 4 }, from),
      svg("text", { x: W - RIGHT, y: H - 4, "text-anchor": "end" }, "now"),
      lines.map(({ kind, values, name }) => (bars
        ? values.map((value, i) => value ? svg("rect", { class: kind, x: x(i) - (0.4 * (W - LEFT - RIGHT)) / n, width: (0.8 * (W - LEFT - RIGHT)) / n, y: y(value), height: y(0) - y(value) }) : null)
        : [svg("path", { class: kind, d: path(values, x, y) }), mark(values, x, y, name, kind, isLowest(values, lines))]))));
}

/**
 * @param {(number | null)[]} values
 * @param {(i: number) => number} x
 * @param {(value: number) => number} y
 */
function path(values, x, y) {
  let isOpen = false;
  return values.map((value, i) => {
    if (value === null) return "";
    const step = `${isOpen ? "L" : "M"}${x(i).toFixed(1)} ${y(value).toFixed(1)}`;
    isOpen = true;
    return step;
  }).join("");
}

/**
 * Whether a line ends below all others, so that its name has room below its end.
 * @param {(number | null)[]} values
 * @param {Line[]} lines
 */
function isLowest(values, lines) {
  const end = (/** @type {(number | null)[]} */ of) => of.findLast((value) => value !== null) ?? 0;
  return lines.length > 1 && lines.every((line) => line.values === values || end(line.values) > end(values));
}

/**
 * The name of a line beside its last point.
 * @param {(number | null)[]} values
 * @param {(i: number) => number} x
 * @param {(value: number) => number} y
 * @param {string} name
 * @param {string} kind
 * @param {boolean} isBelow
 */
function mark(values, x, y, name, kind, isBelow) {
  const at = values.findLastIndex((value) => value !== null);
  const value = at < 0 ? null : values[at];
  if (value === null || value === undefined) return null;
  const isRight = x(at) > W / 2;
  return [
    svg("circle", { class: kind, cx: x(at), cy: y(value), r: 3 }),
    name && svg("text", { class: "direct", x: x(at) + (isRight ? -6 : 6), y: isBelow && y(value) < H - BOTTOM - 14 ? y(value) + 15 : Math.max(TOP + 2, y(value) - 6), "text-anchor": isRight ? "end" : "start" }, name),
  ];
}
