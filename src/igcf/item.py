"""One item as its owner describes it, and the check of what comes from outside: one sentence for the first mistake."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import Any

from igcf.errors import DataError


@dataclass(frozen=True)
class Item:
    """An item of a catalogue with its attributes.

    >>> import igcf
    >>> igcf.Item("tea", title="Tea", categories=("drinks",), numbers={"price": 2.5}).categories
    ('drinks',)
    """

    id: str
    title: str | None = None
    categories: tuple[str, ...] = ()
    """Genres, departments or the like; they group items for content, rules and caps."""
    tags: tuple[str, ...] = ()
    """Free labels that rules may name; they do not enter the content prior."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """Numbers by name, for instance `{"year": 1994, "price": 9.5}`."""
    text: str | None = None
    """A description; its words enter the content prior."""
    available_from: float | None = None
    """Seconds since 1970 from which on the item may be recommended."""
    available_until: float | None = None
    """Seconds since 1970 from which on the item is no longer recommended."""
    image: str | None = None
    """Path or address of a picture, as plain text; nothing is loaded from it."""
    hidden: bool = False
    """Whether the item is kept out of every answer for now."""


FIELDS = tuple(each.name for each in fields(Item))
LONGEST_ID, LONGEST_TITLE, LONGEST_TEXT, LONGEST_LABEL = 256, 1_000, 20_000, 200
MOST_LABELS, MOST_NUMBERS = 100, 100
LARGEST_NUMBER = 1e15

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\ud800-\udfff]")
"""Characters outside plain text: control characters but line ends and tabs, and halves of characters."""


def parse_items(given: Iterable[Item | Mapping[str, Any]]) -> list[Item]:
    """Check a batch of items; an id that occurs twice is refused, and returns all or none."""
    items: list[Item] = []
    seen: dict[str, int] = {}
    for number, each in enumerate(given, start=1):
        item = parse_item(each, f"item {number}")
        if item.id in seen:
            raise DataError(f"item {number} has the id {item.id!r} of item {seen[item.id]}; expected each id once")
        seen[item.id] = number
        items.append(item)
    return items


def parse_item(given: Item | Mapping[str, Any], where: str = "the item") -> Item:
    """Check one item; a mapping has the fields of `Item`, only `id` is required."""
    if isinstance(given, Item):
        given = {name: getattr(given, name) for name in FIELDS}
    if not isinstance(given, Mapping):
        raise DataError(f"{where} is {type(given).__name__}; expected an object with an id")
    if "id" not in given:
        raise DataError(f"{where} has no id; expected an object like {{'id': 'a', 'title': 'A'}}")
    item_id = _text(given["id"], f"the id of {where}", LONGEST_ID)
    if not item_id:
        raise DataError(f"{where} has an empty id")
    if item_id in (".", "..") or any(sign in "\n\t" or 0x7F <= ord(sign) < 0xA0 for sign in item_id):
        raise DataError(f"{where} has the id {_short(item_id)}, which no path can name; expected plain text")
    return Item(item_id, **parse_fields({k: v for k, v in given.items() if k != "id"}, f"{where} ({_short(item_id)})"))


def parse_fields(given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Check some fields of an item apart from its id; None stands for what an item has without them."""
    for name in given:
        if name not in FIELDS or name == "id":
            raise DataError(f"{where} has the unknown field {_short(name)}{nearest(str(name), FIELDS[1:])}")
    found: dict[str, Any] = {}
    for name, value in given.items():
        what = f"{name} of {where}"
        if name in ("categories", "tags"):
            found[name] = () if value is None else _labels(value, what)
        elif name == "numbers":
            found[name] = {} if value is None else _numbers(value, what)
        elif name == "hidden" and not isinstance(value, bool | None):
            raise DataError(f"{what} is {_short(value)}; expected true or false")
        elif name == "hidden" or value is None:
            found[name] = bool(value) if name == "hidden" else None
        elif name in ("title", "text", "image"):
            found[name] = _text(value, what, LONGEST_TEXT if name == "text" else LONGEST_TITLE)
        else:
            found[name] = finite(value, what)
    since, until = found.get("available_from"), found.get("available_until")
    if since is not None and until is not None and until <= since:
        raise DataError(f"available_until of {where} is {until:g}, not after available_from, {since:g}")
    return found


def nearest(name: str, known: Iterable[str]) -> str:
    """Name what was probably meant, or else some of what there is, as the end of a sentence."""
    names, asked = list(known), name[:LONGEST_LABEL]
    folded = {each.casefold(): each for each in names}
    for word, exact in ((asked, dict(zip(names, names, strict=True))), (asked.casefold(), folded)):
        if close := get_close_matches(word, list(exact), n=1):
            return f"; did you mean {exact[close[0]]!r}?"
    if not names:
        return "; none are known"
    return f"; expected one of {', '.join(map(repr, names[:8]))}{' ...' if len(names) > 8 else ''}"


def finite(value: Any, what: str) -> float:
    """Return a finite number; refuse anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LARGEST_NUMBER:
        raise DataError(f"{what} is {_short(value)}; expected a finite number")
    return float(value)


def _text(value: Any, what: str, longest: int) -> str:
    if not isinstance(value, str):
        raise DataError(f"{what} is {_short(value)}; expected text")
    if len(value) > longest:
        raise DataError(f"{what} has {len(value):,} characters; at most {longest:,} are allowed")
    if CONTROL.search(value):
        raise DataError(f"{what} has control characters; expected plain text")
    return value


def _labels(value: Any, what: str) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise DataError(f"{what} is {_short(value)}; expected a list of names")
    if len(value) > MOST_LABELS:
        raise DataError(f"{what} has {len(value)} names; at most {MOST_LABELS} are allowed")
    names = [_text(each, f"a name in {what}", LONGEST_LABEL) for each in value]
    return tuple(dict.fromkeys(name for name in names if name))


def _numbers(value: Any, what: str) -> dict[str, float]:
    if not isinstance(value, Mapping):
        raise DataError(f"{what} is {_short(value)}; expected an object like {{'year': 1994}}")
    if len(value) > MOST_NUMBERS:
        raise DataError(f"{what} has {len(value)} numbers; at most {MOST_NUMBERS} are allowed")
    return {
        _text(name, f"a name in {what}", LONGEST_LABEL): finite(number, f"{_short(name)} in {what}")
        for name, number in value.items()
        if number is not None
    }


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except RecursionError:
        text = f"a {type(value).__name__} of endless nesting"
    return text if len(text) <= 60 else f"{text[:57]}..."
