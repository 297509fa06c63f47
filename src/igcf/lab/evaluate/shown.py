"""Items shown, as Parquet tables for anyone who wants to count the metrics again."""

from pathlib import Path

import numpy as np
import polars as pl

from igcf.data import Interactions
from igcf.lab.evaluate.results import Results


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
            pl.DataFrame(
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
        )
        users[each.seed] = pl.DataFrame(
            {"seed": [each.seed] * n_users, "user_id": each.user_ids, "satisfied_items": each.n_satisfied.astype(int)}
        )
        items[each.seed] = pl.DataFrame(
            {"seed": [each.seed] * len(item_ids), "item_id": item_ids, "share": each.item_shares}
        )
    for name, frames in (("shown", shown), ("users", list(users.values())), ("items", list(items.values()))):
        part = folder / f".{name}.parquet.part"
        pl.concat(frames).write_parquet(part)
        part.replace(folder / f"{name}.parquet")
