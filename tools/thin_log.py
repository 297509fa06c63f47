"""Write a log as thin as public book ratings: many users and items, most of them with one reaction, most values 0.

The sizes are those of Book-Crossing: 1,149,780 rows, 105,283 users (56 % with one reaction), 340,556 items (58 %),
62 % of the values 0 (seen without an opinion), the others 1 to 10. Readers and books belong to groups; readers prefer
the books of two groups and grade them higher.

    python -m tools.thin_log --out thin.csv --items books.csv
    python -m tools.thin_log --out small.csv --scale 0.05
"""

from pathlib import Path

import click
import numpy as np
import polars as pl

from igcf.arrays import IntArray

ROWS, USERS, ITEMS = 1_149_780, 105_283, 340_556
SINGLE_USERS, SINGLE_ITEMS = 0.56, 0.58
MOST_OF_USER, MOST_OF_ITEM = 13_602, 2_502
UNRATED = 0.62
GROUPS = 24
OWN_GROUPS = 0.8
"""Share of a reader's books that belong to one of the reader's two groups."""


def thin_log(scale: float = 1.0, *, seed: int = 0) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the log (columns User-ID, ISBN, Book-Rating) and the table of items (ISBN, Title, Category)."""
    rng = np.random.default_rng(seed)
    rows, n_users, n_items = (round(scale * each) for each in (ROWS, USERS, ITEMS))
    users = np.repeat(np.arange(n_users), _counts(n_users, rows, SINGLE_USERS, round(scale * MOST_OF_USER), rng))
    items = np.repeat(np.arange(n_items), _counts(n_items, rows, SINGLE_ITEMS, round(scale * MOST_OF_ITEM), rng))
    group_of_item = rng.integers(0, GROUPS, n_items)
    own = rng.integers(0, GROUPS, (n_users, 2))
    wanted = own[users, rng.integers(0, 2, rows)]
    wanted = np.where(rng.random(rows) < OWN_GROUPS, wanted, rng.integers(0, GROUPS, rows))
    users = users[np.lexsort((rng.random(rows), wanted))]
    items = items[np.lexsort((rng.random(rows), group_of_item[items]))]
    _exchange_repeats(users, items, rng)
    suits = (own[users] == group_of_item[items][:, None]).any(axis=1)
    grade = 6.5 + 1.5 * suits + rng.normal(0.0, 1.0, n_items)[items] + rng.normal(0.0, 1.5, rows)
    values = np.where(rng.random(rows) < UNRATED, 0, np.clip(np.round(grade), 1, 10)).astype(np.int64)
    order = rng.permutation(rows)
    isbn = pl.Series("ISBN", np.arange(n_items)).cast(pl.String).str.zfill(10)  # ids with leading zeros
    log = pl.DataFrame({"User-ID": users[order] + 2, "ISBN": isbn.gather(items[order]), "Book-Rating": values[order]})
    titles = pl.Series("Title", [f"Book {number}" for number in range(n_items)])
    return log, pl.DataFrame([isbn, titles, pl.Series("Category", [f"shelf {group + 1}" for group in group_of_item])])


def _counts(n: int, total: int, single: float, most: int, rng: np.random.Generator) -> IntArray:
    """Return how often each of `n` occurs: a share once, the others by a power law that adds up to the total."""
    n_single = round(single * n)
    sizes = np.arange(2, max(most, 3) + 1)
    wanted = (total - n_single) / (n - n_single)
    low, high = 0.5, 6.0
    for _ in range(60):  # the larger the exponent, the smaller the mean
        exponent = (low + high) / 2
        weights = sizes**-exponent
        low, high = (exponent, high) if (sizes * weights).sum() / weights.sum() > wanted else (low, exponent)
    counts = np.ones(n, dtype=np.int64)
    counts[n_single:] = rng.choice(sizes, n - n_single, p=weights / weights.sum())
    while (missing := total - int(counts.sum())) != 0:
        free = np.flatnonzero((counts > 2) & (counts < most) if missing < 0 else (counts > 1) & (counts < most))
        chosen = rng.choice(free, min(abs(missing), len(free)), replace=False)
        counts[chosen] += np.sign(missing)
    return rng.permutation(counts)


def _exchange_repeats(users: IntArray, items: IntArray, rng: np.random.Generator) -> None:
    """Exchange items between rows, in place, until no reader has the same book twice."""
    for _ in range(1000):
        pair = users * (items.max() + 1) + items
        order = np.argsort(pair, kind="stable")
        repeats = order[1:][pair[order][1:] == pair[order][:-1]]
        if not len(repeats):
            return
        others = rng.choice(len(items), len(repeats), replace=False)
        for row, other in zip(repeats.tolist(), others.tolist(), strict=True):
            items[row], items[other] = items[other], items[row]
    raise RuntimeError("the log has too few items for its most active readers; choose a larger --scale")


@click.command()
@click.option("--out", required=True, type=click.Path(path_type=Path), help="CSV file to write, with semicolons.")
@click.option("--items", type=click.Path(path_type=Path), help="CSV file of titles and categories to write.")
@click.option("--scale", default=1.0, show_default=True, type=click.FloatRange(0.001, 10), help="Share of the sizes.")
@click.option("--seed", default=0, show_default=True)
def main(out: Path, items: Path | None, scale: float, seed: int) -> None:
    """Write the log, and the table of its items."""
    log, table = thin_log(scale, seed=seed)
    log.write_csv(out, separator=";", quote_style="always")
    if items is not None:
        table.write_csv(items, separator=";", quote_style="always")
    single = (log["ISBN"].value_counts()["count"] == 1).sum() / log["ISBN"].n_unique()
    click.echo(
        f"{out}: {log.height:,} rows, {log['User-ID'].n_unique():,} users, {log['ISBN'].n_unique():,} items, "
        f"{single:.0%} of them with one reaction, {(log['Book-Rating'] == 0).sum() / log.height:.0%} of the values 0"
    )


if __name__ == "__main__":
    main()
