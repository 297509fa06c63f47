// The card on the stage: drawn, swiped, thrown.

import { cover } from "./cover.js";
import { el, isStill } from "./dom.js";
import { betWords, titleAndYear } from "./values.js";

const FAR_PX = 90; // a swipe shorter than this falls back
/** @type {Record<string, [string, string]>} */
const REASONS = { please: ["♥", "To please"], learn: ["✦", "To learn"] };

/** @param {string | undefined} reason */
export function badge(reason) {
  if (!reason || !(reason in REASONS)) return null;
  const [sign, words] = REASONS[reason];
  return el("span", { class: `badge ${reason}` }, el("span", { "aria-hidden": "true" }, sign), words);
}

export class Deck {
  /**
   * @param {HTMLElement} place
   * @param {(side: "right" | "left" | "up") => void} swiped
   */
  constructor(place, swiped) {
    this.place = place;
    this.swiped = swiped;
    /** @type {HTMLElement | null} */
    this.element = null;
  }

  /**
   * @param {Card} card
   * @param {number} left
   */
  show(card, left) {
    this.element?.remove();
    const [title, year] = titleAndYear(card);
    this.element = el("article", { class: "card enter", "data-item": card.item, "aria-labelledby": "card-title" },
      cover(card.item, card.categories),
      el("div", { class: "top" }, badge(card.reason), left > 0 && el("span", { class: "badge" }, `${left} more in this slate`)),
      el("span", { class: "stamp yes", "aria-hidden": "true" }, "YES"),
      el("span", { class: "stamp no", "aria-hidden": "true" }, "NO"),
      el("span", { class: "stamp later", "aria-hidden": "true" }, "LATER"),
      el("div", { class: "words" },
        el("h2", { id: "card-title", dir: "auto" }, title),
        year && el("p", { class: "year" }, year),
        card.chance !== undefined && el("p", { class: "chance" }, betWords({ chance: card.chance })),
        card.categories?.length ? el("ul", { "aria-label": "Categories" }, card.categories.map((name) => el("li", null, name))) : null));
    this.#followFinger(this.element);
    this.place.append(this.element);
  }

  /**
   * Say how likely a hit the card is by the newest belief.
   * @param {{ chance: number }} about
   */
  setChance(about) {
    const words = this.element?.querySelector(".chance");
    if (words) words.textContent = betWords(about);
  }

  /**
   * @param {string} heading
   * @param {string} words
   */
  showEmpty(heading, words, kind = "") {
    this.element?.remove();
    this.element = el("article", { class: `card empty ${kind}` }, el("h2", null, heading), el("p", null, words));
    this.place.append(this.element);
  }

  /**
   * The card leaves; the next one may already lie beneath it.
   * @param {string} direction
   */
  throw(direction) {
    const leaving = this.element;
    this.element = null;
    if (!leaving || isStill()) return leaving?.remove();
    leaving.removeAttribute("aria-labelledby");
    leaving.setAttribute("aria-hidden", "true");
    leaving.querySelector("#card-title")?.removeAttribute("id");
    leaving.style.zIndex = "2";
    leaving.style.transform = "";
    leaving.classList.remove("enter");
    leaving.classList.add("leave", direction);
    setTimeout(() => leaving.remove(), 260);
  }

  /** @param {HTMLElement} card */
  #followFinger(card) {
    /** @type {Point | null} */
    let from = null;
    /** @type {(x: number, y: number) => void} */
    const move = (x, y) => {
      card.style.transform = x || y ? `translate(${x}px, ${y}px) rotate(${x / 22}deg)` : "";
      for (const [name, far] of /** @type {[string, number][]} */ ([[".yes", x], [".no", -x], [".later", Math.abs(x) > -y ? 0 : -y]])) {
        const stamp = /** @type {HTMLElement} */ (card.querySelector(name));
        stamp.style.opacity = String(Math.max(0, Math.min(1, far / FAR_PX)));
      }
    };
    /** @type {(event: PointerEvent) => Point} */
    const way = (event) => (from ? [event.clientX - from[0], Math.min(0, event.clientY - from[1])] : [0, 0]);
    card.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      from = [event.clientX, event.clientY];
      card.setPointerCapture(event.pointerId);
    });
    card.addEventListener("pointermove", (event) => from && move(...way(event)));
    card.addEventListener("pointercancel", () => { from = null; move(0, 0); });
    card.addEventListener("pointerup", (event) => {
      if (!from) return;
      const [x, y] = way(event);
      from = null;
      if (Math.abs(x) >= FAR_PX) this.swiped(x > 0 ? "right" : "left");
      else if (-y >= FAR_PX) this.swiped("up");
      else move(0, 0);
    });
  }
}
