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

/** @type {(value: number | null, reward: Api.RewardInfo) => boolean} */
export const isHit = (value, reward) => value !== null && value >= reward.threshold;

/**
 * The stars nearest to a stored value.
 * @param {number} value
 * @param {Api.RewardInfo} reward
 */
export function starsOf(value, reward) {
  const values = starValues(reward);
  return 1 + values.reduce((best, each, i) => (Math.abs(each - value) < Math.abs(values[best] - value) ? i : best), 0);
}

/**
 * The range of expected rewards to draw.
 * @param {Api.RewardInfo} reward
 * @returns {[number, number]}
 */
export function rewardRange(reward) {
  if (reward.kind === "satisfied" || reward.kind === "exposed") return [0, 1];
  return reward.kind === "scaled" ? [Math.min(reward.low / (reward.high || 1), 0), 1] : [reward.low, reward.high];
}

/** @param {Api.RewardInfo} reward */
export const isShare = (reward) => reward.kind === "satisfied" || reward.kind === "exposed";

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
 * Title and year: "The Glass Orchard (1987)" -> ["The Glass Orchard", "1987"].
 * @param {{ item: string, title?: string | null }} card
 */
export function titleAndYear(card) {
  const title = card.title || card.item;
  const found = /^(.*\S)\s*\((\d{4})\)\s*$/s.exec(title);
  return found ? [found[1], found[2]] : [title, ""];
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
