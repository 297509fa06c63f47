"""API keys: three roles, compared in constant time, never logged."""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from igcf.errors import ConfigError
from igcf.service.errors import AdminRequiredError, KeyRequiredError

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

    def check(self, headers: Mapping[str, str], *, needed: Role) -> None:
        """Let a request pass or refuse it; the admin key may do everything, that of the catalogue what clients may."""
        if not self.digests:
            return
        scheme, _, sent = headers.get("authorization", "").partition(" ")
        key = sent.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
        role = self._role(key)
        if role is None:
            raise KeyRequiredError("this server needs an API key; send it as 'Authorization: Bearer KEY'")
        if ROLES.index(role) < ROLES.index(needed):
            which = "the admin key" if needed == "admin" else "the admin key or one of kind 'catalogue'"
            raise AdminRequiredError(f"this needs {which}")

    def _role(self, key: str) -> Role | None:
        sent, found = _digest(key), None
        for role, digest in self.digests:  # all of them, so that the time says nothing
            if hmac.compare_digest(sent, digest):
                found = role
        return found


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
