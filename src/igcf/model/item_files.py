"""The table of items in a model folder: ids, titles, categories and attributes, read with care."""

from pathlib import Path
from typing import Any

import numpy as np

from igcf.arrays import FloatArray
from igcf.attributes import Attributes
from igcf.errors import ModelError
from igcf.model.catalogue import Catalogue
from igcf.model.parquet_sizes import parquet_chunks
from igcf.tabular.columns import Table
from igcf.tabular.engine import as_file
from igcf.tabular.parquet import ParquetFile, write_parquet

OVERHEAD = 1_000_000
"""Bytes that a file may have beside what is counted per item."""
ITEM_BYTES = 4_096
"""Bytes of id, title, categories and other texts per item, on average, that a model may have."""
ITEM_VALUES = 512
"""Entries of all columns per item, on average, that a model may have: each category and each number is one."""
ITEM_COLUMNS = {
    "item_id": "VARCHAR",
    "title": "VARCHAR",
    "categories": "VARCHAR[]",
    "tags": "VARCHAR[]",
    "text": "VARCHAR",
    "image": "VARCHAR",
    "available_from": "DOUBLE",
    "available_until": "DOUBLE",
    "hidden": "BOOLEAN",
}
"""Columns of the table of items, and numbers under names that begin with `NUMBER`; only `item_id` must be there."""
NUMBER = "number:"


def write_item_table(catalogue: Catalogue, path: Path) -> None:
    """Write the descriptions of items as the table that is saved."""
    columns: dict[str, Any] = {"item_id": catalogue.item_ids}
    if catalogue.titles is not None:
        columns["title"] = catalogue.titles
    if catalogue.categories is not None:
        columns["categories"] = catalogue.categories
    typed = {
        name: (ITEM_COLUMNS[name], entries)
        for name, entries in (columns | _attribute_columns(catalogue.attributes)).items()
    }
    numbers = {f"{NUMBER}{name}": ("DOUBLE", entries) for name, entries in catalogue.attributes.numbers.items()}
    write_parquet(path, typed | numbers)


def read_item_table(content: bytes, n_items: int) -> Table:
    """Read the table of items after a look at its size: a few bytes of Parquet can stand for gigabytes."""
    _check_sizes(content, n_items)
    with as_file(content) as path:
        file = ParquetFile(path)
        texts = ITEM_COLUMNS | {name: "DOUBLE" for name in file.types if name.startswith(NUMBER)}
        wrong = [name for name, kind in texts.items() if file.types.get(name, kind) != kind]
        if wrong or "item_id" not in file.types:
            raise ModelError(f"the table of items has columns {file.types}; expected {texts}")
        if file.n_rows != n_items:
            raise ModelError(f"the table of items has {file.n_rows} rows, the model {n_items} items")
        size = file.text_bytes()
        if size > n_items * ITEM_BYTES + OVERHEAD:
            raise ModelError(
                f"the table of items holds {size} bytes of text for {n_items} items; expected titles, not books"
            )
        items = file.read(texts)
    if items["item_id"].n_missing or "" in items["item_id"].words:
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


def read_attributes(items: Table) -> Attributes | None:
    """Return the attributes among the columns of the table of items; models saved before there were any have none."""

    def texts(name: str) -> tuple[str | None, ...] | None:
        return tuple(items[name].to_list()) if name in items.names else None

    def numbers(name: str, missing: float) -> FloatArray | None:
        return items[name].filled(missing).astype(np.float64) if name in items.names else None

    found = Attributes(
        len(items),
        tags=tuple(tuple(each or ()) for each in items["tags"].to_list()) if "tags" in items.names else None,
        numbers={
            name.removeprefix(NUMBER): items[name].filled(np.nan).astype(np.float64)
            for name in items.names
            if name.startswith(NUMBER)
        },
        texts=texts("text"),
        images=texts("image"),
        available_from=numbers("available_from", -np.inf),
        available_until=numbers("available_until", np.inf),
        hidden=items["hidden"].filled(False).astype(np.bool_) if "hidden" in items.names else None,
    )
    return None if found.is_empty else found


def _attribute_columns(attributes: Attributes) -> dict[str, Any]:
    """Return the columns of the table of items that hold the attributes."""
    columns: dict[str, Any] = {
        "text": attributes.texts,
        "image": attributes.images,
        "tags": attributes.tags,
        "available_from": attributes.available_from,
        "available_until": attributes.available_until,
        "hidden": attributes.hidden,
    }
    return {name: column for name, column in columns.items() if column is not None}
