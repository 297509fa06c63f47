"""What a scoring engine knows of its items: the two states and what each of them holds.

Tracked, shared with the prior --reaction--> Tracked, its own  (Stale where variances are not tracked)
any     --belief set, evidence forgotten--> Stale
Stale   --a few reactions, or variances asked for--> Tracked
Tracked --many reactions--> Tracked, computed anew
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np

from igcf.model import Model
from igcf.online.backend.types import Arrays, Block, Moments

T = TypeVar("T")


@dataclass(eq=False)
class Tracked:
    """Every reaction is carried over to the moments of all items."""

    moments: Moments  # means and variances of z, arrays of shape (users, items)
    is_prior: bool = False
    """Whether nothing was learned: beliefs and moments are the prior's, shared by all engines of a model, read-only."""
    n_updates: int = 0  # reactions since the moments were last computed from the beliefs

    @cached_property
    def first_user(self) -> Moments:
        """Views of the first user's moments, which take longer to make than to use."""
        return Moments(*(tuple([each[0] for each in part]) for part in self.moments))

    def owned(self) -> "Tracked":
        """Copy the moments, so that they can be updated."""
        return Tracked(Moments(*(tuple(np.array(each, order="C") for each in part) for part in self.moments)))


@dataclass(eq=False)
class Stale:
    """The beliefs changed and the items did not follow."""

    z: Arrays | None = None  # means of z, arrays of shape (users, items), once they were asked for
    n_updates: int = 0  # reactions since the belief was set


State = Tracked | Stale


def remembered(model: Model, what: str, key: Hashable, most: float, compute: Callable[[], T]) -> T:
    """Return what `compute` gives for a key, kept with the model until there are as many as `most`."""
    kept: dict[Hashable, T] = model.computed(what, dict)
    try:
        return kept[key]
    except KeyError:
        found = compute()
    if len(kept) >= most:
        kept.clear()
    kept[key] = found
    return found


def scored_blocks(model: Model, items: Arrays) -> tuple[Block, ...]:
    """Build the blocks of a model; `items` are the vectors of its scored channels in the precision of the engine."""
    found = []
    for span, numbers in model.blocks:
        channels = [model.channels[number] for number in numbers]
        places = tuple(place for place, number in enumerate(model.scored) if number in numbers)
        vectors, noise = tuple(each.vectors for each in channels), tuple(each.noise_var for each in channels)
        is_logit = np.array([each.link == "logit" for each in channels])
        found.append(Block(span.start, vectors, noise, is_logit, tuple(items[place] for place in places), places))
    return tuple(found)
