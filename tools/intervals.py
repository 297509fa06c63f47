"""Do intervals widen with ignorance? Shares of satisfied new users per item, by how well the items are known.

A new user's own probability cannot be observed, the share of new users whom an item satisfies can. For them the chance
is the item's expected share, and its uncertainty is the item's part of an interval: the user's part averages out. The
realised share of m users is compared with the predicted distribution of such shares; its central 80 % should hold
four of five items; a share of few users is discrete, so it counts by the part of its own probability that lies inside.
A tenth of the items is new on purpose: no reaction to them is learned from. Splits are repeated until
enough of them are tested.

    python -m tools.intervals ml-1m --thin 0.1 --seed 10
"""

from collections.abc import Callable
from typing import Any

import click
import numpy as np

from igcf.arrays import Float32Array, FloatArray
from igcf.cli.options import SATISFIED, SEED
from igcf.cli.output import echo, note
from igcf.data import Interactions, load_dataset
from igcf.errors import ConfigError
from igcf.model import Model
from igcf.online import Recommender
from igcf.tables import Table, as_markdown
from igcf.training import pretrain

CLASSES = (("new", 0, 0), ("1-5", 1, 5), ("6-20", 6, 20), ("21-100", 21, 100), ("more", 101, 1 << 60))
"""Names, and least and most reactions in training."""
HELD_OUT = 0.1
"""Share of the users who are tested, and of the items that are new to the model."""
LEVEL = 0.8
TOLERANCE = 0.05
"""Largest difference of the coverage from `LEVEL`, or twice its standard error where there are few items."""
N_PARTS = 10
"""Number of bins of the best-known items by chance; mean widths are interpolated between bins."""
ENOUGH_NEW, MOST_SPLITS = 100, 5
"""New items that are tested at least, unless that takes more splits."""
Train = Callable[[Interactions, int], Model]


def split_off(data: Interactions, *, thin: float = 1.0, seed: int = 0) -> tuple[Interactions, Interactions]:
    """Split a tenth of the users off at random, and learn nothing of a tenth of the items.

    Of the other reactions a share `thin` is kept.
    """
    rng = np.random.default_rng(seed)
    users = rng.permutation(data.n_users)
    k = int(np.ceil(HELD_OUT * data.n_users))
    rest, is_new = data.only_users(np.sort(users[k:])), rng.random(data.n_items) < HELD_OUT
    is_kept = ~is_new[rest.item_idx] & (rng.random(len(rest.values)) < thin)
    return rest.subset(is_kept), data.only_users(np.sort(users[:k]))


def measure_intervals(data: Interactions, train: Train, *, thin: float = 1.0, seed: int = 0) -> list[dict[str, Any]]:
    """Train a model on one split after the other until enough new items are tested, and return one row per class."""
    found: list[FloatArray] = []
    for number in range(MOST_SPLITS):
        rest, held_out = split_off(data, thin=thin, seed=seed + number)
        found.append(items_tested(train(rest, seed + number), held_out.dense()))
        if sum(int((each[:, 0] == 0).sum()) for each in found) >= ENOUGH_NEW:
            break
    return interval_rows(np.concatenate(found))


def items_tested(model: Model, truth: Float32Array) -> FloatArray:
    """Compare the realised shares of held-out users, (users, items) with NaN, with what the model says of new users.

    Returns one line per item with a reaction: reactions in training, held-out reactions, successes of these, chance,
    how much of the share is in its interval, width of that interval, width from `low` to `high`.
    """
    from scipy.stats import beta, betabinom

    shares = model.calibration.shares
    if model.reactions is None or shares is None:
        raise ConfigError("this model has no counts of reactions; train it again")
    counts, m = model.reactions[:, 0], (~np.isnan(truth)).sum(axis=0)
    s = model.reward.is_satisfied(truth).sum(axis=0)
    a, b = shares.of(model.reactions, counts == 0)
    chances = Recommender(model).session().chances()
    below, own = betabinom.cdf(s - 1, m, a, b), np.maximum(betabinom.pmf(s, m, a, b), 1e-300)
    ends = [np.clip(below + part, 0.5 - LEVEL / 2, 0.5 + LEVEL / 2) for part in (0.0, own)]
    is_within = (ends[1] - ends[0]) / own
    low, high = (beta.ppf(level, a, b) for level in (0.1, 0.9))
    columns = (counts, m, s, chances.chance, is_within, high - low, chances.high - chances.low)
    return np.asarray(np.stack(columns, axis=1)[m > 0], dtype=np.float64)


def interval_rows(items: FloatArray) -> list[dict[str, Any]]:
    """Return coverage and widths of each class of items.

    An interval is narrower where the chance is extreme, whatever is known. `relative_width` is therefore the mean
    width relative to that of the best known class at the same chance.
    """
    classes = {name: (items[:, 0] >= least) & (items[:, 0] <= most) for name, least, most in CLASSES}
    *_, best = (items[own] for own in classes.values() if own.any())
    parts = np.array_split(best[np.argsort(best[:, 3])], min(N_PARTS, len(best)))
    chances, widths = ([float(part[:, column].mean()) for part in parts] for column in (3, 6))
    usual = np.interp(items[:, 3], chances, widths)
    found = []
    for name, is_own in classes.items():
        if not is_own.any():
            continue
        _, m, s, chance, is_within, width_of_share, width = (own := items[is_own]).T
        tolerance = max(TOLERANCE, 2.0 * float(np.sqrt(LEVEL * (1.0 - LEVEL) / len(own))))
        found.append(
            {
                "reactions": name,
                "items": len(own),
                "held_out": int(m.sum()),
                "satisfied": float(s.sum() / m.sum()),
                "chance": float((chance * m).sum() / m.sum()),
                "within": float(is_within.mean()),
                "tolerance": tolerance,
                "is_met": bool(abs(is_within.mean() - LEVEL) <= tolerance),
                "width_of_share": float(width_of_share.mean()),
                "width": float(width.mean()),
                "relative_width": float((width / usual[is_own]).mean()),
            }
        )
    return found


def interval_table(dataset: str, rows: list[dict[str, Any]]) -> Table:
    """Build the table of intervals by number of reactions."""
    header = (
        "reactions",
        "items",
        "held out",
        "satisfied",
        "chance",
        "shares in 80 %",
        "tolerance",
        "width of share",
        "low to high",
        "at equal chance",
    )
    numbers = ("satisfied", "chance", "within", "tolerance", "width_of_share", "width", "relative_width")
    lines = [
        (row["reactions"], str(row["items"]), str(row["held_out"]), *(f"{row[name]:.3f}" for name in numbers))
        for row in rows
    ]
    return Table(f"{dataset}, intervals of new users by reactions to the item in training", header, tuple(lines))


@click.command()
@click.argument("dataset")
@click.option("--thin", default=1.0, show_default=True, help="Share of the reactions to learn from.")
@SATISFIED
@SEED
def main(dataset: str, thin: float, satisfied: float | None, seed: int) -> None:
    """Compare intervals of new users with what comes true, by how well the items are known."""

    def train(rest: Interactions, own_seed: int) -> Model:
        note(f"learning from {len(rest.values):,} reactions of {rest.n_users:,} users, split {own_seed}")
        return pretrain(rest, satisfied=satisfied, seed=own_seed)

    data = load_dataset(dataset)
    echo(as_markdown(interval_table(data.name, measure_intervals(data, train, thin=thin, seed=seed))))


if __name__ == "__main__":
    main()
