// The map: named regions of the catalogue, shaded while they are unexplored, and the visitor's way so far.

import { colour, el, isStill } from "./dom.js";
import { affinity, explored, grouped, layOut, seeds, standing } from "./regions.js";
import { plural, titleAndYear } from "./values.js";

const MOVE_MS = 350;
const STEP_MS = 260;
const NEAR_PX = 12;
const DENSEST = 0.34; // shade of a region that nothing is known about
const CLEAR = 0.3; // share of the unknown that is shown as nothing
/** @type {Record<string, string>} */
const SIGNS = { liked: "♥ ", less: "✕ ", unsure: "" };

/** @type {(from: Point, to: Point, share: number) => Point} */
const blend = (from, to, share) => [from[0] + (to[0] - from[0]) * share, from[1] + (to[1] - from[1]) * share];

export class CatalogueMap {
  /** @type {Api.CatalogueItem[]} */
  items = [];
  /** @type {Region[]} */
  regions = [];
  /** @type {Map<string, Point>} */
  place = new Map();
  /** @type {Map<string, Mark>} */
  marks = new Map();
  /** @type {Map<string, Api.CatalogueItem[]>} */
  groups = new Map();
  /** @type {Map<string, string>} */
  regionOf = new Map();
  /** @type {Map<string, Api.GroupTaste>} */
  tastes = new Map();
  unknown = 1; // of regions that nothing is known about
  /** @type {Map<string, number>[]} */
  way = [];
  /** @type {string | undefined} */
  now = undefined;
  /** @type {Point} */
  you = [0, 0];
  size = "";
  moving = 0;

  /**
   * @param {HTMLElement} place
   * @param {HTMLElement} tip
   * @param {(item: string) => void} ask
   */
  constructor(place, tip, ask) {
    this.canvas = /** @type {HTMLCanvasElement} */ (place.querySelector("canvas"));
    this.labels = /** @type {HTMLElement} */ (place.querySelector(".regions"));
    this.here = /** @type {HTMLElement} */ (place.querySelector(".here")); // above the names of the regions
    this.tip = tip;
    new ResizeObserver(() => this.#fit()).observe(this.canvas);
    place.addEventListener("pointermove", (event) => this.#describe(this.#at(event)));
    place.addEventListener("pointerleave", () => this.#describe(null));
    this.canvas.addEventListener("click", (event) => {
      const found = this.#at(event);
      this.#describe(found);
      if (found) ask(found.item);
    });
    this.labels.addEventListener("keydown", (event) => this.#rove(event));
  }

  reset() {
    this.way = [];
    this.marks = new Map();
    this.tastes = new Map();
    this.unknown = 1;
    this.now = undefined;
    this.#settle();
  }

  /**
   * @param {Api.CatalogueItem[]} items
   * @param {Api.Region[]} clusters of a catalogue without categories
   */
  setItems(items, clusters) {
    this.items = items;
    this.groups = grouped(items, clusters);
    this.regionOf = new Map([...this.groups].flatMap(([name, own]) => own.map(({ item }) => [item, name])));
    this.size = "";
    this.#fit();
  }

  /**
   * @param {{ taste: Api.Taste, marks: Map<string, Mark>, now?: string, way: Map<string, number>[] }} view
   */
  setView({ taste, marks, now, way }) {
    this.tastes = new Map(taste.groups.map((each) => [each.name, each]));
    this.unknown = taste.unknown;
    this.marks = marks;
    this.now = now;
    this.way = way;
    this.#drawLabels();
    this.#move([this.you, this.#standing()], MOVE_MS);
  }

  /** Walk the way so far once more. */
  replay() {
    this.#move([...this.way.map((step) => standing(this.regions, step)), this.#standing()], STEP_MS);
  }

  /**
   * @param {Point[]} points
   * @param {number} ms for each step
   */
  #move(points, ms) {
    const mine = ++this.moving, began = performance.now();
    /** @param {number} time */
    const step = (time) => {
      if (mine !== this.moving) return;
      const far = Math.max(0, time - began) / ms, i = Math.min(Math.floor(far), points.length - 2);
      const isThere = isStill() && ms === MOVE_MS || far >= points.length - 1;
      const share = isThere ? 1 : isStill() ? 0 : far - i;
      this.you = isThere || points.length < 2 ? points[points.length - 1] : blend(points[i], points[i + 1], 1 - (1 - share) ** 2);
      this.draw();
      if (!isThere && points.length > 1) requestAnimationFrame(step);
    };
    step(began);
  }

  #standing() {
    return standing(this.regions, new Map([...this.tastes].map(([name, each]) => [name, affinity(each)])));
  }

  #settle() {
    this.moving += 1;
    this.you = this.#standing();
    this.#drawLabels();
    this.draw();
  }

  #fit() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const size = `${width} ${height}`;
    if (!width || size === this.size) return this.draw();
    this.size = size;
    this.regions = layOut(this.groups, width, height);
    this.place = new Map(this.regions.flatMap(seeds));
    this.#settle();
  }

  #drawLabels() {
    const focused = document.activeElement;
    const old = new Map(/** @type {HTMLElement[]} */ ([...this.labels.children]).map((label) => [label.dataset.name, label]));
    this.labels.replaceChildren(...this.regions.map((region, i) => {
      const { name, x, y, r } = region, taste = this.tastes.get(name);
      const label = old.get(name) ?? el("button", { type: "button", class: "region", "data-name": name, dir: "auto" });
      label.className = `region ${taste?.standing ?? "unsure"}`;
      label.textContent = `${SIGNS[taste?.standing ?? "unsure"]}${name}`;
      label.setAttribute("aria-label", this.#wordsOf(region));
      label.tabIndex = i ? -1 : 0;
      label.onfocus = label.onpointerenter = label.onclick = () => { this.tip.textContent = this.#wordsOf(region); };
      Object.assign(label.style, { left: `${x}px`, top: `${y - 0.66 * r}px`, maxWidth: `${Math.max(96, 2 * r + 14)}px` });
      return label;
    }));
    if (focused instanceof HTMLElement && this.labels.contains(focused)) focused.focus();
  }

  /** @param {Region} region */
  #wordsOf({ name, items }) {
    const taste = this.tastes.get(name);
    const said = taste && taste.hits + taste.misses ? ` You liked ${taste.hits} of ${plural(taste.hits + taste.misses, "card")}.` : "";
    const stands = { liked: "liked more than others", less: "liked less than others", unsure: "not sure yet" }[taste?.standing ?? "unsure"];
    return `${name}: ${stands}. ${plural(items.length, "item")}, ${explored(taste?.unknown ?? this.unknown)}.${said}`;
  }

  /** @param {KeyboardEvent} event */
  #rove(event) {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    const labels = /** @type {HTMLElement[]} */ ([...this.labels.children]);
    const at = labels.indexOf(/** @type {HTMLElement} */ (event.target));
    const next = labels[(at + step + labels.length) % labels.length];
    for (const label of labels) label.tabIndex = label === next ? 0 : -1;
    next.focus();
    event.preventDefault();
    event.stopPropagation();
  }

  draw() {
    const { canvas } = this, ratio = devicePixelRatio || 1;
    const { clientWidth: width, clientHeight: height } = canvas;
    if (!width) return;
    if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
    if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
    const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    this.#drawRegions(pen);
    this.#drawItems(pen);
    this.#drawMarks(pen);
    this.#drawYou(pen);
  }

  /** @param {CanvasRenderingContext2D} pen */
  #drawRegions(pen) {
    const fills = { liked: colour("--more"), less: colour("--fewer"), unsure: colour("--edge") }, fog = colour("--accent");
    for (const { name, x, y, r } of this.regions) {
      const stands = this.tastes.get(name)?.standing ?? "unsure";
      pen.beginPath();
      pen.arc(x, y, r, 0, 7);
      pen.fillStyle = fog;
      pen.globalAlpha = DENSEST * Math.max(0, (this.tastes.get(name)?.unknown ?? this.unknown) - CLEAR) / (1 - CLEAR);
      pen.fill();
      pen.fillStyle = pen.strokeStyle = fills[stands];
      pen.globalAlpha = stands === "unsure" ? 0.1 : 0.2;
      pen.fill();
      pen.globalAlpha = stands === "unsure" ? 0.45 : 0.95;
      pen.setLineDash(stands === "less" ? [5, 4] : []);
      pen.lineWidth = stands === "unsure" ? 1 : 2;
      pen.stroke();
    }
    pen.setLineDash([]);
    pen.globalAlpha = 1;
  }

  /** @param {CanvasRenderingContext2D} pen */
  #drawItems(pen) {
    pen.fillStyle = colour("--muted");
    pen.globalAlpha = 0.6;
    const size = this.items.length > 1500 ? 1.1 : 1.7;
    for (const [x, y] of this.place.values()) pen.fillRect(x - size, y - size, 2 * size, 2 * size);
    pen.globalAlpha = 1;
  }

  /** @param {CanvasRenderingContext2D} pen */
  #drawMarks(pen) {
    const more = colour("--more"), fewer = colour("--fewer"), now = colour("--learn");
    pen.strokeStyle = colour("--panel");
    pen.lineWidth = 1.5;
    /** @type {(item: string, fill: string, path: (x: number, y: number) => void) => void} */
    const shape = (item, fill, path) => {
      const at = this.place.get(item);
      if (!at) return;
      pen.fillStyle = fill;
      pen.beginPath();
      path(...at);
      pen.fill();
      pen.stroke();
    };
    for (const [item, mark] of this.marks) {
      if (mark === "liked") shape(item, more, (x, y) => pen.arc(x, y, 5, 0, 7));
      else if (mark === "disliked") shape(item, fewer, (x, y) => pen.rect(x - 4, y - 4, 8, 8));
    }
    if (this.now) shape(this.now, now, (x, y) => { pen.moveTo(x, y - 8); pen.lineTo(x + 8, y); pen.lineTo(x, y + 8); pen.lineTo(x - 8, y); pen.closePath(); });
  }

  /** @param {CanvasRenderingContext2D} pen */
  #drawYou(pen) {
    pen.strokeStyle = colour("--ink");
    pen.globalAlpha = 0.55;
    pen.lineWidth = 1.6;
    pen.beginPath();
    for (const step of this.way) pen.lineTo(...standing(this.regions, step));
    pen.stroke();
    pen.globalAlpha = 1;
    const [x, y] = this.you;
    Object.assign(this.here.style, { left: `${x}px`, top: `${y}px` });
  }

  /**
   * The item under a pointer.
   * @param {MouseEvent} event
   */
  #at(event) {
    const box = this.canvas.getBoundingClientRect();
    const mx = event.clientX - box.left, my = event.clientY - box.top;
    let best = /** @type {Api.CatalogueItem | null} */ (null), least = NEAR_PX;
    for (const item of this.items) {
      const at = this.place.get(item.item);
      const far = at ? Math.hypot(at[0] - mx, at[1] - my) : Infinity;
      if (far < least) {
        best = item;
        least = far;
      }
    }
    return best;
  }

  /** @param {Api.CatalogueItem | null} item */
  #describe(item) {
    if (!item) return;
    const mark = this.marks.get(item.item);
    const words = mark === "liked" ? ", which you liked" : mark === "disliked" ? ", which you passed on" : "";
    this.tip.textContent = `${titleAndYear(item)[0]} (${item.categories.join(", ") || `near ${this.regionOf.get(item.item)}`})${words}`;
  }
}
