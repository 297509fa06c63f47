/** Sign a token with which a page may recommend and react for `user`, and nothing else, for `ttlS` seconds. */
export function pageToken(secret: string, user: string, ttlS?: number): string;
