"""The store as tables: reactions to train on, in memory or as files that workers read, and the audit."""

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy as sa

from igcf.errors import StoreError
from igcf.item import Item
from igcf.service.store.database import Database, rows_of
from igcf.service.store.items import ItemStore
from igcf.service.store.maintenance import open_existing
from igcf.service.store.records import rows_in_force
from igcf.service.store.store import Store
from igcf.service.store.tables import feedback, recommendations

if TYPE_CHECKING:
    import polars as pl

    from igcf.data import Interactions

LOG, ITEMS, USERS, SENTENCE = "store", "items.parquet", "users.parquet", "sentence.txt"
"""Names in a folder of reactions."""
ROWS_PER_FILE = 200_000
AT_ONCE = 20_000
"""Answers of the audit in one frame."""


def interactions_from_store(url: str) -> "Interactions":
    """Read the reactions in force as a log to learn from; items that were only shown have no value and are left out."""
    return read_store(url)[0]


def read_store(url: str, described: Mapping[str, Item] = MappingProxyType({})) -> "tuple[Interactions, str]":
    """Read the reactions in force as a log to learn from, and one line about what is learned from and what is not.

    `described` are items by id, as known from elsewhere; what the store says of them comes first. A store that does not
    exist is not created.
    """
    import polars as pl

    from igcf.data import Interactions
    from igcf.data.interactions import MISSING_TIME

    with closing(open_existing(url)) as store:
        counts, frames = zip(*_pieces(store.database, by_user=False), strict=True)
        of_store, attributes, name = described_items(store), stored_attributes(store), store.database.name
    reactions = pl.concat(frames).with_columns(pl.col("timestamp").fill_null(MISSING_TIME))
    if not len(reactions):
        raise _nothing_to_learn(name)
    log = Interactions.from_arrays(*(each.to_list() for each in reactions), name="store")
    table = _user_table({each: attributes[each] for each in log.user_ids if each in attributes})
    log = log if table is None else log.with_users(table)
    items = {**described, **of_store}
    log = log.described(items) if items else log
    return log, _sentence(sum(counts, Counter[str]()), len(of_store))


class StoreFiles(NamedTuple):
    """The reactions of a store in Parquet files; without items and users where nothing is said of any."""

    log: Path
    """Folder of the files, with the columns user, item, value and timestamp."""
    items: Path | None
    users: Path | None
    sentence: str


def write_reactions(folder: Path, url: str, *, described: Sequence[Item] = ()) -> StoreFiles:
    """Write the reactions in force of a store to a new folder of Parquet files: no process needs all of them at once.

    `described` are items that the caller knows more about than the store.
    """
    part_folder = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part_folder, ignore_errors=True)
    (part_folder / LOG).mkdir(parents=True)
    n: Counter[str] = Counter()
    seen: set[str] = set()
    with closing(open_existing(url)) as store:
        for piece, (counts, frame) in enumerate(_pieces(store.database, by_user=True)):
            n += counts
            seen.update(frame["item"].unique())
            if len(frame):
                frame.write_parquet(part_folder / LOG / f"{piece:06d}.parquet")
        of_store, people = described_items(store), _user_table(stored_attributes(store))
        name = store.database.name
    if not seen:
        raise _nothing_to_learn(name)
    items = of_store | {item.id: item for item in described}
    known = [item for item in items.values() if item.id in seen]
    if known:
        _item_frame(known).write_parquet(part_folder / ITEMS)
    if people is not None:
        people.write_parquet(part_folder / USERS)
    (part_folder / SENTENCE).write_text(_sentence(n, len(of_store)), encoding="utf-8")
    part_folder.rename(folder)
    return written_reactions(folder)


def _nothing_to_learn(name: str) -> StoreError:
    return StoreError(f"the store {name} has no reactions to learn from")


def _pieces(database: Database, *, by_user: bool) -> "Iterator[tuple[Counter[str], pl.DataFrame]]":
    """Read the reactions in force, some at a time, and count what they are; without any, one empty piece.

    `logged`: of all items the user came to this one; `reacted`: shown, and it drew a reaction; `ignored`: shown, and it
    drew none, so that there is nothing to learn from.
    """
    import polars as pl

    columns = {"user": pl.String(), "item": pl.String(), "value": pl.Float64(), "timestamp": pl.Float64()}
    log = rows_in_force(feedback.c.evidence.in_(("shown", "logged"))).c
    moment = sa.func.coalesce(log.time, 0.0)
    order = (log.user_id, moment) if by_user else (moment, log.user_id)
    query = sa.select(log.user_id, log.item_id, log.value, log.time, log.evidence).order_by(*order, log.revision)
    is_shown, has_value = pl.col("evidence") == "shown", pl.col("value").is_not_null()
    kinds = {"logged": ~is_shown, "reacted": is_shown & has_value, "ignored": is_shown & ~has_value}
    with database.snapshot() as connection:
        for frame in frames_of(connection, query, columns | {"evidence": pl.String()}, ROWS_PER_FILE):
            counts = frame.select(each.sum().alias(name) for name, each in kinds.items()).row(0, named=True)
            yield Counter(counts), frame.filter(has_value).select(*columns).cast({"timestamp": pl.Int64()})


def frames_of(
    connection: sa.Connection, query: "sa.Select[Any]", columns: "Mapping[str, pl.DataType]", size: int
) -> "Iterator[pl.DataFrame]":
    """Read a query as frames of `size` rows, the last one shorter; a query without rows gives one empty frame."""
    import polars as pl

    rows = rows_of(connection, query)
    while True:
        frame = pl.DataFrame([tuple(row) for row in islice(rows, size)], schema=columns, orient="row")
        yield frame
        if len(frame) < size:
            return


def written_reactions(folder: Path) -> StoreFiles:
    """Find again what `write_reactions` has written."""
    items, users = (file if file.exists() else None for file in (folder / ITEMS, folder / USERS))
    return StoreFiles(folder / LOG, items, users, (folder / SENTENCE).read_text(encoding="utf-8"))


def _item_frame(items: Sequence[Item]) -> "pl.DataFrame":
    """Build the table of items that `igcf.data.items.read_items` reads."""
    import polars as pl

    names = sorted({name for item in items for name in item.numbers})
    return pl.DataFrame(
        {
            "id": [item.id for item in items],
            "title": [item.title or item.id for item in items],
            "categories": pl.Series([list(item.categories) for item in items], dtype=pl.List(pl.String)),
            "tags": pl.Series([list(item.tags) for item in items], dtype=pl.List(pl.String)),
            "text": pl.Series([item.text for item in items], dtype=pl.String),
            **{name: pl.Series([item.numbers.get(name) for item in items], dtype=pl.Float64) for name in names},
        }
    )


def stored_attributes(store: Store) -> dict[str, dict[str, Any]]:
    """Read the attributes of all users who have any."""
    log = rows_in_force(feedback.c.evidence == "attributes").c
    query = sa.select(log.user_id, log.details)
    return {user_id: json.loads(details or "{}") for user_id, details in store.database.rows(query)}


def _user_table(attributes: Mapping[str, Mapping[str, Any]]) -> "pl.DataFrame | None":
    """Build the table of users that `Interactions.with_users` reads; None where nobody has an attribute."""
    import polars as pl

    names = sorted({name for each in attributes.values() for name in each if name != "user"})
    if not names:
        return None
    columns = {name: [own.get(name) for own in attributes.values()] for name in names}
    for name, values in columns.items():
        if any(not isinstance(value, int | float | None) or isinstance(value, bool) for value in values):
            columns[name] = [None if v is None else v if isinstance(v, list) else [v] for v in values]
            columns[name] = [None if v is None else [str(each) for each in v] for v in columns[name]]
    return pl.DataFrame({"user": list(attributes), **columns})


def described_items(store: Store) -> dict[str, Item]:
    """Read the items that the store describes, without what may change from hour to hour."""
    passing: dict[str, Any] = {"hidden": False, "available_from": None, "available_until": None, "image": None}
    return {each.item_id: replace(each.described(), **passing) for each in ItemStore(store.database).changes()}


def _sentence(n: Mapping[str, int], n_described: int) -> str:
    return (
        f"store: training on {n.get('logged', 0):,} logged reactions and {n.get('reacted', 0):,} reactions to shown "
        f"items; left out: {n.get('ignored', 0):,} shown without a reaction; items with a description: {n_described:,}"
    )


def frame_schema(table: sa.Table) -> "dict[str, pl.DataType]":
    """Name the columns of a table and their types in a frame."""
    import polars as pl

    kinds = {"INTEGER": pl.Int64(), "BIGINT": pl.Int64(), "DOUBLE": pl.Float64(), "TEXT": pl.String()}
    return {column.name: kinds[str(column.type)] for column in table.columns}


def read_answers(database: Database) -> "Iterator[pl.DataFrame]":
    """Read the answers in the audit, a few at a time."""
    import polars as pl

    names = ("score", "mean", "std", "chance", "propensity", "slot_propensity", "propensity_error")
    item = {"item": pl.String(), **dict.fromkeys(names, pl.Float64()), "mean_rank": pl.Int64(), "reason": pl.String()}
    columns = frame_schema(recommendations)
    del columns["due"]
    with database.snapshot() as connection:
        query = sa.select(*(recommendations.c[name] for name in columns))
        for frame in frames_of(connection, query, columns, AT_ONCE):
            try:
                items = [json.loads(text) for text in frame["items"]]
                yield frame.with_columns(pl.Series("items", items, dtype=pl.List(pl.Struct(item))))
            except (ValueError, TypeError, RecursionError, pl.exceptions.PolarsError) as error:
                raise StoreError(f"an answer in the audit of {database.name} cannot be read: {error}") from error


def shown_items(store: Store) -> "Iterator[pl.DataFrame]":
    """Read every item that was shown with an answer, with the value of the reaction to it.

    `has_reacted` says whether there is a reaction in force that names the answer; its value is null where the item was
    shown and drew none, as the caller said. A skip is no reaction.
    """
    import polars as pl

    log = rows_in_force(feedback.c.evidence != "skip").c
    query = sa.select(log.user_id, log.recommendation_id, log.item_id, log.value)
    query = query.where(log.recommendation_id.is_not(None), log.evidence == "shown")
    rows = [tuple(row) for row in store.database.rows(query)]
    kinds = {"user_id": pl.String(), "recommendation_id": pl.String(), "item": pl.String(), "value": pl.Float64()}
    reactions = pl.DataFrame(rows, schema=kinds, orient="row").with_columns(pl.lit(True).alias("has_reacted"))
    for frame in read_answers(store.database):
        named = frame.rename({"propensity": "propensity_kind"}).explode("items").unnest("items")
        joined = named.join(reactions, on=("user_id", "recommendation_id", "item"), how="left")
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
