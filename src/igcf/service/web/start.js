// The first screen of a newcomer: a grid of well-known, very different items to pick favourites from.

import { cover } from "./cover.js";
import { byId, el } from "./dom.js";
import { titleAndYear } from "./values.js";

const FEWEST = 3;

/**
 * Show the items; `done` is called once with those that were picked.
 * @param {Api.NamedItem[]} items
 * @param {(picks: Api.NamedItem[]) => void} done
 */
export function setUpStart(items, done) {
  /** @type {Set<string>} */
  const picked = new Set();
  const go = byId("start-go");
  const update = () => {
    const missing = FEWEST - picked.size;
    go.disabled = missing > 0;
    go.textContent = missing > 0 ? `Pick ${missing} more` : `Continue with ${picked.size}`;
  };
  byId("start-grid").replaceChildren(...items.map((item) => {
    const [title, year] = titleAndYear(item);
    const tile = el("button", { type: "button", "aria-pressed": "false", "data-item": item.item },
      cover(item.item, item.categories),
      el("span", { class: "tick", "aria-hidden": "true" }, "♥"),
      el("span", { class: "name", dir: "auto" }, el("span", { class: "title" }, title), year && ` ${year}`, el("small", null, item.categories.slice(0, 2).join(", "))));
    tile.addEventListener("click", () => {
      if (!picked.delete(item.item)) picked.add(item.item);
      tile.setAttribute("aria-pressed", String(picked.has(item.item)));
      update();
    });
    return el("li", null, tile);
  }));
  update();
  go.onclick = () => done(items.filter((item) => picked.has(item.item)));
}

/**
 * Room for the tiles until they are known, so that nothing jumps; cards do not wait for them.
 * @param {() => void} toCards
 */
export function expectStart(toCards) {
  byId("start-cards").onclick = toCards;
  byId("start-go").disabled = true;
  byId("start-grid").replaceChildren(...Array.from({ length: 12 }, () => el("li", { class: "soon", "aria-hidden": "true" })));
}
