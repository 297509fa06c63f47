"""API keys in three roles, compared in constant time, never logged."""

import hashlib
import hmac
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from igcf.errors import ConfigError, refuse_other_than_file
from igcf.service.errors import ForbiddenError, KeyRequiredError
from igcf.service.page_tokens import PREFIX, token_user

log = logging.getLogger("igcf.service")
Role = Literal["page", "server", "admin"]
SHORTEST_KEY = 16
LINES = "'server KEY', 'admin KEY' or 'page SECRET'"
ADMIN_ONLY = (("POST", "/v1/model"), ("POST", "/v1/model/rollback"), ("GET", "/page/stats"), ("GET", "/metrics"))


def needs_key(path: str) -> bool:
    """Whether a path is for those with a key, where the server has keys."""
    return path.startswith(("/v1/", "/page/")) or path == "/metrics"


def needed_role(method: str, path: str) -> Role:
    """Find the lowest role that may make a request."""
    if (method, path) in ADMIN_ONLY:
        return "admin"
    return "page" if page_user(method, path) is not None else "server"


def page_user(method: str, path: str) -> str | None:
    """Return the user of a request that a page may make: to recommend, to react, to take a reaction back."""
    parts = path.split("/")  # "", "v1", "users", user, ...
    if parts[1:3] != ["v1", "users"]:
        return None
    is_asking = method == "POST" and len(parts) == 5 and parts[4] in ("recommendations", "feedback")
    is_undo = method == "DELETE" and len(parts) == 6 and parts[4] == "feedback"
    return parts[3] if is_asking or is_undo else None


@dataclass(frozen=True)
class Keys:
    """Digests of the keys and secrets of page tokens; without any, everybody may do everything."""

    server: tuple[bytes, ...] = ()
    admin: tuple[bytes, ...] = ()
    page: tuple[bytes, ...] = ()

    @classmethod
    def from_file(cls, path: Path) -> "Keys":
        """Read lines of a role and a key; empty lines and # are skipped."""
        try:
            refuse_other_than_file(path)
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"cannot read the API keys of {path}: {error}") from error
        found: dict[str, list[bytes]] = {"server": [], "admin": [], "page": []}
        for number, line in enumerate(lines, start=1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            if len(words) != 2 or words[0] not in found or len(words[1]) < SHORTEST_KEY:
                raise ConfigError(
                    f"{path}:{number}: expected {LINES} with at least {SHORTEST_KEY} characters without blanks"
                )
            found[words[0]].append(words[1].encode() if words[0] == "page" else _digest(words[1]))
        if not found["admin"]:
            raise ConfigError(f"{path} has no admin key; add a line 'admin KEY'")
        return cls(*map(tuple, found.values()))

    def check(self, headers: Mapping[str, str], method: str, path: str) -> None:
        """Let a request pass or refuse it; an admin key may do everything."""
        if not self.admin:
            return
        scheme, _, sent = headers.get("authorization", "").partition(" ")
        key = sent.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
        if key.startswith(f"{PREFIX}."):
            self._check_token(key, method, path)
            return
        # All digests are compared, so that the time says nothing.
        is_admin, is_server = (
            sum(hmac.compare_digest(_digest(key), each) for each in known) > 0 for known in (self.admin, self.server)
        )
        if not (is_admin or is_server):
            if key:
                raise KeyRequiredError("the API key is not in the key file of this server; check the key")
            raise KeyRequiredError("this server needs an API key; send it as 'Authorization: Bearer KEY'")
        if needed_role(method, path) == "admin" and not is_admin:
            raise ForbiddenError(f"{method} {path} needs an admin key; this one is a server key")

    def _check_token(self, token: str, method: str, path: str) -> None:
        found = token_user(list(self.page), token)
        if found is None:
            raise KeyRequiredError("the page token is not signed by a 'page' secret of this server")
        user, expiry = found
        if expiry < time.time():
            raise KeyRequiredError("the page token has expired; ask the backend that signed it for another")
        if page_user(method, path) != user:
            raise ForbiddenError("a page token may recommend and react for its own user, and nothing else")


class KeyFile:
    """The keys of a server: those that its file held when it could last be used."""

    def __init__(self, path: Path | None) -> None:
        """Read the file, which must be usable at the start; None lets everybody in."""
        self._path = path
        self._content = None if path is None else _content(path)
        self.keys = Keys() if path is None else Keys.from_file(path)
        self.is_stale = False
        """Whether the file has changed to something that cannot be used."""

    def refresh(self) -> None:
        """Take over the keys of a file that has changed; one that cannot be used is refused and the old keys stay."""
        if self._path is None:
            return
        content = _content(self._path)
        if content is not None and content == self._content and not self.is_stale:
            return
        self.is_stale = True
        self.keys = Keys.from_file(self._path)
        self._content, self.is_stale = content, False
        log.info("API keys read again")


def _content(path: Path) -> bytes | None:
    try:
        refuse_other_than_file(path)
        return path.read_bytes()
    except OSError:
        return None


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
