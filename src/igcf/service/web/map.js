// The catalogue in its two principal directions, and the belief about the visitor as an ellipse on it.

import { hueOf } from "./cover.js";
import { colour, isStill } from "./dom.js";

const MOVE_MS = 350;
/** @type {MapEllipse} */
const START = { mean: [0, 0], cov: [[1, 0], [0, 1]] };
/** @type {Box} */
const CIRCLE = [-1.15, 1.15, -1.15, 1.15];
const NEAR_PX = 14;

/**
 * Half axes and direction of the ellipse of a 2 x 2 covariance.
 * @param {MapEllipse["cov"]} cov
 * @returns {[number, number, number]}
 */
export function axesOf([[a, b], [, d]]) {
  const middle = (a + d) / 2;
  const spread = Math.hypot((a - d) / 2, b);
  return [Math.sqrt(Math.max(middle + spread, 0)), Math.sqrt(Math.max(middle - spread, 0)), Math.atan2(2 * b, a - d) / 2];
}

/**
 * How much of the population's area an ellipse still covers; the population's is 1.
 * @param {MapEllipse["cov"]} cov
 */
export const areaOf = (cov) => axesOf(cov)[0] * axesOf(cov)[1];

/** @type {(from: any, to: any, share: number) => any} */
const blend = (from, to, share) => (Array.isArray(from) ? from.map((each, i) => blend(each, to[i], share)) : from + (to - from) * share);

/** @type {(a: Box, b: Box) => Box} */
const union = (a, b) => /** @type {Box} */ (a.map((end, i) => (i % 2 ? Math.max(end, b[i]) : Math.min(end, b[i]))));

export class CatalogueMap {
  width = 0;
  height = 0;
  scale = 1;
  /** @type {Api.CatalogueItem[]} */
  items = [];
  /** @type {number[]} */
  hues = [];
  /** @type {Map<string, Api.CatalogueItem>} */
  place = new Map();
  /** @type {Map<string, Mark>} */
  marks = new Map();
  reach = CIRCLE;
  /** @type {string | undefined} */
  now = undefined;
  shown = START;
  target = START;
  trail = [START.mean];
  view = CIRCLE;

  /** @param {HTMLElement} place */
  constructor(place) {
    this.canvas = /** @type {HTMLCanvasElement} */ (place.querySelector("canvas"));
    this.tip = /** @type {HTMLElement} */ (place.querySelector(".tip"));
    this.reset();
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    this.canvas.addEventListener("pointermove", (event) => this.#point(event));
    this.canvas.addEventListener("pointerleave", () => { this.tip.hidden = true; });
  }

  reset() {
    this.shown = this.target = START;
    this.trail = [START.mean];
    this.view = this.#viewOf(START);
    this.draw();
  }

  /** @param {Api.CatalogueItem[]} items */
  setItems(items) {
    this.items = items;
    this.hues = items.map((item) => hueOf(item.categories));
    this.place = new Map(items.map((item) => [item.item, item]));
    /** @param {"x" | "y"} name */
    const sorted = (name) => items.map((item) => item[name]).sort((a, b) => a - b);
    /** @type {(numbers: number[]) => Point} */
    const ends = (numbers) => [numbers[Math.floor(numbers.length * 0.01)], numbers[Math.floor(numbers.length * 0.99)]];
    this.reach = items.length ? union(CIRCLE, [...ends(sorted("x")), ...ends(sorted("y"))]) : CIRCLE;
    this.view = this.#viewOf(this.target);
    this.draw();
  }

  /**
   * `marks`: item -> "liked" | "disliked" | "skipped"; `now`: the item on the stage.
   * @param {MapEllipse} belief
   * @param {Map<string, Mark>} marks
   * @param {string} [now]
   */
  setBelief(belief, marks, now) {
    this.marks = marks;
    this.now = now;
    const from = this.shown, fromView = this.view, toView = this.#viewOf(belief), began = performance.now();
    if (JSON.stringify(belief) === JSON.stringify(this.target)) return this.draw();
    this.target = belief;
    this.trail.push(belief.mean);
    /** @param {number} time */
    const step = (time) => {
      if (this.target !== belief) return;
      const share = isStill() ? 1 : Math.min(1, Math.max(0, (time - began) / MOVE_MS));
      const eased = 1 - (1 - share) ** 3;
      this.shown = { mean: blend(from.mean, belief.mean, eased), cov: blend(from.cov, belief.cov, eased) };
      this.view = blend(fromView, toView, eased);
      this.draw();
      if (share < 1) requestAnimationFrame(step);
    };
    step(began);
  }

  /**
   * What must be seen: the items, everybody, and the belief wherever it has gone.
   * @param {MapEllipse} belief
   * @returns {Box}
   */
  #viewOf({ mean: [x, y], cov: [[a], [, d]] }) {
    const wide = 2.1 * Math.sqrt(a), high = 2.1 * Math.sqrt(d);
    return union(this.reach, [x - wide, x + wide, y - high, y + high]);
  }

  /**
   * @param {number} x
   * @param {number} y
   * @returns {Point}
   */
  #at(x, y) {
    const [left, right, bottom, top] = this.view;
    return [this.width / 2 + (x - (left + right) / 2) * this.scale, this.height / 2 - (y - (bottom + top) / 2) * this.scale];
  }

  draw() {
    const { canvas } = this, ratio = devicePixelRatio || 1;
    this.width = canvas.clientWidth;
    this.height = canvas.clientHeight;
    if (!this.width) return;
    canvas.width = this.width * ratio;
    canvas.height = this.height * ratio;
    const [left, right, bottom, top] = this.view;
    this.scale = 0.95 * Math.min(this.width / (right - left), this.height / (top - bottom));
    const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.#drawItems(pen);
    this.#drawBelief(pen);
    this.#drawMarks(pen);
  }

  /** @param {CanvasRenderingContext2D} pen */
  #drawItems(pen) {
    const isDark = colour("--paper") === "rgb(19, 17, 28)";
    const size = this.items.length > 1500 ? 1.5 : 2.1;
    pen.globalAlpha = isDark ? 0.6 : 0.5;
    this.items.forEach((item, i) => {
      const [x, y] = this.#at(item.x, item.y);
      pen.fillStyle = `hsl(${this.hues[i]} 55% ${isDark ? 66 : 48}%)`;
      pen.beginPath();
      pen.arc(x, y, size, 0, 7);
      pen.fill();
    });
    pen.globalAlpha = 1;
  }

  /** @param {CanvasRenderingContext2D} pen */
  #drawBelief(pen) {
    const accent = colour("--accent"), muted = colour("--muted");
    this.#ellipse(pen, START, 1);
    pen.setLineDash([4, 4]);
    pen.strokeStyle = muted;
    pen.lineWidth = 1.2;
    pen.stroke();
    pen.setLineDash([]);
    pen.fillStyle = muted;
    pen.font = `12px ${getComputedStyle(this.canvas).fontFamily}`;
    const [x, y] = this.#at(0, -1);
    pen.lineWidth = 3;
    pen.strokeStyle = colour("--panel");
    pen.strokeText("everybody", x - 28, y + 14);
    pen.fillText("everybody", x - 28, y + 14);
    pen.strokeStyle = pen.fillStyle = accent;
    pen.globalAlpha = 0.5;
    pen.beginPath();
    for (const point of this.trail) pen.lineTo(...this.#at(...point));
    pen.stroke();
    for (const [stds, alpha] of [[2, 0.1], [1, 0.22]]) {
      this.#ellipse(pen, this.shown, stds);
      pen.globalAlpha = alpha;
      pen.fill();
      pen.globalAlpha = stds === 1 ? 1 : 0.45;
      pen.lineWidth = stds === 1 ? 2.2 : 1;
      pen.stroke();
    }
    pen.globalAlpha = 1;
    pen.beginPath();
    pen.arc(...this.#at(...this.shown.mean), 3.5, 0, 7);
    pen.fill();
  }

  /**
   * @param {CanvasRenderingContext2D} pen
   * @param {MapEllipse} belief
   * @param {number} stds
   */
  #ellipse(pen, { mean, cov }, stds) {
    const [long, short, angle] = axesOf(cov);
    pen.beginPath();
    pen.ellipse(...this.#at(...mean), Math.max(long * stds * this.scale, 1), Math.max(short * stds * this.scale, 1), -angle, 0, 7);
  }

  /** @param {CanvasRenderingContext2D} pen */
  #drawMarks(pen) {
    const good = colour("--good"), bad = colour("--bad"), now = colour("--learn"), paper = colour("--panel");
    pen.strokeStyle = paper;
    pen.lineWidth = 1.5;
    /** @type {(item: string, fill: string, path: (x: number, y: number) => void) => void} */
    const shape = (item, fill, path) => {
      const found = this.place.get(item);
      if (!found) return;
      pen.fillStyle = fill;
      pen.beginPath();
      path(...this.#at(found.x, found.y));
      pen.fill();
      pen.stroke();
    };
    for (const [item, mark] of this.marks) {
      if (mark === "liked") shape(item, good, (x, y) => pen.arc(x, y, 5, 0, 7));
      else if (mark === "disliked") shape(item, bad, (x, y) => pen.rect(x - 4, y - 4, 8, 8));
    }
    if (this.now) {
      shape(this.now, now, (x, y) => { pen.moveTo(x, y - 8); pen.lineTo(x + 8, y); pen.lineTo(x, y + 8); pen.lineTo(x - 8, y); pen.closePath(); });
    }
  }

  /** @param {PointerEvent} event */
  #point(event) {
    const box = this.canvas.getBoundingClientRect();
    const mx = event.clientX - box.left, my = event.clientY - box.top;
    let best = /** @type {Api.CatalogueItem | null} */ (null), least = NEAR_PX;
    for (const item of this.items) {
      const [x, y] = this.#at(item.x, item.y);
      const far = Math.hypot(x - mx, y - my);
      if (far < least) {
        best = item;
        least = far;
      }
    }
    this.tip.hidden = !best;
    if (!best) return;
    this.tip.textContent = best.title ?? best.item;
    const [x, y] = this.#at(best.x, best.y);
    this.tip.style.left = `${Math.min(Math.max(x, 70), this.width - 70)}px`;
    this.tip.style.top = `${Math.max(y, 30)}px`;
  }
}
