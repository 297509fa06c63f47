"""Read a log, whatever holds it: one walk through its rows, some at a time; of all rows only numbers stay in memory."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from igcf.arrays import BoolArray, Float32Array, IntArray
from igcf.data.columns import Columns, Numbers, Times, id_text, time_column, whole_numbers
from igcf.data.findings import SHOWN_ROWS, Findings, Piece, check_ids
from igcf.data.interactions import MISSING_TIME, Interactions
from igcf.data.layout import LogLayout, find_layout
from igcf.data.log_files import PIECE_ROWS, LogFiles
from igcf.data.success import unrated_spike
from igcf.data.text_tables import SAMPLE_ROWS
from igcf.errors import DataError

ROW_BLOCK = 1 << 20
MICROSECONDS = 1_000_000
COMPACT_ROWS = 1 << 25
"""Rows in memory from which on duplicates are dropped while reading."""
Number = TypeVar("Number", bound=np.generic)


def read_files(path: Path, columns: Columns | None = None, findings: Findings | None = None) -> Interactions:
    """Read a text or Parquet file, or a folder of them (also partitioned as `key=value/`)."""
    files = LogFiles(path, columns or Columns()).files()
    findings = findings or Findings()
    pieces = (piece for number in range(len(files.files)) for piece in files.pieces(number, findings))
    return built(pieces, files.layout, files.columns, findings, name=path.name.split(".")[0], source=str(path))


def read_frame(frame: object, columns: Columns | None = None, *, name: str = "log") -> Interactions:
    """Read a polars or pandas frame; pandas itself is not needed."""
    table, columns = as_polars(frame), columns or Columns()
    layout = find_layout(table.head(SAMPLE_ROWS), columns, "the frame")
    return built(_slices(table, "the frame"), layout, columns, Findings(), name=name, source="the frame")


def read_table(frame: pl.DataFrame, *, name: str = "log", source: str = "the log") -> Interactions:
    """Read a frame with the columns `user`, `item`, `value` and, where there is one, `timestamp`."""
    layout = LogLayout("user", "item", "value", "timestamp" if "timestamp" in frame.columns else None)
    log = built(_slices(frame, source), layout, Columns(), Findings(), name=name, source=source)
    return replace(log, layout=None, defects=())


def _slices(frame: pl.DataFrame, source: str) -> Iterable[Piece]:
    return (Piece(frame[start : start + PIECE_ROWS], source, start) for start in range(0, len(frame), PIECE_ROWS))


def built(
    pieces: Iterable[Piece], layout: LogLayout, columns: Columns, findings: Findings, *, name: str, source: str
) -> Interactions:
    """Build a log from its pieces; an empty one is refused."""
    builder = Builder(RowReader(layout, columns, findings))
    for piece in pieces:
        builder.add(piece)
    if not builder.n_rows:
        raise DataError(f"{source} has no rows; expected one row per reaction", kind="empty")
    return builder.log(name, source).at_least(columns.min_item_reactions, columns.min_user_reactions)


class Rows(NamedTuple):
    """Rows of a piece as the log stores them; ids are null where they are missing."""

    users: pl.Series
    items: pl.Series
    values: Float32Array
    """NaN: no opinion, or a value that is refused."""
    times: pl.Series | None
    has_fractions: bool
    """Whether the times are microseconds."""


class RowReader:
    """Turns pieces into ids, values and times; what cannot be read goes to the findings."""

    def __init__(self, layout: LogLayout, columns: Columns, findings: Findings | None = None) -> None:
        self.layout, self.columns, self.findings = layout, columns, findings or Findings()
        self._numbers, self._times = Numbers(), Times()
        self._last_time: int | None = None
        self._has_times: bool | None = None

    def rows(self, piece: Piece, before: int = 0) -> Rows:
        """Read a piece; `before` rows of the log come before it."""
        users, items = (self._ids(piece.frame[name], piece, before) for name in (self.layout.user, self.layout.item))
        values = self._values(piece, before)
        times = time_column(piece.frame, self.layout.timestamp)
        if self._has_times not in (None, times is not None):
            found, others = (
                ("no", "the files before it have one") if times is None else ("a", "the files before it have none")
            )
            raise DataError(f"{piece.source} has {found} column of times, {others}; give all files the same columns")
        self._has_times = times is not None
        read, has_fractions = (None, False) if times is None else self._read_times(times, piece, before)
        return Rows(users, items, values, read, has_fractions)

    def final_layout(self) -> LogLayout:
        """Return the layout with what was found while reading."""
        encoding = ", ".join(sorted(self.findings.encodings)) or None
        layout, formats = self.layout, self._times.formats
        return replace(layout, encoding=encoding, numbers=self._numbers.sentence, dates=tuple(formats))

    def _ids(self, column: pl.Series, piece: Piece, before: int) -> pl.Series:
        if column.dtype.is_float():
            is_fraction = (column.fill_nan(None) % 1 != 0).fill_null(False)
            message = f"{column.name!r} holds fractions; ids are whole numbers or text"
            self.findings.rows("fraction-in-id", message, is_fraction, piece, before=before, found=column)
        ids = id_text(column)
        self.findings.rows("null-id", f"{column.name!r} is empty", ids.is_null(), piece, before=before)
        return ids

    def _values(self, piece: Piece, before: int) -> Float32Array:
        layout, kinds = self.layout, self.columns.kinds
        if layout.kind is not None:
            column = piece.frame[layout.kind]
            text = column.cast(pl.String).str.strip_chars()
            values = text.replace_strict(list(kinds), list(kinds.values()), default=None, return_dtype=pl.Float32)
            message = f"{column.name!r} is a kind without a value; known are {', '.join(kinds)}, add it to kinds="
            self.findings.rows("unknown-kind", message, values.is_null(), piece, before=before, found=column)
            return values.fill_null(np.nan).to_numpy(writable=True)
        if layout.value is None:
            return np.ones(len(piece.frame), dtype=np.float32)
        column = piece.frame[layout.value]
        values, name = self._numbers(column), repr(column.name)
        for kind, message, mask in (
            ("null-value", f"{name} is empty", column.is_null()),
            ("not-a-number", f"{name} is not a number", values.is_null() & column.is_not_null()),
            ("nan", f"{name} is NaN", values.is_nan().fill_null(False)),
            ("infinite", f"{name} is infinite or too large", values.is_infinite().fill_null(False)),
        ):
            self.findings.rows(kind, message, mask, piece, before=before, found=column)
        numbers = values.fill_null(np.nan).to_numpy(writable=True)
        numbers[np.isinf(numbers)] = np.nan
        if self.columns.unrated is not None:
            numbers[numbers == np.float32(self.columns.unrated)] = np.nan
        return numbers

    def _read_times(self, column: pl.Series, piece: Piece, before: int) -> tuple[pl.Series, bool]:
        times, has_fractions = self._times(column)
        name = repr(column.name)
        known = column.is_not_null() if column.dtype != pl.String else column.str.strip_chars().str.len_bytes() > 0
        self.findings.rows(
            "bad-time", f"{name} is neither a number nor a date", times.is_null() & known.fill_null(False), piece,
            before=before, found=column,
        )  # fmt: skip
        self.findings.rows("missing-time", f"{name} is empty", ~known.fill_null(False), piece, before=before)
        self.findings.rows("negative-time", f"{name} is negative", (times < 0).fill_null(False), piece, before=before)
        filled = times.forward_fill()
        earlier = filled.shift(1, fill_value=self._last_time) if self._last_time is not None else filled.shift(1)
        message = f"{name} is earlier than in the row before"
        self.findings.rows("times-not-sorted", message, (times < earlier).fill_null(False), piece, before=before)
        if len(filled) and filled[-1] is not None:
            self._last_time = int(filled[-1])
        return times, has_fractions

    def note_end(self) -> None:
        """Note what can be said of the times when all rows are read."""
        if self._times.is_ambiguous:
            form = next(form for form in self._times.formats if form[:2] in ("%d", "%m"))
            first = "day" if form.startswith("%d") else "month"
            message = f"{self.layout.timestamp!r} has dates whose day and month could be exchanged; read {first} first"
            self.findings.add("ambiguous-dates", message, 1)


class Dictionary:
    """Numbers for ids, in the order in which they first appear."""

    def __init__(self) -> None:
        self._categories = pl.Categories.random()
        # polars forgets what no column uses
        self._holder: pl.Series | None = pl.Series([], dtype=pl.Categorical(self._categories))

    def codes(self, ids: pl.Series) -> npt.NDArray[np.int32]:
        """Return the number of each id."""
        return ids.cast(pl.Categorical(self._categories)).to_physical().cast(pl.Int32).to_numpy()

    def sorted(self, codes: IntArray) -> tuple[tuple[str, ...], IntArray]:
        """Return the ids, whole numbers in numeric order and others as text; `codes` become rows of it, in place."""
        text = self._categories.to_series()
        self._holder = None
        numbers = whole_numbers(text)
        order = (text if numbers is None else numbers).arg_sort()
        text = text.gather(order)
        row_of = np.empty(len(order), dtype=np.int32)
        row_of[order.to_numpy()] = np.arange(len(order), dtype=np.int32)
        del order, numbers
        ids = tuple(text.to_list())
        for start in range(0, len(codes), ROW_BLOCK):
            codes[start : start + ROW_BLOCK] = row_of[codes[start : start + ROW_BLOCK]]
        return ids, codes


class Builder:
    """Collects the rows of a log as numbers; where they are very many, duplicates are dropped on the way."""

    def __init__(self, reader: RowReader) -> None:
        self._reader, self._findings = reader, reader.findings
        self._users, self._items = Dictionary(), Dictionary()
        self._columns: list[list[Any]] = [[], [], [], []]
        self._whole: list[bool] = []
        self._without_id: list[IntArray] = []
        self.n_rows = 0
        self._n_kept, self._n_dropped, self._limit = 0, 0, COMPACT_ROWS

    def add(self, piece: Piece) -> None:
        """Add the rows of a piece."""
        if not len(piece.frame):
            return
        rows = self._reader.rows(piece, self.n_rows)
        times = None if rows.times is None else rows.times.fill_null(MISSING_TIME).to_numpy(writable=True)
        has_ids = (rows.users.is_not_null() & rows.items.is_not_null()).to_numpy()
        users, items, values = rows.users, rows.items, rows.values
        if not has_ids.all():
            self._without_id.append(np.flatnonzero(~has_ids) + self.n_rows)
            users, items, values = users.filter(has_ids), items.filter(has_ids), values[has_ids]
            times = None if times is None else times[has_ids]
        parts = (self._users.codes(users), self._items.codes(items), values, times)
        for column, part in zip(self._columns, parts, strict=True):
            if part is not None:
                column.append(part)
        self._whole.append(not rows.has_fractions)
        self.n_rows += len(piece.frame)
        self._n_kept += len(values)
        if self._n_kept > self._limit:
            self._compact()

    def _compact(self) -> None:
        users, items, values, times = self._joined()
        is_latest = latest_reactions(users, items, times)
        columns = [None if each is None else filtered(each, is_latest) for each in (users, items, values, times)]
        for own, part in zip(self._columns, columns, strict=True):
            own[:] = [] if part is None else [part]
        kept = int(is_latest.sum())
        self._n_dropped, self._n_kept = self._n_dropped + self._n_kept - kept, kept
        self._limit = max(COMPACT_ROWS, 2 * kept)

    def _joined(self) -> tuple[IntArray, IntArray, Float32Array, IntArray | None]:
        """Return the columns in one piece each; all times in one unit."""
        users, items, values, times = self._columns
        if times and not all(self._whole):
            for part, is_whole in zip(times, self._whole, strict=True):
                if is_whole:
                    part[part != MISSING_TIME] *= MICROSECONDS
        self._whole = [all(self._whole)]
        return _whole(users), _whole(items), _whole(values), _whole(times) if times else None

    def log(self, name: str, source: str) -> Interactions:
        """Return the log: ids in order, at most one reaction of a user to an item, and what was noticed."""
        reader, findings, layout = self._reader, self._findings, self._reader.layout
        user_idx, item_idx, values, times = self._joined()
        user_ids, user_idx = self._users.sorted(user_idx)
        item_ids, item_idx = self._items.sorted(item_idx)
        for column, ids, idx in ((layout.user, user_ids, user_idx), (layout.item, item_ids, item_idx)):
            check_ids(column, ids, self._by_row(idx), findings, source)
        reader.note_end()
        self._check_values(values, times)
        is_latest = latest_reactions(user_idx, item_idx, times)
        n_duplicates = self._n_dropped + len(values) - int(is_latest.sum())
        if n_duplicates:
            message = "the user has a reaction to the item in an earlier row; the latest one counts"
            rows = () if self._n_dropped else self._row_numbers(first_repeats(user_idx, item_idx))
            findings.add("duplicate-pair", message, n_duplicates, rows)
        for key, column, idx in (("user", layout.user, user_idx), ("item", layout.item, item_idx)):
            counts = np.bincount(idx[is_latest] if n_duplicates else idx)
            if n_single := int((counts == 1).sum()):
                message = f"{n_single:,} of {len(counts):,} ids of {column!r} have one reaction only"
                first = np.flatnonzero((counts == 1)[idx])[:SHOWN_ROWS]
                rows = () if self._n_dropped else self._row_numbers(first)
                findings.add(f"single-reaction-{key}", message, n_single, rows)
        if n_duplicates:
            user_idx, item_idx = filtered(user_idx, is_latest), filtered(item_idx, is_latest)
            values = filtered(values, is_latest)
            times = None if times is None else filtered(times, is_latest)
        if times is not None and (times == MISSING_TIME).all():
            times = None
        return Interactions(
            user_ids, item_ids, user_idx, item_idx, values, times, name=name, n_duplicates=n_duplicates,
            source_size=(self.n_rows, len(user_ids), len(item_ids)), kinds=dict(reader.columns.kinds),
            layout=reader.final_layout(), defects=findings.defects,
        )  # fmt: skip

    def _row_numbers(self, places: IntArray) -> list[int]:
        """Return the numbers, from 1, of the rows at some places of the columns, which hold no row without ids."""
        if self._without_id:
            rows = np.setdiff1d(np.arange(self.n_rows), np.concatenate(self._without_id), assume_unique=True)
            places = rows[places]
        return [int(place) + 1 for place in places]

    def _by_row(self, idx: IntArray) -> IntArray:
        """Return a column with one entry per row of the source, -1 where the row has no ids."""
        if not self._without_id or self._n_dropped:
            return idx
        column = np.full(self.n_rows, -1, dtype=np.int32)
        column[np.array(self._row_numbers(np.arange(len(idx))), dtype=np.int64) - 1] = idx
        return column

    def _check_values(self, values: Float32Array, times: IntArray | None) -> None:
        findings, layout = self._findings, self._reader.layout
        known = values[~np.isnan(values)]
        if layout.value is not None and len(known) > 1:
            levels, counts = np.unique(known, return_counts=True)
            if len(levels) == 1:
                message = f"{layout.value!r} is {levels[0]:g} in every row: every reaction counts as a success"
                findings.add("constant-value", message, len(known))
            elif (spike := unrated_spike(levels, counts)) is not None:
                findings.add("unrated", spike.message(repr(layout.value)), spike.count)
        if layout.timestamp is None:
            findings.add("no-times", "no column of times; splits in time and taste drift need one", self.n_rows)
        elif times is not None:
            dated = times[times != MISSING_TIME]
            if len(dated) > 1 and dated.min() == dated.max():
                findings.add("constant-time", f"{layout.timestamp!r} is the same in every row", len(dated))


def _whole(parts: list[npt.NDArray[Number]]) -> npt.NDArray[Number]:
    whole = parts[0] if len(parts) == 1 else np.concatenate(parts)
    parts.clear()
    return whole if whole.flags.writeable else whole.copy()


def filtered(column: npt.NDArray[Number], mask: BoolArray) -> npt.NDArray[Number]:
    """Move the entries where `mask` holds to the front, block by block: a large log has no room for a second column."""
    end = 0
    for start in range(0, len(column), ROW_BLOCK):
        block = column[start : start + ROW_BLOCK][mask[start : start + ROW_BLOCK]]
        column[end : end + len(block)] = block
        end += len(block)
    return column[:end] if 2 * end > len(column) else column[:end].copy()


def latest_reactions(users: IntArray, items: IntArray, times: IntArray | None) -> BoolArray:
    """Return which rows are the latest reaction of a user to an item: by time, otherwise the last row."""
    pair, rows = _repeated_pairs(users, items)
    is_latest = np.ones(len(users), dtype=np.bool_)
    if len(rows):
        if times is not None:
            rows = rows[np.lexsort((times[rows], pair))]  # stable: at equal times the last row stays last
        is_latest[rows] = False
        is_latest[rows[np.append(pair[1:] != pair[:-1], True)]] = True
    return is_latest


def first_repeats(users: IntArray, items: IntArray) -> IntArray:
    """Return the first rows whose user has a reaction to the item in an earlier row."""
    pair, rows = _repeated_pairs(users, items)
    return np.sort(rows[np.append(False, pair[1:] == pair[:-1])])[:SHOWN_ROWS]


def _repeated_pairs(users: IntArray, items: IntArray) -> tuple[IntArray, IntArray]:
    """Return the pairs of user and item that occur several times as sorted numbers, and their rows."""
    n_items = int(items.max(initial=0)) + 1
    pair = users.astype(np.int64)
    pair *= n_items
    pair += items
    row_bits = len(users).bit_length()
    if ((int(users.max(initial=0)) + 1) * n_items).bit_length() + row_bits > 63:
        order = np.argsort(pair, kind="stable")
        pair = pair[order]
        in_group = _beside_equal(pair, 0)
        return pair[in_group], order[in_group]
    # in place and many times faster than a stable argsort: the row in the last bits
    pair <<= row_bits
    for start in range(0, len(pair), ROW_BLOCK):
        pair[start : start + ROW_BLOCK] += np.arange(start, min(start + ROW_BLOCK, len(pair)))
    pair.sort()
    found = pair[_beside_equal(pair, row_bits)]
    return found >> row_bits, found & ((1 << row_bits) - 1)


def _beside_equal(numbers: IntArray, bits: int) -> BoolArray:
    """Return which of the sorted numbers equal a neighbour when their last `bits` are ignored."""
    result = np.zeros(len(numbers), dtype=np.bool_)
    for start in range(0, len(numbers), ROW_BLOCK):
        block = numbers[start : start + ROW_BLOCK + 1] >> bits
        is_repeat = block[1:] == block[:-1]
        result[start : start + len(is_repeat)] |= is_repeat
        result[start + 1 : start + 1 + len(is_repeat)] |= is_repeat
    return result


def as_polars(frame: Any) -> pl.DataFrame:
    """Return a polars frame of anything that has named columns: polars (also lazy), pandas, a mapping of columns."""
    if isinstance(frame, pl.DataFrame):
        return frame
    if isinstance(frame, pl.LazyFrame):
        return frame.collect()
    names = getattr(frame, "columns", None)
    if isinstance(frame, Mapping):
        names = list(frame)
    if names is None:
        raise DataError(f"expected a pandas or polars frame, got a {type(frame).__name__}")
    return pl.DataFrame([_series(str(name), _entries(frame[name])) for name in names])


def log_frame(
    users: Sequence[object] | npt.NDArray[np.generic],
    items: Sequence[object] | npt.NDArray[np.generic],
    values: Sequence[float] | npt.NDArray[np.generic],
    timestamps: Sequence[int] | npt.NDArray[np.generic] | None = None,
) -> pl.DataFrame:
    """Make a frame with the default column names from parallel sequences."""
    parts: dict[str, Sequence[object] | npt.NDArray[np.generic]] = {"user": users, "item": items, "value": values}
    if timestamps is not None:
        parts["timestamp"] = timestamps
    lengths = {name: len(part) for name, part in parts.items()}
    if len(set(lengths.values())) > 1:
        raise DataError(f"the columns differ in length: {lengths}; they must have one entry per reaction")
    return pl.DataFrame([_series(name, part) for name, part in parts.items()])


def _series(name: str, part: Sequence[object] | npt.NDArray[np.generic]) -> pl.Series:
    entries = part.tolist() if isinstance(part, np.ndarray) and part.dtype == object else part
    try:
        return pl.Series(name, entries)
    except (TypeError, pl.exceptions.PolarsError):  # a mix of strings and numbers
        return pl.Series(name, [None if entry is None else str(entry) for entry in entries])


def _entries(column: Any) -> Sequence[object] | npt.NDArray[np.generic]:
    """Return the entries of a column of a frame; what pandas has for a missing one becomes None."""
    if not hasattr(column, "to_numpy"):
        return list(column)
    entries = column.to_numpy()
    if entries.dtype != object:
        return entries  # type: ignore[no-any-return]
    is_missing = column.isna().to_numpy() if hasattr(column, "isna") else np.zeros(len(entries), dtype=np.bool_)
    return [None if missing else entry for entry, missing in zip(entries.tolist(), is_missing.tolist(), strict=True)]
