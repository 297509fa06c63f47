"""Writes a synthetic log of any size as a folder of Parquet files, piece by piece.

    python -m tools.large_log --users 138000 --items 27000 --reactions 10700000 --out /tmp/log

Popularity follows a power law, every user likes two of twenty groups of items more than the others, numbers of
reactions are lognormal, and stars depend on group and item. Each file holds some of the users, its rows are in the
order of time.
"""

from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np
import polars as pl

from igcf.arrays import FloatArray, IntArray

GROUPS = 20
USERS_PER_FILE = 25_000
DAY_S = 86_400
START_S = 1_577_836_800


@click.command()
@click.option("--users", type=int, required=True)
@click.option("--items", type=int, required=True)
@click.option("--reactions", type=int, required=True, help="About this many.")
@click.option("--seed", type=int, default=0)
@click.option("--out", type=click.Path(path_type=Path, exists=False), required=True)
def main(users: int, items: int, reactions: int, seed: int, out: Path) -> None:
    """Write the log."""
    out.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    group = rng.integers(GROUPS, size=items)
    popularity = (1.0 + rng.permutation(items)) ** -0.8
    quality = rng.normal(0.0, 0.6, items) + 0.15 * np.log(popularity / popularity.mean())
    members = [np.flatnonzero(group == each) for each in range(GROUPS)]
    tables = [(np.asarray(np.cumsum(popularity[own]) / popularity[own].sum()), own) for own in members]
    everything = np.cumsum(popularity) / popularity.sum()
    written = 0
    for start in range(0, users, USERS_PER_FILE):
        n = min(USERS_PER_FILE, users - start)
        frame = _piece(np.arange(start, start + n), reactions / users, (tables, everything), (group, quality), rng)
        frame.write_parquet(out / f"part-{start // USERS_PER_FILE:04d}.parquet")
        written += len(frame)
    click.echo(f"{out}: {written:,} reactions of {users:,} users to {items:,} items")


def _piece(
    rows: IntArray,
    mean: float,
    draws: tuple[Sequence[tuple[FloatArray, IntArray]], FloatArray],
    truth: tuple[IntArray, FloatArray],
    rng: np.random.Generator,
) -> pl.DataFrame:
    """Draw the reactions of some users."""
    tables, everything = draws
    group, quality = truth
    sigma = 0.9
    activity = np.clip(rng.lognormal(np.log(1.12 * mean) - sigma**2 / 2, sigma, len(rows)), 5, len(group) // 4)
    taste = rng.integers(GROUPS, size=(len(rows), 2))
    place = np.repeat(np.arange(len(rows)), activity.astype(np.int64))
    which = rng.choice(3, p=[0.4, 0.35, 0.25], size=len(place))  # from everything, or from one of two groups
    luck = rng.random(len(place))
    item = np.searchsorted(everything, luck)
    for each, (cumulated, own) in enumerate(tables):
        mask = (which > 0) & (taste[place, np.maximum(which - 1, 0)] == each)
        item[mask] = own[np.minimum(np.searchsorted(cumulated, luck[mask]), len(own) - 1)]
    item = np.minimum(item, len(group) - 1)
    place, item = np.divmod(np.unique(place * len(group) + item), len(group))
    is_own = (taste[place] == group[item][:, None]).any(axis=1)
    stars = np.clip(np.rint(3.0 + 0.9 * is_own + quality[item] + rng.normal(0.0, 0.9, len(item))), 1, 5)
    arrival, stay = 730 * DAY_S * rng.random(len(rows)), DAY_S * (1 + rng.exponential(20, len(rows)))
    times = (START_S + arrival[place] + rng.random(len(item)) * stay[place]).astype(np.int64)
    order = np.argsort(times, kind="stable")
    columns = {"user": rows[place], "item": item, "value": stars.astype(np.float32), "timestamp": times}
    return pl.DataFrame({name: column[order] for name, column in columns.items()})


if __name__ == "__main__":
    main()
