"""One item as its owner describes it: what the catalogue, the content prior and the rules read."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Item:
    """An item of a catalogue with what is known of it besides reactions."""

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
    """Seconds since 1970 from which on the item is not recommended any more."""
    image: str | None = None
    """Path or address of a picture, as plain text; nothing is loaded from it."""
    hidden: bool = False
    """Whether the item is kept out of every answer for now."""
