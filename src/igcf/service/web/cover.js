// Invented cover art: the colours come from the first category, the drawing from the item's id. Always the same for the same item.
// Where the server has pictures of items, they lie on top of it; an item without one keeps the drawing.

import { svg } from "./dom.js";

/** @typedef {(draw: () => number, hue: number, hue2: number) => Child[]} Drawing */

const W = 400, H = 500;
let count = 0;

/**
 * 32-bit FNV-1a.
 * @param {string} text
 */
export function hash(text) {
  let h = 2166136261;
  for (const letter of new TextEncoder().encode(text)) h = Math.imul(h ^ letter, 16777619);
  return h >>> 0;
}

/**
 * mulberry32: numbers in [0, 1), repeatable.
 * @param {number} seed
 */
function draws(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) >>> 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/**
 * The hue of a category, shared by covers and map.
 * @param {string[] | undefined} categories
 */
export const hueOf = (categories) => 140 + ((hash(categories?.[0] ?? "?") * 137.508) % 360) * 0.66; // 140 to 378: without mustard

/** @type {(hue: number, saturation: number, light: number, alpha?: number) => string} */
const tone = (hue, saturation, light, alpha = 1) => `hsl(${hue.toFixed(0)} ${saturation}% ${light}% / ${alpha})`;

/** @type {Drawing} */
function hills(draw, hue, hue2) {
  /** @type {SVGElement[]} */
  const shapes = [svg("circle", { cx: 90 + draw() * 220, cy: 110 + draw() * 90, r: 42 + draw() * 38, fill: tone(hue2, 88, 78) })];
  const layers = 4 + Math.floor(draw() * 2);
  for (let layer = 0; layer < layers; layer++) {
    const base = 215 + (layer * 215) / layers;
    const swing = 55 - layer * 6, phase = draw() * 6.3, beat = 1.2 + draw() * 1.6;
    let path = `M0 ${H}`;
    for (let x = 0; x <= W; x += 20) path += `L${x} ${(base + swing * Math.sin((x / W) * 3.1 * beat + phase)).toFixed(1)}`;
    shapes.push(svg("path", { d: `${path}L${W} ${H}Z`, fill: tone(hue + layer * 8, 48, 46 - layer * 8) }));
  }
  return shapes;
}

/** @type {Drawing} */
function rings(draw, hue, hue2) {
  const cx = 120 + draw() * 160, cy = 150 + draw() * 110, shapes = [];
  for (let i = 9; i > 0; i--) {
    shapes.push(svg("circle", { cx, cy, r: i * (22 + draw() * 8), fill: tone(i % 2 ? hue : hue2, 62, 26 + (9 - i) * 6, 0.85) }));
  }
  const angle = draw() * 360;
  shapes.push(svg("path", { d: `M${cx} ${cy}l420 -70v140z`, fill: tone(hue2, 80, 82, 0.5), transform: `rotate(${angle} ${cx} ${cy})` }));
  return shapes;
}

/** @type {Drawing} */
function city(draw, hue, hue2) {
  /** @type {SVGElement[]} */
  const shapes = [svg("circle", { cx: 80 + draw() * 240, cy: 90 + draw() * 60, r: 34 + draw() * 24, fill: tone(hue2, 70, 84, 0.95) })];
  for (let row = 0; row < 3; row++) {
    for (let x = -20; x < W;) {
      const w = 28 + draw() * 46, top = 170 + row * 70 + draw() * 110;
      shapes.push(svg("rect", { x, y: top, width: w, height: H, fill: tone(hue, 34, 44 - row * 13) }));
      for (let y = top + 12; row && y < 420; y += 20) {
        for (let wx = x + 7; wx < x + w - 9; wx += 13) {
          if (draw() < 0.3) shapes.push(svg("rect", { x: wx, y, width: 6, height: 9, fill: tone(hue2, 90, 74, 0.9) }));
        }
      }
      x += w + draw() * 8;
    }
  }
  return shapes;
}

/** @type {Drawing} */
function stars(draw, hue, hue2) {
  const points = Array.from({ length: 11 }, () => [30 + draw() * 340, 40 + draw() * 300]);
  points.sort((a, b) => a[0] - b[0]);
  /** @type {SVGElement[]} */
  const shapes = Array.from({ length: 70 }, () =>
    svg("circle", { cx: draw() * W, cy: draw() * H, r: 0.6 + draw() * 1.6, fill: tone(hue2, 60, 92, 0.8) }));
  shapes.push(svg("polyline", { points: points.map((p) => p.map((v) => v.toFixed(0)).join()).join(" "), fill: "none", stroke: tone(hue2, 80, 82, 0.65), "stroke-width": 2 }));
  for (const [cx, cy] of points) shapes.push(svg("circle", { cx, cy, r: 4 + draw() * 7, fill: tone(hue2, 90, 84) }));
  shapes.push(svg("circle", { cx: draw() * W, cy: 330, r: 95 + draw() * 60, fill: tone(hue + 20, 55, 42, 0.75) }));
  return shapes;
}

/** @type {Drawing} */
function petals(draw, hue, hue2) {
  const cx = 130 + draw() * 140, cy = 170 + draw() * 70, n = 6 + Math.floor(draw() * 7), long = 105 + draw() * 60, wide = 24 + draw() * 26;
  /** @type {SVGElement[]} */
  const shapes = [svg("rect", { x: cx - 4, y: cy, width: 8, height: H, fill: tone(hue + 100, 36, 34) })];
  for (let i = 0; i < n; i++) {
    shapes.push(svg("ellipse", { cx, cy: cy - long / 2, rx: wide, ry: long / 2, fill: tone(i % 2 ? hue2 : hue2 + 18, 78, 68, 0.82), transform: `rotate(${(i * 360) / n} ${cx} ${cy})` }));
  }
  return [...shapes, svg("circle", { cx, cy, r: wide * 0.9, fill: tone(hue, 60, 30) })];
}

/** @type {Drawing} */
function planes(draw, hue, hue2) {
  const shapes = [], lean = draw() * 60 - 30;
  for (let i = 0; i < 7; i++) {
    const x = -60 + draw() * 380, w = 40 + draw() * 120;
    shapes.push(svg("rect", { x, y: -100, width: w, height: 760, fill: tone(i % 3 ? hue + i * 7 : hue2, 60, 34 + draw() * 34, 0.62), transform: `rotate(${lean + (i % 2) * 58} 200 250)` }));
  }
  return [...shapes, svg("circle", { cx: 200 + draw() * 90 - 45, cy: 180 + draw() * 60, r: 56 + draw() * 34, fill: tone(hue2, 88, 76, 0.92) })];
}

const DRAWINGS = [hills, rings, city, stars, petals, planes];

/**
 * The address of an item's picture, where the server has any.
 * @param {string} item
 */
const pictureOf = (item) => ("pictures" in document.documentElement.dataset ? `/images/${encodeURIComponent(item)}` : null);

/**
 * The loaded picture of an item; null if it has no picture.
 * @param {string} item
 */
export async function loadedPicture(item) {
  const address = pictureOf(item);
  if (!address) return null;
  const image = new Image();
  image.src = address;
  return image.decode().then(() => image, () => null);
}

/**
 * The cover of an item as an SVG element.
 * @param {string} item
 * @param {string[]} [categories]
 */
export function cover(item, categories) {
  const draw = draws(hash(`cover ${item}`));
  const hue = hueOf(categories?.length ? categories : [item]) + draw() * 24 - 12;
  const hue2 = hue + [38, 160, 190, 320][Math.floor(draw() * 4)];
  const id = `sky-${count++}`;
  const sky = svg("linearGradient", { id, x1: 0, y1: 0, x2: draw() * 0.5, y2: 1 },
    svg("stop", { offset: 0, "stop-color": tone(hue, 58, 30) }),
    svg("stop", { offset: 1, "stop-color": tone(hue + 30, 62, 54) }));
  const drawing = DRAWINGS[Math.floor(draw() * DRAWINGS.length)];
  const href = pictureOf(item);
  const picture = href && svg("image", { href, width: W, height: H, preserveAspectRatio: "xMidYMid slice" });
  if (picture) picture.addEventListener("error", () => picture.remove());
  return svg("svg", { class: "cover", viewBox: `0 0 ${W} ${H}`, preserveAspectRatio: "xMidYMid slice", "aria-hidden": "true", focusable: "false" },
    svg("defs", null, sky), svg("rect", { width: W, height: H, fill: `url(#${id})` }), drawing(draw, hue, hue2), picture);
}
