// Where things lie on the map: one region per category, or per cluster of a catalogue without categories; neighbours where
// people who like one like the other, and the visitor among them by affinity. Pure arithmetic, nothing is drawn here.

const MOST_REGIONS = 16;
const FEWEST_ITEMS = 3;
const FILLED = 0.5; // share of the map that the regions cover
const STEPS = 300;
const GOLDEN = 2.39996;
const OTHER = "Other", EVERYTHING = "Everything";

/**
 * The items of each region: those of the same first category, or the given clusters, and the rest.
 * @param {Api.CatalogueItem[]} items
 * @param {Api.Region[]} clusters
 */
export function grouped(items, clusters) {
  const cluster = new Map(clusters.flatMap(({ name, items: own }) => own.map((item) => [item, name])));
  /** @type {Map<string, Api.CatalogueItem[]>} */
  const found = new Map();
  for (const item of items) {
    const name = cluster.get(item.item) ?? item.categories[0] ?? OTHER;
    found.set(name, [...(found.get(name) ?? []), item]);
  }
  const large = [...found].filter(([name, own]) => name !== OTHER && own.length >= FEWEST_ITEMS).sort((a, b) => b[1].length - a[1].length || (a[0] < b[0] ? -1 : 1));
  const kept = new Map(large.slice(0, MOST_REGIONS));
  const rest = [...found].flatMap(([name, own]) => (kept.has(name) ? [] : own));
  if (rest.length) kept.set(kept.size ? OTHER : EVERYTHING, rest);
  return kept;
}

/**
 * The regions on a map of this size.
 * @param {Map<string, Api.CatalogueItem[]>} kept
 * @param {number} width
 * @param {number} height
 * @returns {Region[]}
 */
export function layOut(kept, width, height) {
  const area = FILLED * width * height;
  const centres = [...kept.values()].map(middle);
  const places = spread(centres);
  const largest = Math.min(width, height) / 2 - 4;
  const regions = [...kept].map(([name, own], i) => ({
    name, items: own,
    r: Math.min(largest, Math.max(20, Math.sqrt((area * Math.sqrt(own.length)) / (Math.PI * sumOf([...kept.values()].map((each) => Math.sqrt(each.length))))))),
    x: width * (0.12 + 0.76 * places[i][0]), y: height * (0.14 + 0.72 * places[i][1]),
  }));
  relax(regions, width, height);
  return regions;
}

/** @param {number[]} numbers */
const sumOf = (numbers) => numbers.reduce((all, each) => all + each, 0);

/**
 * @param {Api.CatalogueItem[]} items
 * @returns {Point}
 */
const middle = (items) => [sumOf(items.map((each) => each.x ?? 0)) / items.length, sumOf(items.map((each) => each.y ?? 0)) / items.length];

/**
 * Points by their ranks in both directions, in [0, 1]: neighbours stay neighbours and nothing piles up.
 * @param {Point[]} points
 * @returns {Point[]}
 */
function spread(points) {
  const last = Math.max(1, points.length - 1);
  /** @type {(axis: 0 | 1) => number[]} */
  const ranks = (axis) => {
    const order = points.map((_, i) => i).sort((a, b) => points[a][axis] - points[b][axis]);
    return points.map((_, i) => order.indexOf(i) / last);
  };
  const xs = ranks(0), ys = ranks(1);
  return points.map((_, i) => [xs[i], ys[i]]);
}

/**
 * Push circles apart until none covers another, and keep them inside.
 * @param {Region[]} regions
 * @param {number} width
 * @param {number} height
 */
function relax(regions, width, height) {
  for (let step = 0; step < STEPS; step++) {
    for (let i = 0; i < regions.length; i++) {
      for (let j = 0; j < i; j++) {
        const a = regions[i], b = regions[j];
        const dx = a.x - b.x || 0.01 * (i - j), dy = a.y - b.y || 0.01;
        const far = Math.hypot(dx, dy), wanted = a.r + b.r + 4;
        if (far >= wanted) continue;
        const push = (wanted - far) / far / 2;
        a.x += dx * push; a.y += dy * push; b.x -= dx * push; b.y -= dy * push;
      }
    }
    for (const region of regions) {
      region.x = Math.min(Math.max(region.x, region.r + 2), width - region.r - 2);
      region.y = Math.min(Math.max(region.y, region.r + 2), height - region.r - 2);
    }
  }
}

/**
 * The places of a region's items: the best known in the middle, the others around it like the seeds of a sunflower.
 * @param {Region} region
 * @returns {[string, Point][]}
 */
export function seeds(region) {
  const order = [...region.items].sort((a, b) => (a.popularity_rank ?? Infinity) - (b.popularity_rank ?? Infinity) || 0);
  return order.map(({ item }, i) => {
    const far = (region.r - 4) * Math.sqrt((i + 0.5) / order.length), turn = i * GOLDEN;
    return [item, [region.x + far * Math.cos(turn), region.y + far * Math.sin(turn)]];
  });
}

/**
 * How near the visitor stands to a region: by what is believed, and by what was liked of it.
 * @param {Api.GroupTaste} group
 */
export const affinity = ({ lift, hits, misses }) => lift + Math.log((1 + hits) / (1 + misses));

/**
 * Where the visitor stands: the middle of the regions, each as heavy as its affinity. It always lies among them.
 * @param {Region[]} regions
 * @param {Map<string, number>} affinities
 * @returns {Point}
 */
export function standing(regions, affinities) {
  const weights = regions.map(({ name }) => Math.exp(1.1 * Math.max(-3, Math.min(4, affinities.get(name) ?? 0))) * (affinities.has(name) || !affinities.size ? 1 : 0.05));
  const all = sumOf(weights) || 1;
  return [sumOf(regions.map((each, i) => each.x * weights[i])) / all, sumOf(regions.map((each, i) => each.y * weights[i])) / all];
}

/**
 * How much of what was open about a visitor the reactions have settled, in words.
 * @param {number} unknown
 */
export const explored = (unknown) => (unknown > 0.8 ? "hardly explored yet" : unknown > 0.5 ? "partly explored" : "well explored");
