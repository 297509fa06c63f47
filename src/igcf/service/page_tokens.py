"""Page tokens: a backend signs one for each visitor, and the visitor's browser sends it instead of a key.

A token names one user and the time at which it expires. It may ask for recommendations and report reactions for that
user, and nothing else. Needs the standard library only.
"""

import base64
import hashlib
import hmac
import time

PREFIX = "page"
TTL_S = 3600.0


def page_token(secret: str, user: str, *, ttl_s: float = TTL_S) -> str:
    """Sign a token for `user` that is valid for `ttl_s` seconds.

    Args:
        secret: a `page` line of the server's key file; never send it to a browser.
        user: the only user for whom the token is valid.
        ttl_s: how long it is valid.
    """
    payload = f"{PREFIX}.{_encode(user.encode())}.{int(time.time() + ttl_s)}"
    return f"{payload}.{_signature(secret.encode(), payload)}"


def token_user(secrets: list[bytes], token: str) -> tuple[str, float] | None:
    """Return user and expiry of a token that one of `secrets` has signed; None where none has."""
    payload, _, signature = token.rpartition(".")
    is_signed = False
    for secret in secrets:  # all of them, so that the time says nothing
        is_signed |= hmac.compare_digest(_signature(secret, payload).encode(), signature.encode("utf-8", "replace"))
    if not is_signed:
        return None
    _, user, expiry = payload.split(".")
    return base64.urlsafe_b64decode(user + "=" * (-len(user) % 4)).decode(), float(expiry)


def _encode(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _signature(secret: bytes, payload: str) -> str:
    return _encode(hmac.new(secret, payload.encode("utf-8", "replace"), hashlib.sha256).digest())
