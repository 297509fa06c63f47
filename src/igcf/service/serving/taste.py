"""What has been learned about a user's taste, in words: which categories they like more or less than the others.

How much an item is liked follows from a linear function of the user's vector u, so the average of a category, compared
with that of the whole catalogue, is linear in u too. Under a Gaussian belief this contrast is Gaussian: divided by its
standard deviation it says how sure it is that a category is liked more than others. A belief also moves categories that
merely go along with those reacted to. A category is therefore named only where the user's own reactions agree: their
successes are shared out among the categories of each item by a small ridge regression.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from weakref import WeakKeyDictionary

import numpy as np

from igcf.arrays import FloatArray
from igcf.model import Model
from igcf.online import Belief
from igcf.online.chance import ChanceScale

Standing = Literal["liked", "less", "unsure"]
Confidence = Literal["none", "first impression", "fairly sure", "sure"]
LIKED, LESS = 1.3, -0.2
"""Contrasts, in standard deviations of the belief, beyond which a category may be named."""
FAIRLY_SURE, SURE = 1.6, 2.0
LIKED_CREDIT, LESS_CREDIT = 0.2, -0.15
"""Shares of success, above and below the user's average, that the reactions themselves must give a category."""
FEWEST_REACTIONS = 2
"""Successes of a category that is liked, failures of one that is liked less."""
RIDGE = 0.5
FEWEST_ITEMS = 3
"""A category of fewer items is not spoken of."""
MOST_NAMED = 3


@dataclass(frozen=True)
class CategoryTaste:
    """What is believed about one category, compared with the whole catalogue."""

    category: str
    items: int
    lift: float
    """Contrast with the catalogue in standard deviations of the belief; positive: liked more than others."""
    hits: int
    """Reactions to items of this category that were successes."""
    misses: int
    """Reactions that were not."""
    standing: Standing


@dataclass(frozen=True)
class Taste:
    """The categories, the most liked first, and what may be said about them."""

    sentence: str
    """One or two sentences; empty while nothing is known."""
    confidence: Confidence
    categories: list[CategoryTaste]


@dataclass(frozen=True, eq=False)
class Contrasts:
    """Directions of the categories in the space of users."""

    names: tuple[str, ...]
    counts: tuple[int, ...]
    directions: FloatArray
    """One contrast per category, shape (categories, d)."""


_known: "WeakKeyDictionary[Model, Contrasts]" = WeakKeyDictionary()


def contrasts(model: Model) -> Contrasts:
    """Compute the directions of a model's categories, once per model."""
    found = _known.get(model)
    if found is None:
        found = _known[model] = _contrasts(model)
    return found


def _contrasts(model: Model) -> Contrasts:
    rows_of: dict[str, list[int]] = {}
    for row, names in enumerate(model.categories or ()):
        for name in dict.fromkeys(names):
            rows_of.setdefault(name, []).append(row)
    kept = {name: rows for name, rows in rows_of.items() if FEWEST_ITEMS <= len(rows) < model.n_items}
    vectors, span = _chance_vectors(model)
    middle = vectors.mean(axis=0)
    directions = np.zeros((len(kept), model.dim))
    for number, rows in enumerate(kept.values()):
        directions[number, span] = vectors[rows].mean(axis=0) - middle
    return Contrasts(tuple(kept), tuple(len(rows) for rows in kept.values()), directions)


def _chance_vectors(model: Model) -> tuple[FloatArray, slice]:
    """Vectors whose product with a part of the user's vector says how much an item is liked, and that part."""
    scale = ChanceScale(model)
    if scale.form == "liked":
        channel = model.channels[scale.channels[0]]
        return channel.vectors.astype(np.float64), channel.span
    return model.item_vectors.astype(np.float64), slice(0, model.dim)


def taste_of(model: Model, belief: Belief, reactions: Sequence[tuple[int, bool]]) -> Taste:
    """Say what is known about the categories of a model.

    Args:
        model: the model in service.
        belief: what is believed about the user.
        reactions: row of each item reacted to, and whether it pleased. Without any, nothing is said.
    """
    found = contrasts(model)
    if not reactions or not found.names:
        return Taste("", "none", [])
    means = found.directions @ belief.mean
    stds = np.sqrt(np.maximum(np.einsum("cd,de,ce->c", found.directions, belief.cov, found.directions), 0.0))
    sureness = means / np.maximum(stds, 1e-12)
    credits, hits, misses = _credits(model, found.names, reactions)
    every = [
        CategoryTaste(
            category=name,
            items=found.counts[number],
            lift=float(sureness[number]),
            hits=int(hits[number]),
            misses=int(misses[number]),
            standing=_standing(sureness[number], credits[number], int(hits[number]), int(misses[number])),
        )
        for number, name in enumerate(found.names)
    ]
    every.sort(key=lambda each: -each.lift)
    return _told(every)


def _credits(
    model: Model, names: Sequence[str], reactions: Sequence[tuple[int, bool]]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Share out successes among categories; returns the share of each, its successes and its failures."""
    categories = model.categories or ()
    number_of = {name: number for number, name in enumerate(names)}
    has = np.zeros((len(reactions), len(names)))
    for place, (row, _) in enumerate(reactions):
        for name in categories[row]:
            if name in number_of:
                has[place, number_of[name]] = 1.0
    pleased = np.array([float(is_hit) for _, is_hit in reactions])
    shares = has / np.maximum(has.sum(axis=1, keepdims=True), 1.0)
    gram = shares.T @ shares + RIDGE * np.eye(len(names))
    credit = np.linalg.solve(gram, shares.T @ (pleased - pleased.mean()))
    return np.asarray(credit), np.asarray(pleased @ has), np.asarray((1.0 - pleased) @ has)


def _standing(sureness: float, credit: float, hits: int, misses: int) -> Standing:
    if sureness >= LIKED and credit >= LIKED_CREDIT and hits >= FEWEST_REACTIONS:
        return "liked"
    if sureness <= LESS and credit <= LESS_CREDIT and misses >= FEWEST_REACTIONS and not hits:
        return "less"
    return "unsure"


def _told(every: list[CategoryTaste]) -> Taste:
    liked = [each for each in every if each.standing == "liked"][:MOST_NAMED]
    less = [each for each in reversed(every) if each.standing == "less"][:MOST_NAMED]
    if not liked and not less:
        return Taste("", "none", every)
    surest = max((each.lift for each in liked), default=LIKED)
    confidence: Confidence = (
        "sure" if surest >= SURE else "fairly sure" if surest >= FAIRLY_SURE else "first impression"
    )
    verb = "You like" if confidence == "sure" else "You seem to like"
    if liked:
        sentence = f"{verb} {_listed(liked)}" + (f", less so {_listed(less)}" if less else "")
    else:
        sentence = f"{verb} {_listed(less)} less than other things"
    tried = [each for each in every if each.standing == "unsure" and each.hits and each.misses]
    if tried:
        doubt = min(tried, key=lambda each: abs(each.lift))
        sentence += f"; not sure yet about {_word(doubt.category)}"
    return Taste(sentence + ".", confidence, every)


def _listed(named: list[CategoryTaste]) -> str:
    words = [_word(each.category) for each in named]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _word(category: str) -> str:
    """A category as it stands within a sentence: "Science Fiction" in lower case, "IMAX" as it is."""
    return category if category.isupper() else category.lower()
