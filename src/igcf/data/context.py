"""Context of reactions: further columns of a log, and the time of day, aligned with its reactions."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from igcf.arrays import BoolArray, IntArray
from igcf.data.columns import id_text
from igcf.data.layout import NAMES, named
from igcf.data.log_files import read_whole
from igcf.data.users import parsed_column
from igcf.encoding import MOST_COLUMNS, MOST_LEVELS, Encoder, Kind
from igcf.errors import DataError

if TYPE_CHECKING:
    from igcf.data.interactions import Interactions

OF_TIME = ("time", "hour")
"""Names of a context that is made from the times of the log, where no column has that name."""


@dataclass(frozen=True, eq=False)
class ContextColumns:
    """Features of the moment of each reaction."""

    kinds: dict[str, Kind]
    columns: dict[str, list[Any]]
    """Parsed values by name, in the order of the reactions; None where unknown."""
    sentence: str
    """One line for people: `context: categories: device; times: hour`."""

    def taken(self, rows: BoolArray | IntArray) -> "ContextColumns":
        """Return the columns of the reactions at `rows`."""
        places = np.arange(len(next(iter(self.columns.values()))))[rows].tolist()
        columns = {name: [column[place] for place in places] for name, column in self.columns.items()}
        return ContextColumns(self.kinds, columns, self.sentence)

    def encoder(self) -> Encoder:
        """Learn from all reactions how each feature becomes numbers."""
        levels = max(min(MOST_LEVELS, MOST_COLUMNS // (5 * len(self.kinds))), 4)
        return Encoder.fit(self.kinds, self.columns, levels, "context")


def read_context(data: "Interactions", names: Sequence[str], table: object = None) -> ContextColumns:
    """Read columns of the table that a log came from; of several rows of a user and an item the last counts."""
    frame = None if table is None else read_whole(table, "the log", NAMES["user"]).frame
    kinds: dict[str, Kind] = {}
    columns: dict[str, list[Any]] = {}
    for name in names:
        if frame is not None and name in frame.columns:
            found = parsed_column(_aligned(data, frame, name))
            if found is None:
                raise DataError(f"the column {name!r} cannot be a context; expected texts, numbers or times")
            kinds[name], columns[name] = found
        elif name in OF_TIME and data.timestamps is not None:
            kinds[name] = "time"
            columns[name] = [_moment(each) for each in data.timestamps.tolist()]
        else:
            known = [] if frame is None else frame.columns
            raise DataError(f"the log has no column {name!r} for a context; it has {', '.join(known) or 'none'}")
    listed = ", ".join(f"{name} ({kind})" for name, kind in kinds.items())
    return ContextColumns(kinds, columns, f"context: {listed}")


def _aligned(data: "Interactions", frame: pl.DataFrame, name: str) -> pl.Series:
    """Return a column in the order of the reactions."""
    layout = data.layout
    user, item = (
        (layout.user, layout.item)
        if layout is not None
        else (named(frame.columns, NAMES["user"]), named(frame.columns, NAMES["item"]))
    )
    if user is None or item is None:
        raise DataError(f"the columns {', '.join(frame.columns)} name no user and item to find a context by")
    ids = {"user": id_text(frame[user]), "item": id_text(frame[item])}
    right = pl.DataFrame({**ids, "found": frame[name]}).unique(["user", "item"], keep="last", maintain_order=True)
    left = pl.DataFrame(
        {
            "user": np.array(data.user_ids, dtype=object)[data.user_idx],
            "item": np.array(data.item_ids, dtype=object)[data.item_idx],
        },
        schema={"user": pl.String, "item": pl.String},
    )
    return left.join(right, on=["user", "item"], how="left", maintain_order="left")["found"].alias(name)


def _moment(when: int) -> datetime | None:
    """Return a time of the log; None where it is unknown."""
    unit = 1e6 if abs(when) > 1e14 else 1e3 if abs(when) > 1e11 else 1.0
    try:
        return datetime.fromtimestamp(when / unit, UTC)
    except (OverflowError, ValueError, OSError):
        return None
