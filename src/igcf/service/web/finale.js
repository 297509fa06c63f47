// The end of a first round: a picture of the taste to take away, ten picks, and how it did against popularity.

import { byId, el } from "./dom.js";
import { countedLikes } from "./learned.js";
import { friendlyList, paintCard } from "./picture.js";
import { chanceText, titleAndYear } from "./values.js";

/**
 * @param {{ taste: Api.Taste, top: Api.ScoredItem[], n: number, hits: number, popular: number }} what
 */
export async function openFinale(what) {
  const { taste, top, n, hits, popular } = what;
  const dialog = byId("finale"), counted = countedLikes(taste);
  byId("finale-title").textContent = `Your taste, after ${n} reactions`;
  byId("finale-sentence").textContent = taste.sentence || (counted ? `You liked ${counted}. It is too early to say how you differ from others.` : "No clear pattern yet.");
  byId("finale-hits").textContent = `${hits} of ${n} were hits. The most popular items would have had about ${popular.toFixed(0)}.`;
  byId("finale-picks").replaceChildren(...top.slice(0, 10).map((each) => el("li", null, el("span", { dir: "auto" }, titleAndYear(each)[0]), " ", el("small", { class: "muted" }, chanceText(each)))));
  const canvas = byId("taste-card");
  canvas.setAttribute("aria-label", `Picture: ${taste.sentence || counted} ${friendlyList(top)}`);
  if (!dialog.open) dialog.showModal();
  await paintCard(canvas, what);
  canvas.dataset.painted = String(n);
}

/** @param {() => void} startAgain */
export function setUpFinale(startAgain) {
  const canvas = byId("taste-card");
  byId("start-again").addEventListener("click", () => { byId("finale").close("again"); startAgain(); });
  byId("card-download").addEventListener("click", () => {
    const link = el("a", { href: canvas.toDataURL("image/png"), download: "my-taste.png" });
    link.click();
    byId("card-note").textContent = "Saved as my-taste.png.";
  });
  byId("card-copy").addEventListener("click", () => canvas.toBlob(async (blob) => {
    try {
      if (!blob) throw new Error("no picture");
      await navigator.clipboard.write([new ClipboardItem({ "image/png": blob })]);
      byId("card-note").textContent = "Copied. Paste it anywhere.";
    } catch {
      byId("card-note").textContent = "This browser cannot copy pictures from a page; download it instead.";
    }
  }));
}
