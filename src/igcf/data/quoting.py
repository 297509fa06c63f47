"""Quotes in lines of text tables: which reading of a line gives it the columns that it should have."""

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
    broken: tuple[int, ...] = ()
    """Columns with a field that spans lines."""


class Grammar:
    """Patterns of a row with one separator and number of columns."""

    def __init__(self, separator: str, n_columns: int) -> None:
        self.separator, self.n_columns = separator, n_columns
        sign, more = re.escape(separator), f"{{{n_columns - 1}}}"
        unquoted = rf'[^"{sign}][^{sign}]*|'  # a quote inside such a field has no meaning
        strict, start = rf'(?:"(?:[^"]|"")*"|[^"{sign}]*)', r' *"(?:[^"\\]|\\.|"")*'
        escaped = rf'(?>{start}" *(?={sign}|\Z)|{unquoted})'  # atomic: the time grows with the length only
        self.plain = rf"^[^{sign}]*(?:{sign}[^{sign}]*){more}$"
        self.strict = rf"^{strict}(?:{sign}{strict}){more}$"
        self._readings = [
            (
                how,
                re.compile(rf"{field}(?:{sign}{field}){more}", re.DOTALL),
                re.compile(rf"({field})(?:{sign}|\Z)", re.DOTALL),
            )
            for how, field in (("standard", strict), ("escaped", escaped))
        ]
        self._open = [
            re.compile(rf"(?:{field}{sign}){{0,{n_columns - 1}}}{rest}", re.DOTALL)
            for field, rest in ((strict, '"(?:[^"]|"")*'), (escaped, rf"{start}\\?"))
        ]

    def cells(self, text: str) -> tuple[list[str], str] | None:
        """Return the fields of a row and how they were found; None where it has another number of columns."""
        for how, row, field in self._readings:
            if row.fullmatch(text):
                fields = [match[1] for match in field.finditer(text)][: self.n_columns]
                return [_bare(each, escapes=how == "escaped") for each in fields], how
        if "\n" in text:
            return None
        between = f'"{self.separator}"'
        if text.startswith('"') and text.endswith('"') and text.count(between) == self.n_columns - 1:
            return [_bare(f'"{field}"') for field in text[1:-1].split(between)], "stray"
        fields = text.split(self.separator)
        return ([_bare(field) for field in fields], "stray") if len(fields) == self.n_columns else None

    def may_go_on(self, text: str) -> bool:
        """Tell whether a text ends inside a quoted field, so that a further line may complete the row."""
        return any(pattern.fullmatch(text) for pattern in self._open)

    def text(self, fields: Sequence[str]) -> str:
        """Write a row by the rules of CSV."""
        needs_quotes = ('"', "\n", self.separator)
        return self.separator.join(
            '"' + field.replace('"', '""') + '"' if any(sign in field for sign in needs_quotes) else field
            for field in fields
        )

    def single(self, line: str) -> Record:
        """Return the row that an odd line is by itself: its quotes have no meaning, or it is short, or wrong."""
        read = self.cells(line)
        if read is not None:
            return Record(self.text(read[0]), "stray")
        fields = cells(line, self.separator)
        if len(fields) < self.n_columns and not _is_open(line):
            return Record(self.text([*fields, *[""] * (self.n_columns - len(fields))]), "short")
        return Record(line, "wrong")


def records(
    lines: Sequence[str], is_odd: Sequence[bool], grammar: Grammar, *, may_go_on: bool
) -> tuple[list[Record], Sequence[str]]:
    """Return one record per row, and the lines of a row that continues after the last line.

    Args:
        lines: Lines of a table, none of them empty.
        is_odd: Whether each breaks the rules of CSV.
        grammar: Separator and number of columns.
        may_go_on: Whether more lines follow; otherwise the last row ends here.
    """
    found: list[Record] = []
    place = 0
    while place < len(lines):
        record = _odd_record(lines, is_odd, place, grammar) if is_odd[place] else Record(lines[place])
        if record is None and may_go_on:
            return found, lines[place:]
        found.append(record or grammar.single(lines[place]))
        place += found[-1].n_lines
    return found, ()


def _odd_record(lines: Sequence[str], is_odd: Sequence[bool], place: int, grammar: Grammar) -> Record | None:
    """Return the row that begins at an odd line; None where its end is not among the lines."""
    line = lines[place]
    read = grammar.cells(line)
    if read is not None and read[1] != "stray":
        return Record(grammar.text(read[0]), None if read[1] == "standard" else read[1])
    if not grammar.may_go_on(line) or (read is not None and _are_rows(is_odd, place + 1, 1)):
        return grammar.single(line)  # nothing is open, or what follows is a row: the quote has no meaning
    text = line
    for n in range(1, min(LONGEST_RECORD, len(lines) - place)):
        text += "\n" + lines[place + n]
        has_quote = '"' in lines[place + n]
        if has_quote and (joined := grammar.cells(text)) is not None:
            broken = tuple(number for number, cell in enumerate(joined[0]) if "\n" in cell)
            return Record(grammar.text(joined[0]), "several-lines", n + 1, broken=broken)
        if _are_rows(is_odd, place + n, SWALLOWED) or (has_quote and not grammar.may_go_on(text)):
            return grammar.single(line)  # the quote is never closed
    return None if len(lines) - place < LONGEST_RECORD else grammar.single(line)


def _are_rows(is_odd: Sequence[bool], start: int, n: int) -> bool:
    """Tell whether the next lines are rows by the rules of CSV."""
    return len(is_odd) >= start + n and not any(is_odd[start : start + n])


def _is_open(line: str) -> bool:
    """Tell whether a field of a line begins with a quote that is not closed in it."""
    return '"' in QUOTED.sub("", line)


def _bare(field: str, *, escapes: bool = True) -> str:
    field = field.strip() if field.strip().startswith('"') else field
    if len(field) < 2 or not (field.startswith('"') and field.endswith('"')):
        return field
    bare = field[1:-1].replace('""', '"')
    return re.sub(r"\\([\"\\])", r"\1", bare) if escapes else bare


def cells(line: str, separator: str) -> list[str]:
    """Return the fields of a line with an unknown number of columns."""
    if len(separator.encode()) > 1 or '"' not in line:
        return line.split(separator)
    found = Grammar(separator, QUOTED.sub("", line).count(separator) + 1).cells(line)
    return line.split(separator) if found is None else found[0]


def separator_of(lines: Sequence[str]) -> str | None:
    """Return the sign that divides the lines into equally many columns, the most of them; None where none does."""
    bare = [QUOTED.sub("", line) for line in lines]
    for share in (1.0, MOST_ALIKE):
        counts = [(*Counter(line.count(sign) for line in bare).most_common(1)[0], sign) for sign in SIGNS]
        alike = [(count, sign) for count, n, sign in counts if count and n >= share * len(bare)]
        if alike:
            return max(alike, key=lambda each: each[0])[1]
    if found := max(SIGNS[1:], key=bare[0].count) if any(sign in bare[0] for sign in SIGNS[1:]) else None:
        return found  # rows of unequal length: use the header
    return " " if len({line.count(" ") for line in bare}) == 1 and " " in bare[0] else None
