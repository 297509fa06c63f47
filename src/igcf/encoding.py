"""Attributes of users and of requests become numbers: one encoder per model, learned from the training users."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from igcf.arrays import FloatArray
from igcf.errors import AttributesError, ModelError, quoted

Kind = Literal["category", "number", "time"]
OTHER = "(other)"
"""Level of all values that are too rare for one of their own."""
FEWEST_USERS = 20
"""Users with a value below which it has no level of its own."""
LEAST_POOLED = 3
"""Users with a value below which the model does not know the value at all, so that it cannot point at a person."""
MOST_LEVELS, MOST_COLUMNS = 50, 200
"""Levels of one attribute, and numbers that all attributes together become."""
MOST_VALUES, LONGEST_TEXT = 100, 200
"""Values that one attribute may have at a time, and characters of a value."""
LARGEST = 1e15
"""Numbers of an attribute are smaller than this; neither NaN nor infinity is."""
FARTHEST = 3.0
"""Standard deviations from the mean at which numbers are clipped."""
TIME_LEVELS = ("hour: cos", "hour: sin", "hour: cos 2", "hour: sin 2", *(f"weekday {day}" for day in range(1, 8)))


@dataclass(frozen=True)
class Attribute:
    """How one attribute becomes numbers."""

    name: str
    kind: Kind
    levels: tuple[str, ...]
    """What each number stands for: values of a category, the number itself, parts of a time."""
    centre: tuple[float, ...]
    """Mean of each number over the training users who have the attribute; it is subtracted."""
    scale: float = 1.0
    """Standard deviation of a number."""
    pooled: tuple[str, ...] = ()
    """Values that count as `(other)`."""

    @classmethod
    def fit(cls, name: str, kind: Kind, values: Sequence[Any], most_levels: int = MOST_LEVELS) -> "Attribute | None":
        """Learn from the values of the training users (None: unknown); None where nothing can be learned."""
        known = [value for value in values if value is not None]
        if len(known) < FEWEST_USERS:
            return None
        if kind == "number":
            scale = float(np.std(known))
            return cls(name, kind, (name,), (float(np.mean(known)),), scale) if scale > 0 else None
        levels: tuple[str, ...] = TIME_LEVELS
        pooled: tuple[str, ...] = ()
        if kind == "category":
            counts = Counter(text for value in known for text in set(value))
            common = [text for text, count in counts.most_common(most_levels) if count >= FEWEST_USERS]
            rest = {text: count for text, count in counts.items() if text not in common and count >= LEAST_POOLED}
            pooled = tuple(sorted(rest)) if sum(rest.values()) >= FEWEST_USERS else ()
            levels = (*sorted(common), *([OTHER] if pooled else []))
        whole = cls(name, kind, levels, (0.0,) * len(levels), 1.0, pooled)
        rows = [row for row in map(whole.encoded, known) if row is not None] if levels else []
        if len({*map(bytes, rows)}) < 2:
            return None
        return replace(whole, centre=tuple(np.mean(rows, axis=0).tolist()))

    def encoded(self, value: Any) -> FloatArray | None:
        """Return the numbers of a parsed value, centred; None where the training users did not have it."""
        if self.kind == "number":
            return np.array([min(max((value - self.centre[0]) / self.scale, -FARTHEST), FARTHEST)])
        if self.kind == "time":
            return np.asarray(_time_parts(value) - np.array(self.centre))
        places = [place for place in map(self._places.get, value) if place is not None]
        if not places:
            return None
        result = -self._centre
        for place in places:
            result[place] += 1.0 / len(places)
        return result

    @cached_property
    def _centre(self) -> FloatArray:
        return np.array(self.centre)

    @cached_property
    def _places(self) -> dict[str, int]:
        places = {level: place for place, level in enumerate(self.levels)}
        return places | dict.fromkeys(self.pooled, places.get(OTHER, 0))


class Encoded(NamedTuple):
    """Attributes as numbers."""

    numbers: FloatArray
    """Centred numbers of all attributes, shape (columns,); zero where an attribute is unknown."""
    known: tuple[int, ...]
    """Places of the attributes that are known."""
    ignored: tuple[str, ...]
    """One sentence per value that the training users did not have."""


@dataclass(frozen=True)
class Encoder:
    """All attributes that a model understands, in the order of their numbers."""

    attributes: tuple[Attribute, ...]
    what: str = "attribute"
    """What an error calls one of them."""
    unused: tuple[str, ...] = ()
    """Names that are accepted and ignored: they predicted nothing in training."""

    def __post_init__(self) -> None:
        """Raise if the parts do not fit together."""
        for each in self.attributes:
            fits = len(each.levels) == len(each.centre) and each.kind in get_args(Kind) and each.scale > 0
            if not fits or not all(map(math.isfinite, (*each.centre, each.scale))):
                raise ModelError(f"the {self.what} {each.name!r} of the model is damaged; retrain")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the attributes."""
        return tuple(each.name for each in self.attributes)

    @cached_property
    def spans(self) -> tuple[slice, ...]:
        """Which of the numbers belong to each attribute."""
        ends = np.cumsum([0, *(len(each.levels) for each in self.attributes)]).tolist()
        return tuple(slice(start, end) for start, end in pairwise(ends))

    @property
    def n_columns(self) -> int:
        """Number of numbers."""
        return self.spans[-1].stop if self.spans else 0

    def encode(self, given: Mapping[str, Any]) -> Encoded:
        """Turn attributes by name into numbers; unknown names are refused, unknown values reported as ignored."""
        check_given(given, self.what)
        numbers, known, ignored = np.zeros(self.n_columns), [], []
        for name in given:
            if name not in self._places and name not in self.unused:
                names = ", ".join(self.names) or "none"
                raise AttributesError(f"unknown {self.what} {quoted(name)}; this model knows {names}")
        for name, value in given.items():
            if name in self.unused:
                ignored.append(f"{name}: not used, it predicted nothing in training")
                continue
            place = self._places[name]
            attribute = self.attributes[place]
            parsed = parsed_value(self.what, name, attribute.kind, value)
            found = None if parsed is None else attribute.encoded(parsed)
            if found is not None:
                numbers[self.spans[place]] = found
                known.append(place)
            elif parsed is not None:
                ignored.append(f"{name}: {quoted(value)} is unknown or was too rare in training")
        return Encoded(numbers, tuple(sorted(known)), tuple(ignored))

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.names)}

    def without(self, names: Sequence[str]) -> "Encoder":
        """Return the encoder that ignores some attributes."""
        return Encoder(tuple(each for each in self.attributes if each.name not in names), self.what, tuple(names))

    @classmethod
    def fit(
        cls, kinds: Mapping[str, Kind], columns: Mapping[str, Sequence[Any]], most_levels: int, what: str = "attribute"
    ) -> "Encoder":
        """Learn how attributes become numbers.

        Args:
            kinds: Kind of each attribute.
            columns: Values of each attribute in the training data; None where unknown.
            most_levels: Levels of one attribute, at most.
            what: What an error calls one of them.
        """
        fitted = (Attribute.fit(name, kind, columns[name], most_levels) for name, kind in kinds.items())
        return cls(tuple(each for each in fitted if each is not None), what)

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> "Encoder":
        """Build it from what `as_dict` gave."""

        def attribute(each: Mapping[str, Any]) -> Attribute:
            lists = {name: tuple(each[name]) for name in ("levels", "centre", "pooled")}
            return Attribute(str(each["name"]), each["kind"], scale=float(each["scale"]), **lists)

        return cls(tuple(map(attribute, saved["attributes"])), str(saved["what"]), tuple(saved["unused"]))


def check_given(given: Mapping[str, Any], what: str) -> None:
    """Refuse what is not a mapping from names to plain values, whatever a model knows of them."""
    if not isinstance(given, Mapping):
        raise AttributesError(f"{what}s must be a mapping from names to values, got {quoted(given)}")
    if len(given) > MOST_VALUES:
        raise AttributesError(f"{len(given):,} {what}s given; pass at most {MOST_VALUES}")
    for name, value in given.items():
        if not isinstance(name, str) or not 0 < len(name) <= LONGEST_TEXT:
            raise AttributesError(f"{what} name {quoted(name)}: expected text of 1 to {LONGEST_TEXT} characters")
        several = isinstance(value, list | tuple | set | frozenset)
        if several and len(value) > MOST_VALUES:
            raise AttributesError(f"{what} {name!r} has {len(value):,} values; pass at most {MOST_VALUES}")
        wrong = [each for each in (value if several else [value]) if not _is_plain(each)]
        if wrong:
            expected = f"text of at most {LONGEST_TEXT} characters, a finite number, true or false, or a list of these"
            raise AttributesError(f"{what} {name!r} is {quoted(wrong[0])}; expected {expected}")


def _is_plain(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= LONGEST_TEXT
    is_known = value is None or isinstance(value, bool | datetime | np.datetime64)
    return is_known or (isinstance(value, int | float | np.integer | np.floating) and abs(float(value)) < LARGEST)


def parsed_value(what: str, name: str, kind: Kind, value: Any) -> Any:
    """Return a checked value in the form of its kind: a tuple of texts, a number, a time; None: unknown."""
    several = list(value) if isinstance(value, list | tuple | set | frozenset) else [value]
    several = [each for each in several if each is not None and each != ""]
    if not several:
        return None
    if kind == "category":
        return tuple(dict.fromkeys(map(_text, several)))
    if len(several) > 1:
        raise AttributesError(f"{what} {name!r} has {len(several)} values; a {kind} has one")
    [one] = several
    try:
        return _finite(one) if kind == "number" else _time(one)
    except (TypeError, ValueError, OverflowError, OSError):
        expected = "a number" if kind == "number" else "seconds since 1970 or a time like 2026-11-18T09:30:00+01:00"
        raise AttributesError(f"{what} {name!r} is {quoted(one)}; expected {expected}") from None


def _text(value: Any) -> str:
    """Return a value as the name of a level: 25, 25.0 and "25" are the same."""
    if isinstance(value, bool | np.bool_):
        return str(bool(value)).lower()
    if isinstance(value, int | float | np.number):
        return str(int(value)) if float(value).is_integer() else str(float(value))
    return str(value).strip()


def _finite(value: Any) -> float:
    number = float(value)
    if not abs(number) < LARGEST:
        raise ValueError(number)
    return number


def _time(value: Any) -> datetime:
    """Return a time on the user's own clock where its zone is given, otherwise in UTC."""
    if isinstance(value, datetime):
        return value
    if isinstance(value, str):
        return datetime.fromisoformat(value)
    return datetime.fromtimestamp(float(value), UTC)


def _time_parts(time: datetime) -> FloatArray:
    angle = 2.0 * math.pi * (time.hour + time.minute // 15 / 4.0) / 24.0  # quarters: the same contexts come again
    day = [float(time.isoweekday() == number) for number in range(1, 8)]
    return np.array([math.cos(angle), math.sin(angle), math.cos(2 * angle), math.sin(2 * angle), *day])
