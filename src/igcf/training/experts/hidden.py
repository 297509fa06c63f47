"""Held-out users with some of their successes hidden, on which is chosen what serves known users.

A product asks what a user will like later. What is hidden at random lies between the given reactions instead, and is
found best by other settings (docs/maths/known-users.md).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from igcf.arrays import BoolArray, Float32Array, IntArray
from igcf.config import HiddenSuccesses
from igcf.data.interactions import MISSING_TIME, Interactions
from igcf.model import Model
from igcf.online.evidence import NO_ROWS
from igcf.training.experts.shared_log import Part

HIDDEN = 0.2  # share of a user's successes that is hidden at random
DRAWS = 2  # different draws of the hidden successes of a user: one alone is too noisy for sparse logs
MOST_USERS = 150  # users to choose on, at most; they are drawn, because the most active ones are not typical
MOMENTS = (0.5, 0.6, 0.7, 0.8, 0.9)  # shares of the reactions before the moments after which successes are hidden
FEWEST_BEFORE = 5  # reactions before the moment of a user who is chosen on
FEWEST_RETURNING = 10  # users with successes after a moment; with fewer of them successes are hidden at random


class Draw(NamedTuple):
    """What is left of a user's record, and the successes that are hidden."""

    rows: IntArray  # rows of the items that are left
    values: Float32Array  # the reactions to them
    later: IntArray  # rows of the items that appeared only after the record
    hidden: IntArray  # rows of the hidden successes


def hidden_successes(model: Model, held_out: Interactions, seed: int, which: HiddenSuccesses) -> list[Draw]:
    """Hide a part of what satisfied some users, in several draws each.

    The latest successes of a user are those after a moment of the log. They are hidden where all reactions have times
    and enough users return, else as many are hidden at random.

    Args:
        model: Model of users other than these.
        held_out: Reactions of these users to the model's items.
        seed: Seed of the draws.
        which: Successes to hide.
    """
    part = Part.of(held_out)
    is_success = np.asarray(model.reward.is_satisfied(part.values))
    if which == "latest" and part.times is not None and (part.times != MISSING_TIME).all():
        draws = _after_moments(model, part, part.times, is_success, seed)
        if len(draws) >= FEWEST_RETURNING:
            return [draw for of_user in draws for draw in of_user]
    rng = np.random.default_rng(seed)
    return [draw for user in _drawn(part.kept(NO_ROWS), seed) for draw in _at_random(part, is_success, user, rng)]


def on_items(log: Interactions, items: IntArray | None) -> Interactions:
    """Return the reactions to some items, given by ascending rows, which become items 0, 1, ...; None: to all."""
    if items is None:
        return log
    kept = log.subset(np.isin(log.item_idx, items))
    ids = tuple(log.item_ids[row] for row in items)
    row = np.searchsorted(items, kept.item_idx).astype(np.int32)
    return replace(kept, item_ids=ids, item_idx=row, titles=None, categories=None, attributes=None)


def _drawn(users: IntArray, seed: int) -> IntArray:
    """All users or, where there are too many, some that are drawn."""
    if len(users) <= MOST_USERS:
        return users
    return np.sort(np.random.default_rng(seed).choice(users, MOST_USERS, replace=False))


def _at_random(part: Part, is_success: BoolArray, user: int, rng: np.random.Generator) -> list[Draw]:
    """Hide a share of a user's successes at random; nobody is left without a success."""
    own = slice(part.indptr[user], part.indptr[user + 1])
    rows, values = part.items[own].astype(np.int64), part.values[own]
    liked, draws = rows[is_success[own]], []
    for _ in range(DRAWS if len(liked) > 1 else 0):
        hidden = rng.choice(liked, max(round(HIDDEN * len(liked)), 1), replace=False)
        is_left = ~np.isin(rows, hidden)
        draws.append(Draw(rows[is_left], values[is_left], NO_ROWS, hidden))
    return draws


def _after_moments(
    model: Model, part: Part, times: IntArray, is_success: BoolArray, seed: int
) -> Sequence[Sequence[Draw]]:
    """Hide what users liked after a moment, for some moments that lie between their reactions; by user."""
    moments = np.unique(np.quantile(times, MOMENTS, method="lower")) if len(times) else NO_ROWS
    rng, found = np.random.default_rng(seed), []
    for user in part.kept(NO_ROWS):
        own = slice(part.indptr[user], part.indptr[user + 1])
        n_before = (times[own, None] < moments).sum(axis=0)
        n_later = (times[own][is_success[own], None] >= moments).sum(axis=0)
        between = np.flatnonzero((n_before >= FEWEST_BEFORE) & (n_later > 0))
        draws = [_cut(model, part, times, is_success, own, moments[at]) for at in rng.permutation(between)[:DRAWS]]
        if draws := [draw for draw in draws if len(draw.hidden)]:
            found.append(draws)
    return [found[place] for place in _drawn(np.arange(len(found)), seed)]


def _cut(model: Model, part: Part, times: IntArray, is_success: BoolArray, own: slice, moment: int) -> Draw:
    """A user's record before a moment, and the later successes on items that somebody had reacted to by then."""
    rows, is_before = part.items[own].astype(np.int64), times[own] < moment
    later = NO_ROWS if model.appeared is None else np.flatnonzero(model.appeared >= moment)
    hidden = rows[~is_before & is_success[own]]
    left = rows[is_before]
    return Draw(left, part.values[own][is_before], np.setdiff1d(later, left), hidden[~np.isin(hidden, later)])
