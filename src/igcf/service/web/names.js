// A friendly name for a visitor instead of an id; always the same for the same id.

import { hash } from "./cover.js";

const PREFIX = "visitor-";
const HOW = ["Amber", "Bold", "Calm", "Clever", "Curious", "Eager", "Gentle", "Golden", "Happy", "Keen", "Lucky", "Merry", "Mild", "Nimble", "Quiet", "Swift"];
const WHO = ["Badger", "Crane", "Dolphin", "Falcon", "Finch", "Fox", "Hare", "Heron", "Lynx", "Otter", "Owl", "Panda", "Robin", "Seal", "Swan", "Wren"];

/** @param {string} id */
export function friendlyName(id) {
  if (!id.startsWith(PREFIX)) return id;
  const number = hash(id);
  return `${HOW[number % HOW.length]} ${WHO[(number >>> 8) % WHO.length]}`;
}
