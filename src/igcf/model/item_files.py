"""The table of items in a model folder: ids, titles, categories and attributes, read with care."""

import io
from typing import Any

import numpy as np
import polars as pl

from igcf.arrays import FloatArray
from igcf.attributes import Attributes
from igcf.errors import ModelError
from igcf.model.catalogue import Catalogue
from igcf.model.parquet_sizes import parquet_chunks

OVERHEAD = 1_000_000
"""Bytes that a file may have beside what is counted per item."""
ITEM_BYTES = 4_096
"""Bytes of id, title, categories and other texts per item, on average, that a model may have."""
ITEM_VALUES = 512
"""Entries of all columns per item, on average, that a model may have: each category and each number is one."""
ITEM_COLUMNS: dict[str, pl.DataType] = {
    "item_id": pl.String(),
    "title": pl.String(),
    "categories": pl.List(pl.String()),
    "tags": pl.List(pl.String()),
    "text": pl.String(),
    "image": pl.String(),
    "available_from": pl.Float64(),
    "available_until": pl.Float64(),
    "hidden": pl.Boolean(),
}
"""Columns of the table of items, and numbers under names that begin with `NUMBER`; only `item_id` must be there."""
NUMBER = "number:"


def item_table(catalogue: Catalogue) -> pl.DataFrame:
    """Lay the descriptions of items out as the table that is saved."""
    columns: dict[str, Any] = {"item_id": list(catalogue.item_ids)}
    if catalogue.titles is not None:
        columns["title"] = list(catalogue.titles)
    if catalogue.categories is not None:
        columns["categories"] = pl.Series([list(each) for each in catalogue.categories], dtype=pl.List(pl.String))
    return pl.DataFrame(columns | _attribute_columns(catalogue.attributes))


def read_item_table(content: bytes, n_items: int) -> pl.DataFrame:
    """Read the table of items after a look at its size: a few bytes of Parquet can stand for gigabytes."""
    _check_sizes(content, n_items)
    table = pl.scan_parquet(io.BytesIO(content))
    schema = table.collect_schema()
    texts = ITEM_COLUMNS | {name: pl.Float64() for name in schema if name.startswith(NUMBER)}
    wrong = [name for name, dtype in texts.items() if name in schema and schema[name] != dtype]
    if wrong or "item_id" not in schema:
        raise ModelError(f"the table of items has columns {dict(schema)}; expected {texts}")
    table = table.select(name for name in texts if name in schema)
    found = table.select(pl.len()).collect().item()
    if found != n_items:
        raise ModelError(f"the table of items has {found} rows, the model {n_items} items")
    lengths = [
        (pl.col(name).explode() if name in ("categories", "tags") else pl.col(name)).str.len_bytes().sum()
        for name in ("item_id", "title", "categories", "tags", "text", "image")
        if name in schema
    ]
    size = sum(table.select(lengths).collect(engine="streaming").row(0))
    if size > n_items * ITEM_BYTES + OVERHEAD:
        raise ModelError(
            f"the table of items holds {size} bytes of text for {n_items} items; expected titles, not books"
        )
    items = table.collect()
    if items["item_id"].null_count() or (items["item_id"] == "").any():
        raise ModelError("the table of items has items without an id")
    return items


def _check_sizes(content: bytes, n_items: int) -> None:
    """Refuse a file whose headers say that it unpacks to more than a table of so many items can be."""
    try:
        chunks = parquet_chunks(content)
    except ValueError as error:
        raise ModelError(f"the table of items is no Parquet file: {error}") from error
    most_bytes, most_values = n_items * ITEM_BYTES + OVERHEAD, n_items * ITEM_VALUES + OVERHEAD
    size, values = sum(chunk.size for chunk in chunks), sum(chunk.values for chunk in chunks)
    if size > most_bytes or values > most_values:
        raise ModelError(
            f"the table of items unpacks to {size} bytes and {values} values for {n_items} items; expected at most "
            f"{most_bytes} and {most_values}"
        )


def read_attributes(items: pl.DataFrame) -> Attributes | None:
    """Return the attributes among the columns of the table of items; models saved before there were any have none."""

    def texts(name: str) -> tuple[str | None, ...] | None:
        return tuple(items[name].to_list()) if name in items.columns else None

    def numbers(name: str, missing: float) -> FloatArray | None:
        return items[name].fill_null(missing).to_numpy().astype(np.float64) if name in items.columns else None

    found = Attributes(
        items.height,
        tags=tuple(tuple(each or ()) for each in items["tags"].to_list()) if "tags" in items.columns else None,
        numbers={
            name.removeprefix(NUMBER): items[name].fill_null(np.nan).to_numpy().astype(np.float64)
            for name in items.columns
            if name.startswith(NUMBER)
        },
        texts=texts("text"),
        images=texts("image"),
        available_from=numbers("available_from", -np.inf),
        available_until=numbers("available_until", np.inf),
        hidden=items["hidden"].fill_null(False).to_numpy() if "hidden" in items.columns else None,
    )
    return None if found.is_empty else found


def _attribute_columns(attributes: Attributes) -> dict[str, pl.Series]:
    """Return the columns of the table of items that hold the attributes."""
    columns: dict[str, Any] = {
        "text": attributes.texts,
        "image": attributes.images,
        "tags": None if attributes.tags is None else [list(each) for each in attributes.tags],
        "available_from": attributes.available_from,
        "available_until": attributes.available_until,
        "hidden": attributes.hidden,
    }
    found = {
        name: pl.Series(name, column, dtype=ITEM_COLUMNS[name])
        for name, column in columns.items()
        if column is not None
    }
    return found | {f"{NUMBER}{name}": pl.Series(column) for name, column in attributes.numbers.items()}
