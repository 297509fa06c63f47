"""Read a log, whatever holds it: one walk through its rows, some at a time; of all rows only numbers stay in memory."""

from collections.abc import Iterable
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
from igcf.data.log_files import PIECE_ROWS, LogFiles, as_polars
from igcf.data.success import levels_of, unrated_spike
from igcf.data.text_tables import SAMPLE_ROWS
from igcf.errors import DataError

ROW_BLOCK = 1 << 20
MICROSECONDS = 1_000_000
COMPACT_ROWS = 1 << 25
"""Rows in memory from which on duplicates are dropped while reading."""
FEWEST_NUMBERED = 100
"""Rows from which on a guessed column with an id of its own in every row numbers the rows, as order numbers do."""
LARGEST_CODED = 1 << 24
"""Whole numbers up to here are codes of their own, which is many times faster than a dictionary of texts."""
Number = TypeVar("Number", bound=np.generic)


def read_files(path: Path, columns: Columns | None = None, findings: Findings | None = None) -> Interactions:
    """Read a text or Parquet file, or a folder of them (also partitioned as `key=value/`)."""
    files, findings = LogFiles(path, columns or Columns()), findings or Findings()
    findings.layout = files.layout
    files.note_unread(findings)
    pieces = (piece for number in range(len(files.files)) for piece in files.pieces(number, findings))
    return _built(pieces, RowReader(files.layout, files.columns, findings), files.name, str(path))


def read_frame(frame: object, columns: Columns, *, name: str = "log") -> Interactions:
    """Read a polars or pandas frame; pandas itself is not needed."""
    table = as_polars(frame)
    return _of_frame(table, find_layout(table.head(SAMPLE_ROWS), columns, "the frame"), columns, name, "the frame")


def read_table(frame: pl.DataFrame, *, name: str = "log", source: str = "the log") -> Interactions:
    """Read a frame with the columns `user`, `item`, `value` and, where there is one, `timestamp`."""
    layout = LogLayout("user", "item", "value", "timestamp" if "timestamp" in frame.columns else None)
    return replace(_of_frame(frame, layout, Columns(), name, source), layout=None, defects=())


def _of_frame(frame: pl.DataFrame, layout: LogLayout, columns: Columns, name: str, source: str) -> Interactions:
    starts = range(0, len(frame), PIECE_ROWS)
    pieces = (Piece(frame[start : start + PIECE_ROWS], source, start) for start in starts)
    return _built(pieces, RowReader(layout, columns), name, source)


def _built(pieces: Iterable[Piece], reader: "RowReader", name: str, source: str) -> Interactions:
    builder, columns = Builder(reader), reader.columns
    for piece in pieces:
        builder.add(piece)
    if not builder.n_rows:
        raise DataError(f"{source} has no rows; expected one row per reaction", kind="empty")
    return builder.log(name, source).at_least(columns.min_item_reactions, columns.min_user_reactions)


class Rows(NamedTuple):
    """Rows of a piece; what is missing is null, NaN or `MISSING_TIME`. Times with fractions are microseconds."""

    users: pl.Series
    items: pl.Series
    values: Float32Array
    times: IntArray | None
    has_fractions: bool


class RowReader:
    """Turns pieces into ids, values and times; what cannot be read goes to the findings."""

    def __init__(self, layout: LogLayout, columns: Columns, findings: Findings | None = None) -> None:
        self.layout, self.columns, self.findings = layout, columns, findings or Findings()
        self._numbers, self._times = Numbers(), Times()
        self._last_time = MISSING_TIME

    def rows(self, piece: Piece) -> Rows:
        """Read a piece."""
        users, items = (self._ids(piece.frame[name], piece) for name in (self.layout.user, self.layout.item))
        column = time_column(piece.frame, self.layout.timestamp)
        times, has_fractions = (None, False) if column is None else self._read_times(column, piece)
        return Rows(users, items, self._values(piece), times, has_fractions)

    def final_layout(self) -> LogLayout:
        """Return the layout with what was found while reading, when all rows are read."""
        formats = self._times.formats
        if self._times.is_ambiguous:
            is_day = next(form for form in formats if form[:2] in ("%d", "%m")).startswith("%d")
            first, other = ("day", "month") if is_day else ("month", "day")
            message = f"{self.layout.timestamp!r} has ambiguous dates; read as {first} before {other}"
            self.findings.add("ambiguous-dates", message, 1)
        encoding = ", ".join(sorted(self.findings.encodings)) or None
        return replace(self.layout, encoding=encoding, numbers=self._numbers.sentence, dates=tuple(formats))

    def _ids(self, column: pl.Series, piece: Piece) -> pl.Series:
        if column.dtype.is_float():
            is_fraction = (column.fill_nan(None) % 1 != 0).fill_null(False)
            message = f"{column.name!r} holds fractions; ids are whole numbers or text"
            self.findings.rows("fraction-in-id", message, is_fraction, piece, found=column)
        ids = id_text(column)
        self.findings.rows("null-id", f"{column.name!r} is empty", ids.is_null(), piece)
        return ids

    def _values(self, piece: Piece) -> Float32Array:
        layout, kinds = self.layout, self.columns.kinds
        if layout.kind is not None:
            column = piece.frame[layout.kind]
            text = column.cast(pl.String).str.strip_chars()
            values = text.replace_strict(list(kinds), list(kinds.values()), default=None, return_dtype=pl.Float32)
            message = f"{column.name!r} is a kind without a value; known are {', '.join(kinds)}, add it to kinds="
            self.findings.rows("unknown-kind", message, values.is_null(), piece, found=column)
            return values.fill_null(np.nan).to_numpy(writable=True)
        if layout.value is None:
            return np.ones(len(piece.frame), dtype=np.float32)
        column = piece.frame[layout.value]
        values, name = self._numbers(column), repr(column.name)
        numbers = values.fill_null(np.nan).to_numpy(writable=True)
        if not np.isfinite(numbers).all():
            empty, remedy = _is_empty(column), "remove these rows, or give words their values with kind= and kinds="
            for kind, message, mask in (
                ("null-value", "is empty", empty),
                ("not-a-number", f"is not a number; {remedy}", values.is_null() & ~empty),
                ("nan", "is NaN", values.is_nan().fill_null(False)),
                ("infinite", "is infinite or too large", values.is_infinite().fill_null(False)),
            ):
                self.findings.rows(kind, f"{name} {message}", mask, piece, found=column)
            numbers[np.isinf(numbers)] = np.nan
        if self.columns.unrated is not None:
            numbers[numbers == np.float32(self.columns.unrated)] = np.nan
        return numbers

    def _read_times(self, column: pl.Series, piece: Piece) -> tuple[IntArray, bool]:
        found, has_fractions = self._times(column)
        name, times = repr(column.name), found.fill_null(MISSING_TIME).to_numpy(writable=True)
        is_known = times != MISSING_TIME
        if not is_known.all():
            empty = _is_empty(column)
            message = f"{name} is neither a number nor a date"
            self.findings.rows("bad-time", message, found.is_null() & ~empty, piece, found=column)
            self.findings.rows("missing-time", f"{name} is empty", empty, piece)
        self.findings.rows("negative-time", f"{name} is negative", is_known & (times < 0), piece)
        latest = np.append(self._last_time, times[is_known])
        is_earlier = np.zeros(len(times), dtype=np.bool_)
        is_earlier[is_known] = latest[1:] < latest[:-1]
        message = f"{name} is earlier than in the row before"
        self.findings.rows("times-not-sorted", message, is_earlier, piece)
        self._last_time = int(latest[-1])
        return times, has_fractions


def _is_empty(column: pl.Series) -> pl.Series:
    return column.is_null() | ((column.str.strip_chars() == "") if column.dtype == pl.String else False)


class Dictionary:
    """Codes of ids, the same in all pieces: even for small whole numbers, odd for any other text."""

    def __init__(self) -> None:
        self._categories = pl.Categories.random()
        # polars forgets what no column uses
        self._holder: pl.Series | None = pl.Series([], dtype=pl.Categorical(self._categories))

    def codes(self, ids: pl.Series) -> npt.NDArray[np.int32]:
        """Return the code of each id."""
        numbers = whole_numbers(ids)
        if numbers is not None and numbers.is_between(0, LARGEST_CODED).all():
            return 2 * numbers.cast(pl.Int32).to_numpy()
        numbers = ids.cast(pl.Int32, strict=False)
        is_small = (numbers.cast(pl.String) == ids) & numbers.is_between(0, LARGEST_CODED)
        text = ids.cast(pl.Categorical(self._categories)).to_physical().cast(pl.Int32)
        return np.where(
            is_small.fill_null(False).to_numpy(), 2 * numbers.fill_null(0).to_numpy(), 2 * text.to_numpy() + 1
        )

    def sorted(self, codes: IntArray) -> tuple[tuple[str, ...], IntArray]:
        """Return the ids in their order; `codes` become rows of it, in place."""
        is_used = np.zeros(int(codes.max(initial=0)) + 1, dtype=np.bool_)
        is_used[codes] = True
        used = np.flatnonzero(is_used)
        text = pl.Series(used // 2).cast(pl.String)
        if (is_odd := used % 2 == 1).any():
            text = text.scatter(np.flatnonzero(is_odd), self._categories.to_series().gather(used[is_odd] // 2))
        self._holder = None
        order = id_order(text)
        row_of = np.empty(len(is_used), dtype=np.int32)
        row_of[used[order.to_numpy()]] = np.arange(len(order), dtype=np.int32)
        for start in range(0, len(codes), ROW_BLOCK):
            codes[start : start + ROW_BLOCK] = row_of[codes[start : start + ROW_BLOCK]]
        return tuple(text.gather(order).to_list()), codes


def id_order(ids: pl.Series) -> pl.Series:
    """Return the order of ids in a log: that of whole numbers where all are, otherwise that of text."""
    numbers = whole_numbers(ids)
    return (ids if numbers is None else numbers).arg_sort()


class Builder:
    """Collects the rows of a log as numbers; where they are very many, duplicates are dropped on the way."""

    def __init__(self, reader: RowReader) -> None:
        self._reader, self._findings = reader, reader.findings
        self._users, self._items = Dictionary(), Dictionary()
        self._columns: list[list[Any]] = [[], [], [], []]
        self._are_whole: list[bool] = []
        self.n_rows = self._n_kept = self._n_dropped = 0
        self._limit = COMPACT_ROWS

    def add(self, piece: Piece) -> None:
        """Add the rows of a piece."""
        if not len(piece.frame):
            return
        users, items, values, times, has_fractions = self._reader.rows(piece._replace(before=self.n_rows))
        if users.null_count() or items.null_count():
            has_ids = (users.is_not_null() & items.is_not_null()).to_numpy()
            users, items, values = users.filter(has_ids), items.filter(has_ids), values[has_ids]
            times = None if times is None else times[has_ids]
        parts = (self._users.codes(users), self._items.codes(items), values, times)
        for column, part in zip(self._columns, parts, strict=True):
            column.extend([] if part is None else [part])
        self._are_whole.append(not has_fractions)
        self.n_rows += len(piece.frame)
        self._n_kept += len(values)
        if self._n_kept > self._limit:
            users_idx, items_idx, values, times = self._joined()
            self._keep_latest(latest_reactions(users_idx, items_idx, times)[0], users_idx, items_idx, values, times)
            self._limit = max(COMPACT_ROWS, 2 * self._n_kept)

    def _keep_latest(self, is_latest: BoolArray, *columns: npt.NDArray[Any] | None) -> None:
        for own, part in zip(self._columns, columns, strict=True):
            own[:] = [] if part is None else [filtered(part, is_latest)]
        kept = len(self._columns[0][0])
        self._n_dropped, self._n_kept = self._n_dropped + self._n_kept - kept, kept

    def _joined(self) -> tuple[IntArray, IntArray, Float32Array, IntArray | None]:
        """Return the columns in one piece each; all times in one unit."""
        users, items, values, times = self._columns
        if times and not all(self._are_whole):
            for part, is_whole in zip(times, self._are_whole, strict=True):
                if is_whole:
                    part[part != MISSING_TIME] *= MICROSECONDS
        self._are_whole = [all(self._are_whole)]
        return _whole(users), _whole(items), _whole(values), _whole(times) if times else None

    def log(self, name: str, source: str) -> Interactions:
        """Return the log: ids in order, at most one reaction of a user to an item, and what was noticed."""
        findings, layout = self._findings, self._reader.layout
        is_exact = self._n_kept == self.n_rows  # otherwise places in the columns are not row numbers
        user_idx, item_idx, values, times = self._joined()
        user_ids, user_idx = self._users.sorted(user_idx)
        item_ids, item_idx = self._items.sorted(item_idx)
        for column, ids, idx in ((layout.user, user_ids, user_idx), (layout.item, item_ids, item_idx)):
            check_ids(column, ids, idx, findings, source, is_exact=is_exact)
        final_layout = self._reader.final_layout()
        self._check_values(values, times)
        is_latest, repeats = latest_reactions(user_idx, item_idx, times)
        if n_duplicates := self._n_dropped + len(values) - int(is_latest.sum()):
            message = "the user has a reaction to the item in an earlier row; the latest one counts"
            findings.add("duplicate-pair", message, n_duplicates, (repeats + 1).tolist() if is_exact else ())
        for key, column, idx in (("user", layout.user, user_idx), ("item", layout.item, item_idx)):
            counts = np.bincount(idx[is_latest] if n_duplicates else idx)
            if n_single := int((counts == 1).sum()):
                message = f"{n_single:,} of {len(counts):,} ids of {column!r} have one reaction only"
                first = np.flatnonzero((counts == 1)[idx])[:SHOWN_ROWS] + 1
                findings.add(f"single-reaction-{key}", message, n_single, first.tolist() if is_exact else ())
            if column in final_layout.guessed and FEWEST_NUMBERED <= n_single == len(counts) and key == "user":
                message = f"{column!r} was taken for the users by its place alone and repeats no id; say which "
                message += "column holds the users with user="
                findings.refuse("row-numbers", message, n_single, "", source, first[:0])
                findings.add("row-numbers", message, n_single)
        if n_duplicates:
            user_idx, item_idx = filtered(user_idx, is_latest), filtered(item_idx, is_latest)
            values = filtered(values, is_latest)
            times = None if times is None else filtered(times, is_latest)
        if times is not None and (times == MISSING_TIME).all():
            times = None
        return Interactions(
            user_ids, item_ids, user_idx, item_idx, values, times, name=name, n_duplicates=n_duplicates,
            source_size=(self.n_rows, len(user_ids), len(item_ids)), kinds=dict(self._reader.columns.kinds),
            layout=final_layout, defects=findings.defects,
        )  # fmt: skip

    def _check_values(self, values: Float32Array, times: IntArray | None) -> None:
        findings, layout = self._findings, self._reader.layout
        known = values[~np.isnan(values)]
        if layout.value is not None and len(known) > 1:
            levels, counts = levels_of(known)
            if len(levels) == 1:
                message = f"{layout.value!r} is {levels[0]:g} in every row: every reaction counts as a success"
                findings.add("constant-value", message, len(known))
            elif (spike := unrated_spike(levels, counts, layout.value)) is not None:
                findings.add("unrated", *spike)
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


def latest_reactions(users: IntArray, items: IntArray, times: IntArray | None) -> tuple[BoolArray, IntArray]:
    """Return which rows are the latest reaction of a user to an item, and the first rows that repeat a pair.

    The latest is by time, at equal times or without any the last row.
    """
    pair, rows = _repeated_pairs(users, items)
    is_latest = np.ones(len(users), dtype=np.bool_)
    if not len(rows):
        return is_latest, rows
    repeats = np.sort(rows[np.append(False, pair[1:] == pair[:-1])])[:SHOWN_ROWS]
    if times is not None:
        rows = rows[np.lexsort((times[rows], pair))]  # stable: at equal times the last row stays last
    is_latest[rows] = False
    is_latest[rows[np.append(pair[1:] != pair[:-1], True)]] = True
    return is_latest, repeats


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
