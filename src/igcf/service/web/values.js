// Between what a visitor does and the values of the model's log, and between rewards and words.

/**
 * One to five stars as values of the log: the lowest value, then up to the threshold of success at four stars, then the highest
 * value, unless that lies so far out (seconds watched, say) that it would be no ordinary reaction.
 * @param {Api.RewardInfo} reward
 */
export function starValues({ low, high, threshold }) {
  const step = (threshold - low) / 3;
  const best = high - threshold <= 3 * Math.abs(step) ? Math.max(high, threshold) : threshold + step;
  return [low, low + step, low + 2 * step, threshold, best];
}

const MOST_GRADES = 5;
const SKEWED = 20; // how much further the highest value lies above the threshold than the lowest below it

/**
 * The reactions that fit the values of the log, worst first: like or not where there is nothing between, stars for grades, amounts
 * for counts. No value lies outside the log.
 * @param {Api.RewardInfo} reward
 * @returns {Offer}
 */
export function offer(reward) {
  const { low, high, threshold, implicit } = reward;
  const no = { label: "Not for me", mark: "✕" }, yes = { label: "I like it", mark: "♥" };
  if (implicit) return { form: "like", choices: [{ ...no, value: null }, { ...yes, value: low }] };
  if (high - low <= 1) return { form: "like", choices: [{ ...no, value: low }, { ...yes, value: high }] };
  if (high - threshold > SKEWED * Math.max(threshold - low, 1)) return { form: "amount", choices: amounts(reward) };
  const isWhole = [low, high, threshold].every(Number.isInteger);
  const isFew = isWhole && high - low < MOST_GRADES;
  const values = isFew ? Array.from({ length: high - low + 1 }, (_, i) => low + i) : starValues(reward).map((value) => Math.min(value, high));
  return { form: "stars", choices: values.map((value, i) => ({ label: plural(i + 1, "star"), mark: `${i + 1}★`, value })) };
}

/**
 * How often or how much, in words, with an ordinary value of the log for each.
 * @param {Api.RewardInfo} reward
 * @returns {Choice[]}
 */
function amounts({ typical, low, high, threshold, unit }) {
  const middle = (low + threshold) / 2, isWhole = [low, threshold].every(Number.isInteger);
  const values = typical.length === 4 ? typical : [low, isWhole ? Math.floor(middle) : middle, threshold, Math.min(high, 3 * Math.abs(threshold) || high)];
  const noun = unit && /^[a-z]+s$/i.test(unit) ? unit.toLowerCase() : "";
  const words = COUNTED.has(noun) ? ["Hardly ever", `A few ${noun}`, "Often", "Very often"] : ["Very little", "A little", "A lot", "Very much"];
  const all = values.map((value, i) => ({ label: words[i], mark: short(value), value, unit: noun }));
  return all.filter((choice, i) => i === 0 || choice.value > all[i - 1].value);
}

/** Units of values that say how often. */
const COUNTED = new Set(["plays", "listens", "views", "visits", "clicks", "times", "purchases", "orders", "reads", "streams", "watches"]);

/** @param {number} value */
const short = (value) => new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 }).format(value);

/**
 * The offered reaction nearest to a stored value.
 * @param {number | null} value
 * @param {Api.RewardInfo} reward
 */
export function choiceOf(value, reward) {
  const { choices } = offer(reward);
  /** @param {Choice} choice */
  const far = (choice) => (value === null || choice.value === null ? (value === choice.value ? 0 : Infinity) : Math.abs(choice.value - value));
  return choices.reduce((best, each) => (far(each) < far(best) ? each : best), choices[0]);
}

/** @param {number} share */
const percent = (share) => Math.round(100 * Math.min(1, Math.max(0, share)));

/**
 * A chance as a number; nothing is certain.
 * @param {{ chance: number }} about
 */
export function chanceText({ chance }) {
  const n = percent(chance);
  return n < 3 ? "under 3\u00a0%" : n > 97 ? "over 97\u00a0%" : `${n}\u00a0%`;
}

/**
 * A chance in words.
 * @param {{ chance: number }} about
 */
export function chanceWords({ chance }) {
  const words = /** @type {[number, string][]} */ ([[0.85, "Very likely a hit"], [0.65, "Likely a hit"], [0.55, "Better than even"], [0.45, "An even bet"], [0.25, "A long shot"], [-1, "Unlikely to be a hit"]]);
  return words.find(([least]) => chance >= least)?.[1] ?? "";
}

/** @param {{ chance: number }} about */
export const betWords = (about) => `${chanceWords(about)} · ${chanceText(about)}`;

/**
 * How sure a chance is, in words.
 * @param {Chance} about
 */
export const sureness = ({ low, high }) => (high - low < 0.15 ? "quite sure" : high - low < 0.4 ? "fairly sure" : "not sure yet");

/**
 * Where a chance lies, for those who want the numbers.
 * @param {Chance} about
 */
export const rangeText = ({ low, high }) => `with 80\u00a0% certainty between ${percent(low)} and ${percent(high)}\u00a0%`;

/**
 * "A", "A and B", "A, B and C".
 * @param {string[]} words
 */
export const listed = (words) => (words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words[words.length - 1]}`);

/** @type {(value: number | null, reward: Api.RewardInfo) => boolean} */
export const isHit = (value, reward) => value !== null && value >= reward.threshold;

/** @param {Api.RewardInfo} reward */
const isShare = (reward) => reward.kind === "satisfied" || reward.kind === "exposed";

/**
 * An expected reward in words: a chance where it is one, otherwise the number.
 * @param {number} amount
 * @param {Api.RewardInfo} reward
 */
export function rewardText(amount, reward, { sign = false } = {}) {
  const number = isShare(reward) ? Math.round(amount * 100) : Number(amount.toPrecision(3));
  const text = isShare(reward) ? `${Math.abs(number)}\u00a0%` : `${Math.abs(number)}`;
  return `${number < 0 ? "−" : sign ? "+" : ""}${text}`;
}

/**
 * Title and year: "Glass Orchard, The (1987)" -> ["The Glass Orchard", "1987"].
 * @param {{ item: string, title?: string | null }} card
 */
export function titleAndYear(card) {
  const title = card.title || card.item;
  const found = /^(.*\S)\s*\((\d{4})\)\s*$/s.exec(title);
  return [(found?.[1] ?? title).replace(/^(.+), (The|An?|L[ea]s?|D(?:er|ie|as)|El|Il)$/, "$2 $1"), found?.[2] ?? ""];
}

/** @type {(n: number, word: string) => string} */
export const plural = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;

/**
 * A name that nobody guesses; crypto.randomUUID is missing on plain http.
 * @param {string} prefix
 */
export function randomName(prefix, length = 12) {
  const letters = "abcdefghijkmnpqrstuvwxyz23456789";
  return prefix + Array.from(crypto.getRandomValues(new Uint8Array(length)), (byte) => letters[byte % 32]).join("");
}

/**
 * The exploration ν of a policy, where it takes one.
 * @param {Api.ModelInfo | null} model
 * @param {string} [name] of the policy; without it the server's own
 * @param {number} [nu] chosen by the visitor
 */
export function nuOf(model, name = model?.policy.name, nu = undefined) {
  const takesIt = model?.policies.some((each) => each.name === name && "nu" in each.parameters);
  return takesIt ? nu ?? model?.policy.nu ?? undefined : undefined;
}
