// An item of the visitor's own, in the lab: added to the catalogue, shown to visitors, and how far it is known.

import { RefusedError, client, hasKey } from "./api.js";
import { byId } from "./dom.js";

const ITEM = "igcf.own-item";
const LEARNED_MS = 1500; // servers learn of each other's reactions within a second
let again = 0;

/** On a server with keys, the catalogue is not the visitor's to change. */
export function setUpOwnItem() {
  const form = /** @type {HTMLFormElement} */ (byId("own-item-form"));
  const [name, named] = ["own-item-name", "own-item-categories"].map((id) => /** @type {HTMLInputElement} */ (byId(id)));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const title = name.value.trim();
    if (!title) return;
    const categories = named.value.split(",").map((each) => each.trim()).filter(Boolean);
    const id = `own-${crypto.getRandomValues(new Uint32Array(2)).join("-")}`;
    try {
      await client.addItems([{ id, title, categories: [...new Set(categories)] }]);
      localStorage.setItem(ITEM, id);
      form.reset();
      await showOwnItem();
    } catch (error) {
      say(error instanceof RefusedError ? `Not added: ${error.message}` : "The server cannot be reached; try again.");
    }
  });
}

/** Say where the item stands now, and once more when the last reactions are learned; called after every reaction. */
export async function showOwnItem() {
  window.clearTimeout(again);
  again = window.setTimeout(showNow, LEARNED_MS);
  await showNow();
}

async function showNow() {
  byId("own-item").hidden = hasKey();
  const id = localStorage.getItem(ITEM);
  if (id === null || byId("lab").hidden || hasKey()) return;
  try {
    const { title, status, new: state } = await client.item(id);
    const name = `“${title ?? id}”`;
    if (!state) say(status === "waiting" ? `${name} will join after the next training: this model cannot place new items.` : `${name} is ${status}.`);
    else {
      const reactions = state.reactions === 1 ? "1 reaction" : `${state.reactions} reactions`;
      const place = `estimate ${state.expected.toFixed(2)} ± ${state.std.toFixed(2)}`;
      say(`${name}: shown ${state.trials} ${state.trials === 1 ? "time" : "times"} on trial, ${reactions}, ${place}${state.settled ? "; settled" : ""}.`);
    }
  } catch (error) {
    if (error instanceof RefusedError) localStorage.removeItem(ITEM); // another store: nobody knows it here
  }
}

/** @param {string} text */
function say(text) {
  byId("own-item-said").textContent = text;
}
