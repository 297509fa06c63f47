// The drawer for those who want to turn the knobs: closed unless it was left open.

import { api } from "./api.js";
import { byId, el } from "./dom.js";
import { chanceText, titleAndYear } from "./values.js";

const OPEN = "igcf.lab";
const COMPARED = 5;
const CURIOUS = 2;
const OTHER = "(other)"; // rare values, pooled
/** @type {Api.PolicyInfo[]} */
let policies = [];

/**
 * Offer the policies of the server, to choose by and to compare with.
 * @param {Api.PolicyInfo[]} offered
 */
export function offerPolicies(offered) {
  if (offered.length === policies.length) return;
  policies = offered;
  byId("policy").replaceChildren(...offered.map(({ name, label }) => el("option", { value: name }, label)));
  const pairs = offered.flatMap(({ name, parameters: { nu } }) => (nu === undefined ? [[name]] : [[name, nu], [name, CURIOUS]]));
  byId("versus").replaceChildren(...pairs.reverse().map(([name, nu]) => el("option", { value: nu === undefined ? name : `${name}:${nu}` },
    label(/** @type {Api.PolicyUsed} */ ({ name, nu })))));
}

/**
 * A field per attribute that the model understands: a list of its values, or a number.
 * @param {Api.AttributeInfo[]} known
 * @param {Record<string, any>} given
 * @param {(attributes: Record<string, any>) => void} changed called with all attributes
 */
export function offerAttributes(known, given, changed) {
  /** @param {string} name */
  const before = (name) => String([given[name] ?? ""].flat()[0]);
  const fields = known.map(({ name, kind, values }) => {
    const options = ["", ...values.filter((value) => value !== OTHER)].map((value) => el("option", { value }, value || "not given"));
    const field = /** @type {HTMLInputElement} */ (kind === "category" ? el("select", null, options) : el("input", { type: "number", step: "any", placeholder: "not given" }));
    field.id = `attribute-${name}`;
    field.value = before(name);
    return field;
  });
  const told = () => known.map(({ name, kind }, i) => [name, fields[i].value === before(name) ? given[name] : fields[i].value && kind !== "category" ? fields[i].valueAsNumber : fields[i].value]);
  byId("about-you").hidden = !known.length;
  byId("attributes").replaceChildren(...known.map(({ name }, i) => el("div", { class: "field" }, el("label", { for: fields[i].id }, name), fields[i])));
  byId("attributes").onchange = () => changed({ ...given, ...Object.fromEntries(told().map(([name, value]) => [name, value === "" ? null : value])) });
}

/**
 * @param {() => void} opened called whenever it opens
 */
export function setUpLab(opened) {
  const lab = byId("lab"), toggle = byId("lab-toggle");
  /** @param {boolean} isOpen */
  const set = (isOpen) => {
    lab.hidden = !isOpen;
    document.body.classList.toggle("lab-open", isOpen);
    toggle.setAttribute("aria-expanded", String(isOpen));
    if (isOpen) localStorage.setItem(OPEN, "1");
    else localStorage.removeItem(OPEN);
    if (isOpen) opened();
  };
  toggle.addEventListener("click", () => set(lab.hidden));
  byId("lab-close").addEventListener("click", () => { set(false); toggle.focus(); });
  lab.addEventListener("keydown", (event) => { if (event.key === "Escape") { set(false); toggle.focus(); } });
  byId("versus").addEventListener("change", opened);
  set(localStorage.getItem(OPEN) !== null);
}

/** Close the drawer where it covers the page, so that what comes next is seen. */
export function uncoverPage() {
  if (byId("lab").offsetWidth >= document.documentElement.clientWidth) byId("lab-close").click();
}

let turn = 0;

/**
 * What two policies would choose for the same visitor now, side by side; nothing of it is shown or logged as shown.
 * @param {string} user
 * @param {Api.PolicyUsed} own
 */
export async function compare(user, own) {
  if (byId("lab").hidden) return;
  const mine = ++turn;
  const [name, nu] = byId("versus").value.split(":");
  const other = /** @type {Api.PolicyUsed} */ ({ name, nu: nu === undefined ? undefined : Number(nu) });
  const found = await Promise.all([own, other].map((policy) => api.choices(user, { k: COMPARED, policy: policy.name, nu: policy.nu ?? undefined })))
    .catch(() => null); // away: what was found before stays
  if (!found || mine !== turn) return;
  const lists = found.map(({ outcomes }) => outcomes[0].items);
  const shared = new Set(lists[0].map((each) => each.item).filter((item) => lists[1].some((each) => each.item === item)));
  byId("versus-lists").replaceChildren(...lists.map((items, i) => el("div", null,
    el("h4", null, label(found[i].policy)),
    el("ol", null, items.map((each) => el("li", { class: shared.has(each.item) ? "shared" : "" },
      el("span", { dir: "auto" }, titleAndYear(each)[0]), el("small", null, `${chanceText(each)}${each.reason === "learn" ? ", to learn" : ""}`)))))),
  el("p", { class: "small muted" }, shared.size === COMPARED ? "Both would choose the same." : `${shared.size} of ${COMPARED} in common.`));
}

/** @param {Api.PolicyUsed} policy */
const label = ({ name, nu }) => `${policies.find((each) => each.name === name)?.label ?? name}${nu !== null && nu !== undefined ? `, ν = ${Number(nu.toFixed(2))}` : ""}`;
