"""Quotes in lines of text tables: which reading of a line gives it the columns that it should have."""

import csv
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

LONGEST_RECORD = 1000
"""Most lines that a quoted field may span."""
SWALLOWED = 3
"""So many rows in a row do not belong to a quoted field."""
MOST_ALIKE = 0.9
"""Share of the lines that a separator must divide into equally many columns, where none divides all."""
SIGNS = ("::", "\t", ";", ",", "|")
QUOTED = re.compile(r'"(?:[^"\\]|\\.|"")*"')


class Record(NamedTuple):
    """One row of a table as CSV text, and how it was found."""

    text: str
    how: str | None = None
    """None: by the rules of CSV; `escaped`, `stray`, `several-lines`, `short`; `wrong`: not at all."""
    n_lines: int = 1
    n_columns: int = 0
    """Number of columns of a row that is wrong."""
    broken: tuple[int, ...] = ()
    """Columns whose field spans lines."""


class Grammar:
    """Patterns of a row with one separator and number of columns."""

    def __init__(self, separator: str, n_columns: int) -> None:
        self.separator, self.n_columns = separator, n_columns
        sign, more = re.escape(separator), f"{{{n_columns - 1}}}"
        unquoted = rf'[^"{sign}][^{sign}]*|'  # a quote inside such a field has no meaning
        strict, escaped = rf'(?:"(?:[^"]|"")*"|[^"{sign}]*)', rf'(?: *"(?:[^"\\]|\\.|"")*" *|{unquoted})'
        self.plain = rf"^[^{sign}]*(?:{sign}[^{sign}]*){more}$"
        self.strict = rf"^{strict}(?:{sign}{strict}){more}$"
        self._strict = re.compile(rf"{strict}(?:{sign}{strict}){more}", re.DOTALL)
        self._escaped = re.compile(rf"{escaped}(?:{sign}{escaped}){more}", re.DOTALL)
        self._field = re.compile(rf"({escaped})(?:{sign}|$)", re.DOTALL)

    def cells(self, text: str) -> tuple[list[str], str] | None:
        """Return the fields of a row and how they were found; None where it has another number of columns."""
        if self._strict.fullmatch(text):
            return next(csv.reader([text], delimiter=self.separator, strict=True)) if "\n" not in text else (
                [_bare(field, escapes=False) for field in self._fields(text)]
            ), "standard"  # fmt: skip
        if self._escaped.fullmatch(text):
            return [_bare(field, escapes=True) for field in self._fields(text)], "escaped"
        if "\n" in text:
            return None
        between = f'"{self.separator}"'
        if text.startswith('"') and text.endswith('"') and text.count(between) == self.n_columns - 1:
            return [_bare(f'"{field}"', escapes=True) for field in text[1:-1].split(between)], "stray"
        fields = text.split(self.separator)
        return ([_bare(field, escapes=True) for field in fields], "stray") if len(fields) == self.n_columns else None

    def _fields(self, text: str) -> list[str]:
        return [match[1] for match in self._field.finditer(text)][: self.n_columns]


def records(
    lines: Sequence[str], is_odd: Sequence[bool], grammar: Grammar, *, may_go_on: bool
) -> tuple[list[Record], Sequence[str]]:
    """Return one record per row, and the lines of a row that goes on after the last one.

    Args:
        lines: Lines of a table, none of them empty.
        is_odd: Whether each is no row by the rules of CSV.
        grammar: Separator and number of columns.
        may_go_on: Whether more lines follow; otherwise the last row ends here.
    """
    found: list[Record] = []
    place = 0
    while place < len(lines):
        if not is_odd[place]:
            found.append(Record(lines[place]))
            place += 1
            continue
        record, n = _odd_record(lines, is_odd, place, grammar)
        if record is None and may_go_on:
            return found, lines[place:]
        found.append(record or _single(lines[place], grammar))
        place += n
    return found, ()


def _odd_record(
    lines: Sequence[str], is_odd: Sequence[bool], place: int, grammar: Grammar
) -> tuple[Record | None, int]:
    """Return the row that begins at an odd line and how many lines it has; None where its end is not among them."""
    line = lines[place]
    read = grammar.cells(line)
    if read is not None and read[1] != "stray":
        return Record(_text(read[0], grammar), None if read[1] == "standard" else read[1]), 1
    if read is None and not _is_open(line):
        return _short_or_wrong(line, grammar), 1
    if read is not None and (not _is_open(line) or _are_rows(is_odd, place + 1, 1)):
        return Record(_text(read[0], grammar), "stray"), 1  # what follows is a row: the quote has no meaning
    text = line
    for n in range(1, min(LONGEST_RECORD, len(lines) - place)):
        text += "\n" + lines[place + n]
        if '"' in lines[place + n] and (joined := grammar.cells(text)) is not None:
            broken = tuple(number for number, cell in enumerate(joined[0]) if "\n" in cell)
            return Record(_text(joined[0], grammar), "several-lines", n + 1, broken=broken), n + 1
        if _are_rows(is_odd, place + n, SWALLOWED):
            break  # the quote is never closed
    else:
        if len(lines) - place < LONGEST_RECORD:
            return None, 1
    return _single(line, grammar), 1


def _single(line: str, grammar: Grammar) -> Record:
    """Return the row that an odd line is by itself: its quotes have no meaning, or it is wrong."""
    read = grammar.cells(line)
    return _short_or_wrong(line, grammar) if read is None else Record(_text(read[0], grammar), "stray")


def _are_rows(is_odd: Sequence[bool], start: int, n: int) -> bool:
    """Tell whether the next lines are rows by the rules of CSV."""
    return len(is_odd) >= start + n and not any(is_odd[start : start + n])


def _is_open(line: str) -> bool:
    """Tell whether a field of a line begins with a quote that is not closed in it."""
    return '"' in QUOTED.sub("", line)


def _short_or_wrong(line: str, grammar: Grammar) -> Record:
    fields = cells(line, grammar.separator)
    if len(fields) < grammar.n_columns and not _is_open(line):
        return Record(_text([*fields, *[""] * (grammar.n_columns - len(fields))], grammar), "short")
    return Record(line, "wrong", n_columns=len(fields))


def _bare(field: str, *, escapes: bool) -> str:
    field = field.strip() if field.strip().startswith('"') else field
    if len(field) < 2 or not (field.startswith('"') and field.endswith('"')):
        return field
    bare = field[1:-1].replace('""', '"')
    return re.sub(r"\\([\"\\])", r"\1", bare) if escapes else bare


def _text(fields: Sequence[str], grammar: Grammar) -> str:
    """Write a row by the rules of CSV."""
    needs_quotes = ('"', "\n", grammar.separator)
    return grammar.separator.join(
        '"' + field.replace('"', '""') + '"' if any(sign in field for sign in needs_quotes) else field
        for field in fields
    )


def cells(line: str, separator: str) -> list[str]:
    """Return the fields of a line whose number of columns is not known."""
    if separator == "::" or '"' not in line:
        return line.split(separator)
    unquoted = QUOTED.sub("", line)
    found = Grammar(separator, unquoted.count(separator) + 1).cells(line)
    return line.split(separator) if found is None else found[0]


def separator_of(lines: Sequence[str]) -> str | None:
    """Return the sign that divides the lines into equally many columns, the most of them; None where none does."""
    bare = [QUOTED.sub("", line) for line in lines]
    for share in (1.0, MOST_ALIKE):
        best: tuple[int, str] | None = None
        for sign in SIGNS:
            count, n = Counter(line.count(sign) for line in bare).most_common(1)[0]
            if count and n >= share * len(bare) and (best is None or count > best[0]):
                best = (count, sign)
        if best is not None:
            return best[1]
    count, sign = max(((bare[0].count(sign), sign) for sign in (",", "\t", ";", "|")), key=lambda each: each[0])
    if count:  # rows of unequal length: the header tells
        return sign
    return " " if len({line.count(" ") for line in bare}) == 1 and " " in bare[0] else None
