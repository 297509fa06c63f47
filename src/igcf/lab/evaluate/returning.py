"""`returning`: cold-start users some of whose reactions were logged before the first round."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from igcf.data import Interactions
from igcf.data.splits import has_all_times
from igcf.errors import ConfigError, DataError

Part = Literal["random", "earliest"]
LOGGED = (1, 5, 20, 100)
"""Numbers of logged reactions that are tried."""


@dataclass(frozen=True)
class Start:
    """Number of reactions that were logged; their items are never shown, and the learner is told of them or not."""

    n_logged: int
    is_told: bool


def starts(counts: tuple[int, ...]) -> Iterator[tuple[str, Start | None]]:
    """Yield what is compared, with words for the tables: cold start, then with each number of logged reactions.

    Each number stands beside a cold start of the same users from which the same items are kept: some of what would
    satisfy a user is in the log and can be shown to nobody.
    """
    yield "", None
    for n in counts:
        yield f", cold without those {n}", Start(n, is_told=False)
        yield f", {n} logged", Start(n, is_told=True)


def compared_starts(label: str, labels: list[str]) -> list[str]:
    """Return what a row with logged reactions is compared with: both cold starts of the same method."""
    method, _, number = label.removesuffix(" logged").rpartition(", ")
    if not label.endswith(" logged"):
        return []
    return [each for each in (f"{method}, cold without those {number}", method) if each in labels]


def logged_part(record: Interactions, n: int, part: Part, *, rng: np.random.Generator) -> Interactions:
    """Return `n` reactions of each user, all where there are fewer; with the same `rng`, more contain fewer.

    `random` draws them, `earliest` takes the first in time, equal times in random order.
    """
    if n < 1:
        raise ConfigError(f"the number of logged reactions must be at least 1, got {n}")
    lots = rng.random(len(record))
    if part == "earliest":
        if not has_all_times(record) or record.timestamps is None:
            raise DataError(f"{record.name} has reactions without a time; take --part random")
        order = np.lexsort((lots, record.timestamps, record.user_idx))
    else:
        order = np.lexsort((lots, record.user_idx))
    counts = np.bincount(record.user_idx, minlength=record.n_users)
    place = np.empty(len(record), dtype=np.int64)
    place[order] = np.arange(len(record)) - (np.cumsum(counts) - counts)[record.user_idx[order]]
    return record.subset(place < n)
