"""The serial model of one user: what a log, receipts and refusals are when requests come one after the other."""

from dataclasses import dataclass, field

Outcome = tuple[str, int]
"""Outcome of a request (`stored`, `duplicate`, `conflict`, `unknown`), and the revision it names; 0: none."""


@dataclass(frozen=True)
class Ask:
    """One request: a reaction, several at once, or the retraction of one."""

    events: tuple[tuple[str, str, float], ...] = ()
    """Event id, item, value."""
    retracts: str | None = None


@dataclass
class SerialUser:
    """The log of one user as a list."""

    rows: list[tuple[str | None, str | None, float | None, str | None]] = field(default_factory=list)
    """Event id, item, value, and what is taken back."""

    def ask(self, ask: Ask) -> list[Outcome]:
        """Carry out a request."""
        if ask.retracts is not None:
            return [self._retract(ask.retracts)]
        return [self._react(*event) for event in ask.events]

    def _react(self, event_id: str, item: str, value: float) -> Outcome:
        known = {row[0]: (row[1], row[2]) for row in self.rows if row[0] is not None}
        if event_id not in known:
            self.rows.append((event_id, item, value, None))
            return "stored", len(self.rows)
        return ("duplicate", len(self.rows)) if known[event_id] == (item, value) else ("conflict", 0)

    def _retract(self, event_id: str) -> Outcome:
        if not any(row[0] == event_id for row in self.rows):
            return "unknown", 0
        taken_back = [row[3] for row in self.rows]
        if event_id in taken_back:  # before: the answer is the same
            return "stored", taken_back.index(event_id) + 1
        self.rows.append((None, None, None, event_id))
        return "stored", len(self.rows)

    def in_force(self) -> list[tuple[str, float]]:
        """Items and values that count."""
        gone = {row[3] for row in self.rows}
        return [(row[1], row[2]) for row in self.rows if row[1] and row[2] is not None and row[0] not in gone]
