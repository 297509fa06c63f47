"""Reading the audit: every item that was shown, beside the reaction to it."""

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import sqlalchemy as sa

from igcf.errors import StoreError
from igcf.service.store.database import Database
from igcf.service.store.snapshots import rows_of, snapshot
from igcf.service.store.store import Store
from igcf.service.store.tables import feedback, recommendations

if TYPE_CHECKING:
    import polars as pl

AT_ONCE = 20_000
"""Answers of a database in one frame."""


def schema() -> "dict[str, pl.DataType]":
    """Name the columns of the audit and their types."""
    import polars as pl

    numbers = {name: pl.Float64() for name in ("score", "mean", "std", "chance")}
    item = {"item": pl.String(), **numbers, "mean_rank": pl.Int64(), "reason": pl.String(), "propensity": pl.Float64()}
    texts = {name: pl.String() for name in ("recommendation_id", "user_id", "model")}
    return {
        **texts,
        "revision": pl.Int64(),
        "policy": pl.String(),
        "propensity": pl.String(),
        "items": pl.List(pl.Struct(item)),
        "size": pl.Int64(),
        "time": pl.Float64(),
    }


def read_answers(database: Database) -> "Iterator[pl.DataFrame]":
    """Read the answers in the audit, a few at a time."""
    import polars as pl

    columns = schema()
    with snapshot(database) as connection:
        rows = rows_of(connection, sa.select(*(recommendations.c[name] for name in columns)))
        part: list[dict[str, object]] = []
        for row in rows:
            try:
                part.append(dict(row._mapping) | {"items": json.loads(row.items)})
            except (ValueError, RecursionError) as error:
                raise StoreError(f"answer {row.recommendation_id} of {database.name} cannot be read") from error
            if len(part) == AT_ONCE:
                yield pl.DataFrame(part, schema=columns)
                part = []
        yield pl.DataFrame(part, schema=columns)


def shown_items(store: Store) -> "Iterator[pl.DataFrame]":
    """Read every item that was shown with an answer, with the value of the reaction to it.

    `has_reacted` tells whether there is a reaction in force that names the answer; its value is null where the item was
    shown and drew none, as the caller said. A skip is no reaction.
    """
    import polars as pl

    log, taken_back = feedback.c, feedback.alias("taken_back")
    is_retracted = sa.exists().where(taken_back.c.user_id == log.user_id, taken_back.c.retracts == log.event_id)
    query = sa.select(log.recommendation_id, log.item_id, sa.func.max(log.value)).where(
        log.recommendation_id.is_not(None), log.evidence == "shown", ~is_retracted
    )
    grouped = query.group_by(log.recommendation_id, log.item_id)
    rows = [tuple(row) for row in store.database.read(lambda connection: connection.execute(grouped).all())]
    kinds = {"recommendation_id": pl.String(), "item": pl.String(), "value": pl.Float64()}
    reactions = pl.DataFrame(rows, schema=kinds, orient="row").with_columns(pl.lit(True).alias("has_reacted"))
    for frame in read_answers(store.database):
        named = frame.rename({"propensity": "propensity_kind"}).explode("items").unnest("items")
        joined = named.join(reactions, on=("recommendation_id", "item"), how="left")
        yield joined.with_columns(pl.col("has_reacted").fill_null(False))


def export_audit(store: Store, out: Path) -> int:
    """Write every item shown to a new Parquet file, with the reaction to it; return the number of rows."""
    import polars as pl

    if out.exists():
        raise StoreError(f"{out} exists; choose another name")
    n = 0
    with TemporaryDirectory(dir=out.parent, prefix=".audit-") as folder:
        for part, frame in enumerate(shown_items(store)):
            frame.write_parquet(Path(folder) / f"{part:06d}.parquet")
            n += len(frame)
        pl.scan_parquet(f"{folder}/*.parquet").sink_parquet(f"{folder}/all")
        Path(folder, "all").rename(out)
    return n


def summary(frames: "Iterator[pl.DataFrame]", satisfied: float) -> "pl.DataFrame":
    """Count by model, policy and reason what was shown, what drew a reaction, and how much of it satisfied.

    `expected` is the mean of the chances that were told for the items with a reaction: beside `satisfied` it says
    whether they came true. Both are null where nothing drew a reaction.
    """
    import polars as pl

    by = ("model", "policy", "reason")
    is_hit = (pl.col("value") >= satisfied) & pl.col("has_reacted")
    chance = pl.col("chance").filter(pl.col("has_reacted"))
    sums = [
        frame.group_by(by).agg(
            pl.len().alias("shown"),
            pl.col("has_reacted").sum().alias("reactions"),
            is_hit.sum().alias("hits"),
            chance.sum().alias("chances"),
            chance.count().alias("n_chances"),
        )
        for frame in frames
    ]
    total = pl.concat(sums).group_by(by).sum().sort(by)
    return total.select(
        *by,
        "shown",
        "reactions",
        (pl.col("hits") / pl.col("reactions")).fill_nan(None).alias("satisfied"),
        (pl.col("chances") / pl.col("n_chances")).fill_nan(None).alias("expected"),
    )
