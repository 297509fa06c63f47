"""Which arm a user is in: a hash of experiment and user, and who has which part of its range."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import accumulate
from math import isfinite

from igcf.errors import ConfigError

PARTS = 1_000_000  # shares are whole multiples of one part in so many


def point(experiment: str, user_id: str) -> int:
    """Hash a user to one of `PARTS` places, uniformly, and independently from one experiment to the next."""
    text = f"{len(experiment)}:{experiment}{user_id}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=8).digest()) * PARTS >> 64


def parts_of(shares: Mapping[str, float]) -> dict[str, int]:
    """Turn shares into whole parts that add up exactly; shares that do not add up to 1 are refused."""
    for arm, share in shares.items():
        if not (isfinite(share) and 0 <= share <= 1):
            raise ConfigError(f"the share of arm {arm!r} is {share:g}; expected a number from 0 to 1")
    total = sum(shares.values())
    if abs(total - 1) > 1 / PARTS:
        raise ConfigError(f"the shares of the arms add up to {total:g}; expected 1")
    ends = [round(end * PARTS) for end in accumulate(shares.values())]
    ends[-1] = PARTS
    return {name: end - start for name, start, end in zip(shares, [0, *ends], ends, strict=False)}


@dataclass(frozen=True)
class Layout:
    """Who has which part of the range, as (length, arm) from 0 on; lengths add up to `PARTS`."""

    cells: tuple[tuple[int, str], ...]

    @classmethod
    def first(cls, shares: Mapping[str, float]) -> "Layout":
        """Lay the arms side by side, in their order."""
        return cls(tuple((length, arm) for arm, length in parts_of(shares).items() if length))

    def changed(self, shares: Mapping[str, float]) -> "Layout":
        """Return the layout with other shares, moving as few users as these allow.

        An arm that shrinks gives up the end of what it has; users in an arm that does not shrink stay in it.
        """
        wanted = parts_of(shares)
        now = {arm: sum(length for length, each in self.cells if each == arm) for arm in wanted}
        surplus = {arm: max(0, now[arm] - wanted[arm]) for arm in wanted}
        missing = [(wanted[arm] - now[arm], arm) for arm in wanted if wanted[arm] > now[arm]]
        cells: list[tuple[int, str]] = []
        for length, arm in reversed(self.cells):
            given = min(length, surplus[arm])
            surplus[arm] -= given
            kept = length - given
            while given:
                needed, taker = missing.pop()
                part = min(needed, given)
                cells.append((part, taker))
                given -= part
                if needed > part:
                    missing.append((needed - part, taker))
            cells += [(kept, arm)] if kept else []
        return Layout(tuple(reversed(cells)))

    def arm(self, place: int) -> str:
        """Find the arm that has a place of the range."""
        for length, arm in self.cells:
            if place < length:
                return arm
            place -= length
        raise ValueError(f"{place} places beyond the range")

    def edges(self) -> list[int]:
        """Return where cells begin."""
        return [0, *accumulate(length for length, _ in self.cells[:-1])]


def unmoved(layouts: Sequence[Layout]) -> dict[str, int]:
    """Count by arm the parts of the range that were in this one arm all along."""
    edges = sorted({edge for layout in layouts for edge in layout.edges()})
    kept = dict.fromkeys((arm for _, arm in layouts[-1].cells), 0)
    for start, end in zip(edges, [*edges[1:], PARTS], strict=True):
        arm = layouts[-1].arm(start)
        if all(layout.arm(start) == arm for layout in layouts):
            kept[arm] += end - start
    return kept
