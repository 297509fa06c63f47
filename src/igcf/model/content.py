"""What an item's vectors are likely to be, given its description: features and the content prior.

See docs/maths.md, section New items.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from igcf.arrays import AnyFloatArray, Float32Array, FloatArray
from igcf.errors import ModelError
from igcf.item import Item

PREFIX = "content_"
"""Prefix of the names of the arrays of a content prior in a model folder."""
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
        categories = np.zeros((len(items), len(self.categories)))
        words = np.zeros((len(items), len(self.words)))
        category_place = {name: place for place, name in enumerate(self.categories)}
        word_place = {word: place for place, word in enumerate(self.words)}
        for row, item in enumerate(items):
            categories[row, [category_place[name] for name in item.categories if name in category_place]] = 1.0
            for word in word_place.keys() & _words(item):
                words[row, word_place[word]] = self.words[word]
        own = [dict(_numbers(item)) for item in items]
        numbers = [
            _closeness(np.array([each.get(name, np.nan) for each in own]), np.array(knots))
            for name, knots in self.numbers.items()
        ]
        length = np.linalg.norm(words, axis=1, keepdims=True)
        return np.hstack([categories, *numbers, words * (WORD_SHARE / np.where(length > 0, length, 1.0))])


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


@dataclass(frozen=True, eq=False)
class ItemPriors:
    """What is believed of some items before anybody reacted to them, a mixture of Gaussians over classes of items."""

    shares: FloatArray
    """Probability of each class, (items, classes)."""
    means: tuple[AnyFloatArray, ...]
    """Mean of the vector in each class, one array (items, classes, width) per channel."""

    def vectors(self, number: int) -> FloatArray:
        """Return the expected vectors in one channel, (items, width)."""
        return np.asarray(np.einsum("nk,nkw->nw", self.shares, self.means[number]), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class ContentPrior:
    """Ridge regressions from features to vectors, one per channel and class of items, with what they leave open.

    A class holds items that are about as popular: content says little of that, and vectors of popular items are larger
    in every direction, which one Gaussian for all items could not express.
    """

    features: Features
    shares: FloatArray
    """Regression of the classes, (1 + features, classes), the constants first."""
    least_share: FloatArray
    """Smallest probability of each class, whatever the features, (classes,)."""
    coefficients: tuple[Float32Array, ...]
    """Regressions of the vectors, one array (classes, 1 + features, width) per channel, the constants first."""
    covs: tuple[FloatArray, ...]
    """Covariance of the leave-one-out residuals, (classes, width, width) per channel."""
    noise: tuple[FloatArray, ...]
    """Noise variance of a reaction in each class, (classes,) per channel."""
    temperature: float = 1.0
    """Number by which the model divides the evidence of a reaction about a user; that about an item is whole."""

    @property
    def n_classes(self) -> int:
        """Number of classes of items."""
        return len(self.least_share)

    def of(self, items: Sequence[Item]) -> ItemPriors:
        """Return the prior of some items."""
        X = np.column_stack([np.ones(len(items)), self.features.of(items)])
        shares = np.maximum(X @ self.shares, self.least_share)
        shares /= shares.sum(axis=1, keepdims=True)
        small = X.astype(np.float32)
        means = tuple(np.stack([small @ own for own in each], axis=1) for each in self.coefficients)
        return ItemPriors(shares, means)

    def check(self, widths: Sequence[int]) -> None:
        """Raise if the parts do not fit together, or do not fit channels with vectors of these widths."""
        k, f = self.n_classes, 1 + self.features.n_features
        numbers: list[AnyFloatArray] = [self.shares, self.least_share, *self.coefficients, *self.covs, *self.noise]
        found = [each.shape for each in numbers]
        wanted = [(f, k), (k,), *((k, f, w) for w in widths), *((k, w, w) for w in widths), *((k,) for _ in widths)]
        if found != wanted:
            raise ModelError(f"the content prior has arrays of shapes {found}, expected {wanted}")
        is_usable = all(np.isfinite(part).all() for part in numbers) and all((each > 0).all() for each in self.noise)
        if not (is_usable and k and (self.least_share > 0).all() and 0 < self.temperature < np.inf):
            raise ModelError("the content prior holds NaN, infinite numbers or invalid variances; retrain the model")

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return all arrays by the names that they have in a model folder."""
        own: dict[str, npt.NDArray[Any]] = {f"{PREFIX}shares": self.shares, f"{PREFIX}least": self.least_share}
        for name in ("coefficients", "covs", "noise"):
            own |= {f"{PREFIX}{name}_{number}": part for number, part in enumerate(getattr(self, name))}
        return own

    def description(self) -> dict[str, Any]:
        """Return everything except the arrays, as plain values."""
        return {"features": asdict(self.features), "temperature": self.temperature}

    @classmethod
    def from_saved(cls, arrays: dict[str, npt.NDArray[Any]], saved: dict[str, Any], n_channels: int) -> "ContentPrior":
        """Build it from what `arrays` and `description` gave."""
        names = ("coefficients", "covs", "noise")
        coefficients, covs, noise = (tuple(arrays[f"{PREFIX}{name}_{n}"] for n in range(n_channels)) for name in names)
        shares, least = (arrays[f"{PREFIX}{name}"] for name in ("shares", "least"))
        features, temperature = Features.from_dict(saved["features"]), float(saved["temperature"])
        return cls(features, shares, least, coefficients, covs, noise, temperature)
