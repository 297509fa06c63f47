// The taste card: painted on the device, with nothing in it that identifies its owner.

import { cover, hueOf, loadedPicture } from "./cover.js";
import { countedLikes } from "./learned.js";
import { chanceText, listed, titleAndYear } from "./values.js";

const W = 1080, H = 1350, EDGE = 72;
const SERIF = '"Iowan Old Style", "Palatino Linotype", Palatino, Georgia, "Liberation Serif", serif';
const SANS = '-apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';
const POSTERS = 4;

/** @param {Api.ScoredItem[]} top */
export const friendlyList = (top) => `Picks: ${listed(top.slice(0, 10).map((each) => titleAndYear(each)[0]))}.`;

/**
 * @param {HTMLCanvasElement} canvas
 * @param {{ taste: Api.Taste, top: Api.ScoredItem[], n: number, hits: number, popular: number }} what
 */
export async function paintCard(canvas, { taste, top, n, hits, popular }) {
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const counted = countedLikes(taste);
  const liked = taste.groups.find((each) => each.standing === "liked") ?? taste.groups[0];
  const hue = hueOf(liked ? [liked.name] : undefined);
  const back = pen.createLinearGradient(0, 0, W, H);
  back.addColorStop(0, `hsl(${hue} 48% 24%)`);
  back.addColorStop(1, `hsl(${hue + 50} 52% 11%)`);
  pen.fillStyle = back;
  pen.fillRect(0, 0, W, H);
  pen.textBaseline = "alphabetic";
  pen.fillStyle = "rgb(255 255 255 / 75%)";
  pen.font = `600 30px ${SANS}`;
  pen.fillText(`MY TASTE, AFTER ${n} REACTIONS`, EDGE, 108);
  pen.fillStyle = "#fff";
  pen.font = `600 58px ${SERIF}`;
  const mine = taste.sentence.replace(/^You are /, "I am ").replace(/^You /, "I ");
  let y = paragraph(pen, mine || (counted ? `I liked ${counted}.` : "No clear pattern yet."), EDGE, 186, W - 2 * EDGE, 68, 4);
  y = await posters(pen, top.slice(0, POSTERS), y + 10);
  y = bars(pen, taste.groups, y + 46);
  picks(pen, top.slice(0, 10), y + 40);
  pen.fillStyle = "rgb(255 255 255 / 85%)";
  pen.font = `500 28px ${SANS}`;
  pen.fillText(`${hits} of ${n} were hits; the most popular items: about ${popular.toFixed(0)}`, EDGE, H - 52);
  pen.textAlign = "right";
  pen.font = `600 28px ${SERIF}`;
  pen.fillText("igcf", W - EDGE, H - 52);
  pen.textAlign = "left";
}

/**
 * Text in lines; returns the height at which it ends.
 * @param {CanvasRenderingContext2D} pen
 * @param {string} text
 * @param {number} x
 * @param {number} y
 * @param {number} width
 * @param {number} line
 * @param {number} most
 */
function paragraph(pen, text, x, y, width, line, most) {
  const lines = [""];
  for (const word of text.split(" ")) {
    const longer = `${lines[lines.length - 1]} ${word}`.trim();
    if (pen.measureText(longer).width <= width) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  const shown = lines.slice(0, most);
  if (lines.length > most) shown[most - 1] += " …";
  shown.forEach((each, i) => pen.fillText(each, x, y + i * line));
  return y + (shown.length - 1) * line;
}

/**
 * @param {CanvasRenderingContext2D} pen
 * @param {Api.ScoredItem[]} top
 * @param {number} y
 */
async function posters(pen, top, y) {
  const gap = 24, wide = (W - 2 * EDGE - (POSTERS - 1) * gap) / POSTERS, high = wide * 1.2;
  const pictures = await Promise.all(top.map(async ({ item, categories }) => await loadedPicture(item) ?? drawn(cover(item, categories))));
  pictures.forEach((image, i) => {
    const x = EDGE + i * (wide + gap);
    pen.save();
    pen.beginPath();
    pen.roundRect(x, y + 28, wide, high, 18);
    pen.clip();
    const scale = Math.max(wide / image.naturalWidth, (high * 1.05) / image.naturalHeight);
    const [w, h] = [image.naturalWidth * scale, image.naturalHeight * scale];
    pen.drawImage(image, x - (w - wide) / 2, y + 28, w, h);
    pen.restore();
  });
  return y + 28 + high;
}

/**
 * @param {SVGElement} drawing
 * @returns {Promise<HTMLImageElement>}
 */
async function drawn(drawing) {
  drawing.querySelector("image")?.remove(); // a drawing within a picture may load nothing
  drawing.setAttribute("width", "400");
  drawing.setAttribute("height", "500");
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(drawing))}`;
  await image.decode();
  return image;
}

/**
 * Groups as bars around the middle: liked more to the right, liked less to the left.
 * @param {CanvasRenderingContext2D} pen
 * @param {Api.GroupTaste[]} groups
 * @param {number} y
 */
function bars(pen, groups, y) {
  const tried = groups.filter(({ hits, misses }) => hits + misses);
  const chosen = tried.length > 6 ? [...tried.slice(0, 3), ...tried.slice(-3)] : tried;
  const widest = Math.max(...chosen.map((each) => Math.abs(each.lift)), 0.5), middle = W / 2, room = 240;
  chosen.forEach(({ name, lift }, i) => {
    const top = y + i * 40, width = (Math.abs(lift) / widest) * room;
    pen.fillStyle = lift >= 0 ? "#8ec9ff" : "#ffb27a";
    pen.fillRect(lift >= 0 ? middle : middle - width, top, width, 22);
    pen.fillStyle = "#fff";
    pen.font = `500 26px ${SANS}`;
    pen.textAlign = lift >= 0 ? "right" : "left";
    pen.fillText(name, lift >= 0 ? middle - 16 : middle + 16, top + 20);
  });
  pen.textAlign = "left";
  return y + chosen.length * 40;
}

/**
 * @param {CanvasRenderingContext2D} pen
 * @param {Api.ScoredItem[]} top
 * @param {number} y
 */
function picks(pen, top, y) {
  pen.fillStyle = "rgb(255 255 255 / 75%)";
  pen.font = `600 26px ${SANS}`;
  pen.fillText("MY TEN PICKS", EDGE, y);
  const half = (W - 2 * EDGE) / 2;
  top.forEach((each, i) => {
    const x = EDGE + (i < 5 ? 0 : half), line = y + 48 + (i % 5) * 42;
    pen.fillStyle = "#fff";
    pen.font = `500 28px ${SANS}`;
    let title = titleAndYear(each)[0];
    while (title.length > 4 && pen.measureText(title).width > half - 160) title = `${title.slice(0, -2).trimEnd()}…`;
    pen.fillText(`${i + 1}  ${title}`, x, line);
    pen.fillStyle = "rgb(255 255 255 / 70%)";
    pen.textAlign = "right";
    pen.fillText(chanceText(each), x + half - 44, line);
    pen.textAlign = "left";
  });

}
