// The whole shop: ask for six products, report each click, ask again.
import { Client } from "./igcf/index.js";

const query = new URLSearchParams(location.search);
const igcf = new Client(query.get("api") ?? location.origin);
const user = query.get("user") ?? (localStorage.visitor ??= `visitor-${Math.random().toString(36).slice(2)}`);
const shelf = document.getElementById("shelf");
const state = document.getElementById("state");

function product({ item, title, chance }, recommendationId) {
  const box = document.createElement("li");
  const name = document.createElement("h2");
  name.textContent = title ?? item;
  const note = document.createElement("p");
  note.textContent = `${Math.round(100 * chance)} % likely to suit you`;
  box.append(name, note);
  for (const [text, value] of [["I want it", 5], ["Not for me", 1]]) {
    const button = box.appendChild(document.createElement("button"));
    button.textContent = text;
    button.onclick = async () => {
      box.remove();
      igcf.queue(user, item, value, { recommendationId });
      await show();
    };
  }
  return box;
}

async function show() {
  try {
    await igcf.flush();
    const answer = await igcf.recommend(user, { k: 6 });
    shelf.replaceChildren(...answer.items.map((each) => product(each, answer.recommendation_id)));
    state.textContent = `Chosen for ${user} after ${answer.revision} reactions.`;
  } catch (error) {
    const waiting = igcf.waiting().length;
    state.textContent = `The shop is away (${error.message}). ${waiting} reactions wait here and are not lost.`;
  }
}

await show();
