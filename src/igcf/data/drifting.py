"""A synthetic log in which popularity drifts: items appear, are popular for some weeks, and fade."""

import numpy as np

from igcf.arrays import FloatArray, IntArray
from igcf.data.interactions import Interactions
from igcf.data.synthetic import (
    CHOICE_WEIGHT,
    DAY_S,
    GENRES,
    START_S,
    _item_tastes,
    _popularity_and_quality,
    _satisfaction,
    _stars,
    invented_titles,
)

DAYS = 730
FADE_DAYS = 90.0
"""Days after which an item's popularity has fallen to 1 / e."""
FLOOR = 0.02
"""Share of its first popularity that an item never falls below."""


def drifting_catalogue(*, n_users: int = 1200, n_items: int = 800, seed: int = 0) -> Interactions:
    """Return a log of returning users over two years; what they choose follows their taste and what is popular then."""
    rng = np.random.default_rng(seed)
    popularity, quality = _popularity_and_quality(n_items, rng)
    item_tastes = _item_tastes(n_items, rng)
    tastes = rng.dirichlet(np.full(len(GENRES), 0.25), size=n_users)
    stars = _stars(_satisfaction(tastes, item_tastes, quality), rng.random((n_users, n_items)))
    released = np.where(rng.random(n_items) < 0.2, -FADE_DAYS, rng.uniform(-FADE_DAYS, DAYS, n_items))
    activity = np.clip(rng.lognormal(np.log(45), 0.9, size=n_users), 12, n_items // 4).astype(np.int64)
    users, items, times = [], [], []
    for user in range(n_users):
        days = np.sort(rng.uniform(0, DAYS, activity[user]))
        chosen = _chosen(np.log(popularity) + CHOICE_WEIGHT * item_tastes @ tastes[user], released, days, rng)
        users.append(np.full(len(chosen), user))
        items.append(chosen)
        times.append(days)
    user_idx, item_idx, when = (np.concatenate(part) for part in (users, items, times))
    order = np.argsort(when, kind="stable")
    strongest = np.argsort(-item_tastes, axis=1, kind="stable")
    genres = [[GENRES[g] for g in strongest[item] if item_tastes[item, g] > 0] for item in range(n_items)]
    return Interactions(
        user_ids=tuple(f"u{row:04d}" for row in range(n_users)),
        item_ids=tuple(f"i{row:04d}" for row in range(n_items)),
        user_idx=user_idx[order].astype(np.int32),
        item_idx=item_idx[order].astype(np.int32),
        values=stars[user_idx, item_idx][order],
        timestamps=(START_S + DAY_S * when[order]).astype(np.int64),
        titles=invented_titles([names[0] for names in genres], rng=rng),
        categories=tuple(tuple(names) for names in genres),
        name="synthetic-drift",
    )


def _chosen(appeal: FloatArray, released: FloatArray, days: FloatArray, rng: np.random.Generator) -> IntArray:
    """Choose one item per day, none twice: by appeal, by what is popular on that day, and by chance."""
    left, found = np.ones(len(appeal), dtype=np.bool_), np.empty(len(days), dtype=np.int64)
    for place, day in enumerate(days):
        age = day - released
        trend = np.log(FLOOR + (1.0 - FLOOR) * np.exp(-np.maximum(age, 0.0) / FADE_DAYS))
        score = appeal + trend + rng.gumbel(size=len(appeal))
        found[place] = int(np.argmax(np.where(left & (age >= 0), score, -np.inf)))
        left[found[place]] = False
    return found
