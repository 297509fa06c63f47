"""Logs out of which some items are hidden, and the users from whom they are learned."""

from dataclasses import replace
from typing import Any, Literal

import numpy as np

from igcf.arrays import BoolArray
from igcf.data import Interactions
from igcf.data.splits import ColdStart
from igcf.errors import DataError

Part = Literal["lot", "newest"]
VALIDATION_SEED = 99
"""Draws the items on which settings were chosen; no other draw hides them."""


def hidden_items(data: Interactions, share: float, part: Part, seed: int, *, is_validation: bool = False) -> BoolArray:
    """Return which items are new, (items,): drawn by lot, or those that appeared last.

    Settings are chosen on items of a draw of their own (`is_validation`), which no seed hides.
    """
    n = max(1, round(share * data.n_items))
    result = np.zeros(data.n_items, dtype=np.bool_)
    first = data.first_appearances()
    if part == "newest" and first is not None:
        result[np.argsort(first, kind="stable")[-n:]] = True
        return result
    order = np.random.default_rng(VALIDATION_SEED).permutation(data.n_items)
    chosen = order[:n] if is_validation else np.random.default_rng([seed, 7]).permutation(order[n:])[:n]
    result[chosen] = True
    return result


def without_items(data: Interactions, rows: BoolArray) -> Interactions:
    """Return the log without the items at `rows`, whose rows are closed up."""
    kept = np.flatnonzero(~rows)
    place = np.cumsum(~rows) - 1
    part = data.subset(~rows[data.item_idx])
    return replace(
        part,
        item_idx=place[part.item_idx].astype(np.int32),
        item_ids=tuple(data.item_ids[row] for row in kept),
        titles=None if data.titles is None else tuple(data.titles[row] for row in kept),
        categories=None if data.categories is None else tuple(data.categories[row] for row in kept),
        attributes=None if data.attributes is None else data.attributes.taken(kept.tolist()),
    )


def data_item(data: Interactions, row: int) -> dict[str, Any]:
    """Return how the log describes one item."""
    attributes = {} if data.attributes is None else {"numbers": data.attributes.of(row)["numbers"]}
    return {
        "id": data.item_ids[row],
        "title": None if data.titles is None else data.titles[row],
        "categories": () if data.categories is None else data.categories[row],
        **attributes,
    }


def arriving_users(data: Interactions, split: ColdStart) -> Interactions:
    """The users from whom items are learned: nobody of the training, validation or test users, in order of time."""
    known = {*split.train.user_ids, *split.validation.user_ids, *split.test.user_ids}
    users = np.array([row for row, user_id in enumerate(data.user_ids) if user_id not in known], dtype=np.int64)
    if not len(users):
        raise DataError(f"{data.name} has no users left to learn new items from; lower --users")
    if data.timestamps is not None:
        first = np.full(data.n_users, np.iinfo(np.int64).max)
        np.minimum.at(first, data.user_idx, data.timestamps)
        users = users[np.argsort(first[users], kind="stable")]
    return data.only_users(users)
