"""Logs as people have them, none of them five stars: each generator returns a table as its owner would export it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

N_USERS, N_ITEMS, N_GROUPS, N_REACTIONS = 300, 120, 6, 30


@dataclass(frozen=True)
class Choices:
    """Who met what, and how well it suits their taste."""

    users: npt.NDArray[np.integer[Any]]
    items: npt.NDArray[np.integer[Any]]
    taste: npt.NDArray[np.float64]
    """Standard normal over all reactions: high where the item is of a group that the user likes."""
    rng: np.random.Generator


def choices(seed: int = 0) -> Choices:
    """Let every user like two of six groups of items, and meet what is popular or of these groups."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, N_GROUPS, N_ITEMS)
    popular = rng.permutation(N_ITEMS) < N_ITEMS // 4
    users, items, taste = [], [], []
    for user in range(N_USERS):
        suits = np.isin(group, rng.choice(N_GROUPS, 2, replace=False))
        weight = 0.3 + 1.0 * popular + 3.0 * suits
        met = rng.choice(N_ITEMS, N_REACTIONS, replace=False, p=weight / weight.sum())
        users.append(np.full(N_REACTIONS, user))
        items.append(met)
        taste.append(2.0 * suits[met] + 0.5 * rng.standard_normal(N_REACTIONS))
    score = np.concatenate(taste)
    order = rng.permutation(len(score))
    score = (score - score.mean()) / score.std()
    return Choices(np.concatenate(users)[order], np.concatenate(items)[order], score[order], rng)


def play_counts() -> pl.DataFrame:
    """Plays of artists, 1 to 352,698: users and artists of very different scale."""
    each = choices()
    scale = each.rng.normal(0.0, 0.8, N_USERS)[each.users] + each.rng.normal(0.0, 0.5, N_ITEMS)[each.items]
    plays = np.clip(np.floor(np.exp(5.0 + 1.2 * each.taste + scale)), 1, None).astype(np.int64)
    plays[plays.argmax()] = 352_698
    return pl.DataFrame({"userID": each.users + 2, "artistID": each.items + 51, "weight": plays})


def implicit() -> pl.DataFrame:
    """Purchases without any value; people seldom buy what does not suit them."""
    each = choices()
    is_bought = each.rng.random(len(each.taste)) < 1.0 / (1.0 + np.exp(-2.0 * each.taste))
    day = pl.date_range(pl.date(2024, 1, 1), pl.date(2024, 12, 30), eager=True)
    dates = day.gather(np.arange(len(each.users)) * len(day) // len(each.users))
    table = pl.DataFrame({"customer_id": each.users, "sku": [f"p{item}" for item in each.items], "date": dates})
    return table.filter(is_bought)


def zero_one() -> pl.DataFrame:
    """Thumbs up and down."""
    each = choices()
    return pl.DataFrame({"uid": each.users, "video_id": each.items, "like": (each.taste > 0).astype(int)})


def halves() -> pl.DataFrame:
    """Jester-like ratings from -10 to 10 in halves."""
    each = choices()
    values = np.clip(np.round(2.0 * (1.0 + 4.0 * each.taste)) / 2.0, -10.0, 10.0)
    return pl.DataFrame({"user": each.users, "joke_id": each.items, "rating": values})


def rare_fives() -> pl.DataFrame:
    """Stars of which only 3 % are five."""
    each = choices()
    stars = 1 + np.searchsorted(np.quantile(each.taste, [0.1, 0.25, 0.55, 0.97]), each.taste)
    return pl.DataFrame({"reviewerID": each.users, "asin": [f"B{item:04}" for item in each.items], "overall": stars})


LOGS: dict[str, Callable[[], pl.DataFrame]] = {
    each.__name__: each for each in (play_counts, implicit, zero_one, halves, rare_fives)
}
