"""API keys: three roles, compared in constant time, never logged."""

import hashlib
import hmac
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from igcf.errors import ConfigError
from igcf.plain_files import refuse_other_than_file
from igcf.service.errors import AdminRequiredError, KeyRequiredError

log = logging.getLogger("igcf.service")
Role = Literal["client", "catalogue", "admin"]
ROLES: tuple[Role, ...] = ("client", "catalogue", "admin")
SHORTEST_KEY = 16


@dataclass(frozen=True)
class Keys:
    """Digests of the keys; an empty set lets everybody in."""

    digests: tuple[tuple[Role, bytes], ...] = ()

    @classmethod
    def from_file(cls, path: Path) -> "Keys":
        """Read lines of `client KEY`, `catalogue KEY` or `admin KEY`; empty lines and # are skipped."""
        try:
            refuse_other_than_file(path)
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"cannot read the API keys of {path}: {error}") from error
        found: list[tuple[Role, bytes]] = []
        for number, line in enumerate(lines, start=1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            if len(words) != 2 or words[0] not in ROLES or len(words[1]) < SHORTEST_KEY:
                raise ConfigError(
                    f"{path}:{number}: expected 'client KEY', 'catalogue KEY' or 'admin KEY' with at least "
                    f"{SHORTEST_KEY} characters without blanks"
                )
            found.append((ROLES[ROLES.index(words[0])], _digest(words[1])))
        if not any(role == "admin" for role, _ in found):
            raise ConfigError(f"{path} has no admin key; add a line 'admin KEY'")
        return cls(tuple(found))

    def check(self, headers: Mapping[str, str], *, needed: Role, ends_user: bool = False) -> None:
        """Let a request pass or refuse it; the admin key may do everything, that of the catalogue what clients may.

        `ends_user` says that a user is gone afterwards, which whoever keeps the catalogue has no business with.
        """
        if not self.digests:
            return
        scheme, _, sent = headers.get("authorization", "").partition(" ")
        key = sent.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
        role = self._role(key)
        if role is None:
            raise KeyRequiredError("this server needs an API key; send it as 'Authorization: Bearer KEY'")
        if ends_user and role == "catalogue":
            raise AdminRequiredError(
                "this needs a key of kind 'client' or the admin key; one of kind 'catalogue' may not"
            )
        if ROLES.index(role) < ROLES.index(needed):
            which = "the admin key" if needed == "admin" else "the admin key or one of kind 'catalogue'"
            raise AdminRequiredError(f"this needs {which}")

    def _role(self, key: str) -> Role | None:
        sent, found = _digest(key), None
        for role, digest in self.digests:  # all of them, so that the time says nothing
            if hmac.compare_digest(sent, digest):
                found = role
        return found


class KeyFile:
    """The keys of a server: those that its file held when it could last be used."""

    def __init__(self, path: Path | None) -> None:
        """Read the file, which must be usable at the start; None lets everybody in."""
        self._path = path
        self._content = None if path is None else _content(path)
        self._keys = Keys() if path is None else Keys.from_file(path)
        self.is_stale = False
        """Whether the file has changed to something that cannot be used."""

    def check(self, headers: Mapping[str, str], *, needed: Role, ends_user: bool = False) -> None:
        """Let a request pass or refuse it."""
        self._keys.check(headers, needed=needed, ends_user=ends_user)

    def refresh(self) -> None:
        """Take over the keys of a file that has changed; one that cannot be used is refused and the old keys stay."""
        if self._path is None:
            return
        content = _content(self._path)
        if content is not None and content == self._content and not self.is_stale:
            return
        self.is_stale = True
        self._keys = Keys.from_file(self._path)
        self._content, self.is_stale = content, False
        log.info("API keys read again", extra={"keys": len(self._keys.digests)})


def _content(path: Path) -> bytes | None:
    try:
        refuse_other_than_file(path)
        return path.read_bytes()
    except OSError:
        return None


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
