"""How much a Parquet file holds, told from its headers alone: a few bytes of it can stand for gigabytes.

Only what is needed of the format (Thrift's compact protocol) is read; https://parquet.apache.org/docs/file-format.
"""

import struct
from dataclasses import dataclass
from typing import Any

MAGIC = b"PAR1"
DAMAGES = (AttributeError, IndexError, KeyError, TypeError, ValueError, RecursionError, struct.error)


@dataclass(frozen=True)
class Chunk:
    """One column of one group of rows."""

    column: str
    values: int
    """Entries, nested ones counted one by one: the most that its pages or the footer say."""
    size: int
    """Bytes when unpacked."""


def parquet_chunks(content: bytes) -> list[Chunk]:
    """Read the sizes of all columns, from the footer and from the header of every page; nothing is unpacked.

    Raises:
        ValueError: what was found is not Parquet.
    """
    try:
        if content[:4] != MAGIC or content[-4:] != MAGIC:
            raise ValueError("no Parquet file")
        length = int.from_bytes(content[-8:-4], "little")
        footer = Compact(content, len(content) - 8 - length).structure()
        return [_chunk(content, column[3]) for group in footer.get(4, ()) for column in group[1]]
    except DAMAGES as error:
        raise ValueError(f"the headers cannot be read ({error or type(error).__name__})") from error


def _chunk(content: bytes, column: dict[int, Any]) -> Chunk:
    """Add up the pages of one column; a footer that says less than the pages is not believed."""
    first = min(offset for offset in (column.get(11), column[9]) if offset)
    at, end = first, first + column[7]
    if not 0 < first <= end <= len(content):
        raise ValueError("a column lies outside the file")
    values = size = 0
    while at < end:
        page = Compact(content, at)
        header = page.structure()
        values += (header.get(5) or header.get(8) or {}).get(1, 0)
        if header[2] < 0 or header[3] < 0 or values < 0:
            raise ValueError("a page of negative size")
        size += header[2]
        at = page.at + header[3]
    return Chunk(".".join(each.decode() for each in column[3]), max(values, column[5]), max(size, column[6]))


class Compact:
    """A reader of Thrift's compact protocol: structures become dictionaries by the numbers of their fields."""

    def __init__(self, content: bytes, at: int) -> None:
        if at < 0:
            raise ValueError("the footer is larger than the file")
        self._content = content
        self.at = at

    def structure(self) -> dict[int, Any]:
        """Read one structure."""
        found: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._signed()
            found[number] = self._value(head & 15)
        return found

    def _value(self, kind: int) -> Any:
        if kind in (1, 2):
            return kind == 1
        if kind in (4, 5, 6):
            return self._signed()
        if kind == 12:
            return self.structure()
        if kind in (9, 10):
            return self._list()
        size = {3: 1, 7: 8}.get(kind, 0) or (self._unsigned() if kind == 8 else -1)
        if not 0 <= size <= len(self._content) - self.at:
            raise ValueError(f"a field of kind {kind} and size {size}")
        self.at += size
        return self._content[self.at - size : self.at]

    def _list(self) -> list[Any]:
        head = self._byte()
        size = self._unsigned() if head >> 4 == 15 else head >> 4
        if size > len(self._content) - self.at:  # every entry takes a byte
            raise ValueError(f"a list of {size} entries")
        if head & 15 in (1, 2):  # within a list, a byte each
            return [self._byte() == 1 for _ in range(size)]
        return [self._value(head & 15) for _ in range(size)]

    def _byte(self) -> int:
        self.at += 1
        return self._content[self.at - 1]

    def _unsigned(self) -> int:
        number = shift = 0
        while shift < 70:
            byte = self._byte()
            number |= (byte & 127) << shift
            if byte < 128:
                return number
            shift += 7
        raise ValueError("a number of more than 64 bits")

    def _signed(self) -> int:
        number = self._unsigned()
        return (number >> 1) ^ -(number & 1)
