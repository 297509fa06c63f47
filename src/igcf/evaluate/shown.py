"""Items shown, as Parquet tables for anyone who wants to count the metrics again."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from igcf.data import Interactions
from igcf.evaluate.results import Results
from igcf.tabular.parquet import write_parquet

SHOWN = {
    "method": "VARCHAR",
    "seed": "BIGINT",
    "slate": "INTEGER",
    "user_id": "VARCHAR",
    "round": "INTEGER",
    "slot": "INTEGER",
    "item_id": "VARCHAR",
    "reward": "FLOAT",
    "satisfied": "BOOLEAN",
}
USERS = {"seed": "BIGINT", "user_id": "VARCHAR", "satisfied_items": "BIGINT"}
ITEMS = {"seed": "BIGINT", "item_id": "VARCHAR", "share": "DOUBLE"}
"""Columns of the tables and their types."""


def write_shown(results: Results, data: Interactions, folder: Path) -> None:
    """Write `shown.parquet`, one row per item shown, and what recall and novelty are relative to.

    `reward` is the value in the units of the log, 0 where there was no reaction. `users.parquet` holds how many items
    satisfy each user, `items.parquet` the share of the training users who reacted to each item.
    """
    shown, users, items = [], {}, {}
    item_ids = np.array(data.item_ids)
    for row in results.rows:
        each = row.outcome
        n_users, n_rounds, n_slots = each.shown.rows.shape
        user, t, slot = (part.ravel() for part in np.indices((n_users, n_rounds, n_slots)))
        values = each.shown.values.ravel()
        shown.append(
            {
                "method": np.full(len(user), each.label),
                "seed": np.full(len(user), each.seed, dtype=np.int64),
                "slate": np.full(len(user), n_slots, dtype=np.int32),
                "user_id": np.array(each.user_ids)[user],
                "round": (t + 1).astype(np.int32),
                "slot": (slot + 1).astype(np.int32),
                "item_id": item_ids[each.shown.rows.ravel()],
                "reward": np.nan_to_num(values),
                "satisfied": values >= results.setup.satisfied,
            }
        )
        users[each.seed] = {
            "seed": np.full(n_users, each.seed, dtype=np.int64),
            "user_id": np.array(each.user_ids),
            "satisfied_items": each.n_satisfied.astype(np.int64),
        }
        items[each.seed] = {
            "seed": np.full(len(item_ids), each.seed, dtype=np.int64),
            "item_id": item_ids,
            "share": np.asarray(each.item_shares),
        }
    _write(folder / "shown.parquet", SHOWN, shown)
    _write(folder / "users.parquet", USERS, list(users.values()))
    _write(folder / "items.parquet", ITEMS, list(items.values()))


def _write(path: Path, types: Mapping[str, str], parts: Sequence[Mapping[str, Any]]) -> None:
    """Write the rows of all parts, whole or not at all."""
    part = path.with_name(f".{path.name}.part")
    write_parquet(part, {name: (kind, np.concatenate([each[name] for each in parts])) for name, kind in types.items()})
    part.replace(path)
