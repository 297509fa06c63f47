"""Features of items for the content prior: categories, numbers and words (docs/maths.md, section New items)."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from igcf.arrays import FloatArray
from igcf.item import Item

YEAR = "year"
"""Number that is read from the end of a title, such as `Toy Story (1995)`, where an item does not say it."""
MOST_WORDS, FEWEST_USES, SHORTEST_WORD = 300, 4, 3
"""Words that are features are the most frequent ones, each in some items at least."""
MOST_CATEGORIES = 200
N_KNOTS = 10
WORD_SHARE = 0.7
"""Length of the part of the features that words are, beside a length of one for a category."""
WORDS = re.compile(r"[^\W\d_]+")
YEAR_IN_TITLE = re.compile(r"\((\d{4})\)\s*$")


@dataclass(frozen=True)
class Features:
    """How an item is described by numbers: one for each category, some for each number, one for each word."""

    categories: tuple[str, ...] = ()
    numbers: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Knots of each number, in ascending order; a number becomes its closeness to each of them."""
    words: Mapping[str, float] = field(default_factory=dict)
    """Weight of each word: the rarer, the larger."""

    @classmethod
    def from_items(cls, items: Sequence[Item]) -> "Features":
        """Choose the features that the items of a catalogue have in common."""
        tags = Counter(name for item in items for name in set(item.categories))
        uses = Counter(word for item in items for word in set(_words(item)))
        words = sorted((-n, word) for word, n in uses.items() if FEWEST_USES <= n < len(items))[:MOST_WORDS]
        values: dict[str, list[float]] = {}
        for item in items:
            for name, value in _numbers(item):
                values.setdefault(name, []).append(value)
        knots = {name: np.unique(np.quantile(own, np.linspace(0.02, 0.98, N_KNOTS))) for name, own in values.items()}
        return cls(
            tuple(sorted(name for name, _ in tags.most_common(MOST_CATEGORIES))),
            {name: tuple(own.tolist()) for name, own in sorted(knots.items()) if len(own) > 1},
            {word: float(np.log(len(items) / -n)) for n, word in words},
        )

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> "Features":
        """Build it from what `asdict` gave."""
        knots = {str(name): tuple(map(float, own)) for name, own in saved["numbers"].items()}
        words = {str(word): float(weight) for word, weight in saved["words"].items()}
        return cls(tuple(map(str, saved["categories"])), knots, words)

    @property
    def n_features(self) -> int:
        """Number of features of an item."""
        return len(self.categories) + sum(map(len, self.numbers.values())) + len(self.words)

    def of(self, items: Sequence[Item]) -> FloatArray:
        """Return the features of some items, (items, features); what is unknown or missing is zero."""
        result = np.zeros((len(items), self.n_features))
        place = {name: number for number, name in enumerate(self.categories)}
        for row, item in enumerate(items):
            result[row, [place[name] for name in set(item.categories) if name in place]] = 1.0
        first = len(self.categories)
        for name, knots in self.numbers.items():
            own = np.array([dict(_numbers(item)).get(name, np.nan) for item in items])
            result[:, first : first + len(knots)] = _closeness(own, np.array(knots))
            first += len(knots)
        place = {word: first + number for number, word in enumerate(self.words)}
        for row, item in enumerate(items):
            for word in set(_words(item)):
                if word in place:
                    result[row, place[word]] = self.words[word]
        length = np.linalg.norm(result[:, first:], axis=1, keepdims=True)
        result[:, first:] *= WORD_SHARE / np.where(length > 0, length, 1.0)
        return result


def _closeness(values: FloatArray, knots: FloatArray) -> FloatArray:
    """Closeness of numbers to knots, (items, knots): one at the knot, small at the next; nothing for NaN."""
    width = np.gradient(knots) if len(knots) > 1 else np.ones(1)
    inside = np.clip(values, knots[0], knots[-1])
    return np.nan_to_num(np.exp(-0.5 * ((inside[:, None] - knots) / width) ** 2))


def _numbers(item: Item) -> Iterable[tuple[str, float]]:
    yield from item.numbers.items()
    if YEAR not in item.numbers and item.title:
        found = YEAR_IN_TITLE.search(item.title)
        if found:
            yield YEAR, float(found.group(1))


def _words(item: Item) -> list[str]:
    text = f"{item.title or ''} {item.text or ''}".lower()
    return [word for word in WORDS.findall(text) if len(word) >= SHORTEST_WORD]
