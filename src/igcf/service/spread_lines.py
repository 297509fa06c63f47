"""What waits in line for a database, where there are several: each has its own lines, and none waits for another.

Every class here has the interface of the one that it holds several of.
"""

from collections.abc import Callable
from contextlib import suppress

from igcf.errors import StoreError
from igcf.service.serving.group_commit import GroupCommit, Reaction, StoreAll
from igcf.service.store.audit import Answer, AuditLog
from igcf.service.store.audit_files import AuditFolder
from igcf.service.store.records import Receipt, Version
from igcf.service.store.spread import Spread
from igcf.service.store.store import Store
from igcf.service.store.versions import VersionReader


class SpreadVersions:
    """Reads versions, from each database those of its users."""

    def __init__(self, store: Spread) -> None:
        self._store = store
        self._readers = {part: VersionReader(part) for part in store.parts}

    async def version(self, user_id: str) -> Version:
        """Read the version of a user as the store has it now."""
        return await self._readers[self._store.of(user_id)].version(user_id)


class SpreadReactions:
    """Stores reactions, those of each database's users together."""

    def __init__(self, store: Spread, wait_s: float) -> None:
        self._store = store
        self._lines = {part: GroupCommit(wait_s) for part in store.parts}

    async def store(self, reaction: Reaction, store_all: StoreAll) -> Receipt:
        """Have a reaction stored."""
        return await self._lines[self._store.of(reaction.user_id)].store(reaction, store_all)

    def close(self) -> None:
        """Store what is in the lines, and stop."""
        for line in self._lines.values():
            line.close()


class SpreadAudit:
    """Audit logs of several databases; an answer goes to that of its user."""

    def __init__(self, store: Spread, make: Callable[[Store], AuditLog], folder: AuditFolder | None) -> None:
        self._store = store
        self._logs = {part: make(part) for part in store.parts}
        self.folder = folder

    def add(self, answer: Answer) -> None:
        """Take an answer."""
        self._logs[self._store.of(answer.user_id)].add(answer)

    @property
    def waiting(self) -> int:
        """Answers not yet written, where most of them wait."""
        return max(log.waiting for log in self._logs.values())

    def flush(self, user_id: str | None = None) -> None:
        """Write everything taken so far, or what waits for the database of one user."""
        logs = self._logs.values() if user_id is None else [self._logs[self._store.of(user_id)]]
        for log in logs:
            log.flush()

    def follow(self) -> dict[str, float]:
        """Take note of users deleted lately, in all databases that answer; returns their hashes, and when."""
        found: dict[str, float] = {}
        for part in self._store.living:
            with suppress(StoreError):
                found |= self._logs[part].follow()
        return found

    def close(self) -> None:
        """Write what is left and stop."""
        for log in self._logs.values():
            log.stop()
        for log in self._logs.values():
            log.close()
