// Page tokens, for backends in Node: the secret must never reach a browser.

import { Buffer } from "node:buffer";
import { createHmac } from "node:crypto";

/** Sign a token with which a page may recommend and react for `user`, and nothing else, for `ttlS` seconds. */
export function pageToken(secret, user, ttlS = 3600) {
  const name = Buffer.from(user, "utf8").toString("base64url");
  const payload = `page.${name}.${Math.floor(Date.now() / 1000 + ttlS)}`;
  return `${payload}.${createHmac("sha256", secret).update(payload).digest("base64url")}`;
}
