"""What has been learned about a user's taste, in words: which categories they like more or less than the others.

Categories are named as long as all that is said together is right with a probability of at least `RIGHT`, what is liked
before what is liked less; otherwise nothing is said. A category is named only where the user reacted to it, since a
belief also moves what merely goes along.

How likely somebody likes a category more than the rest of the catalogue, by their reactions and by the belief.

Two sources say how much a category is liked, compared with the whole catalogue. Both are Gaussian contrasts, divided by
their standard deviations:

- the user's own reactions: a logistic regression of success on the categories of each item, around the chance that the
  item has in the population. Liking what everybody likes says little, passing on it says much. Its weights are N(0, 1)
  before the first reaction, so that few reactions move them little;
- the belief: how much an item is liked is linear in the user's vector, and so is the average of a category. It also
  knows what goes along with what was reacted to.

Two logistic functions turn both into probabilities, one for what seems to be liked and one for what seems to be liked
less. Their numbers were fitted on invented users with mixed tastes (`tools/taste_words.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from igcf.arrays import FloatArray, IntArray
from igcf.model import Model
from igcf.online import Belief, Recommender
from igcf.online.chance import ChanceScale
from igcf.service.models.page_responses import CategoryTaste, Confidence, Standing, Taste

FEWEST_ITEMS = 3
"""A category of fewer items is not spoken of."""
MOST_CATEGORIES = 300
"""The largest categories are spoken of, where there are more."""
MOST_BELIEVED = 5.0
"""Standard deviations beyond which a belief counts no more: it may be certain where nobody differs."""
STEPS = 30
"""Steps of Newton's method at most; a few are enough."""
LEAST_CHANCE = 0.02
"""Chances of the population are kept this far from 0 and 1."""


@dataclass(frozen=True)
class Evidence:
    """What is known about the categories, arrays of one entry per name."""

    names: tuple[str, ...]
    counts: tuple[int, ...]
    """Items of each category."""
    lift: FloatArray
    """Log odds that a category is liked more than the catalogue, beyond those of a stranger."""
    liked: FloatArray
    """Probabilities that a category is liked more than the catalogue; 0 where the reactions say otherwise."""
    less: FloatArray
    """Probabilities that it is liked less; 0 where the reactions say otherwise."""
    hits: IntArray
    """Reactions to items of each category that were successes."""
    misses: IntArray
    """Reactions that were not."""


@dataclass(frozen=True, eq=False)
class _Categories:
    """What a model says of its categories, whoever the user is."""

    names: tuple[str, ...]
    counts: tuple[int, ...]
    number_of: dict[str, int]
    directions: FloatArray
    """Average of a category minus that of the catalogue, in the space of users, shape (categories, d)."""
    contrasts: FloatArray
    """The same in the space of categories: which shares its items have of each, shape (categories, categories)."""
    population: FloatArray
    """Log odds that each item pleases a stranger, shape (items,)."""


_known: "WeakKeyDictionary[Model, _Categories]" = WeakKeyDictionary()


def category_evidence(model: Model, belief: Belief, reactions: Sequence[tuple[int, bool]]) -> Evidence | None:
    """Weigh what the reactions and the belief say; None where there are no reactions or no categories.

    Args:
        model: the model in service.
        belief: what is believed about the user.
        reactions: row of each item reacted to, and whether it pleased.
    """
    found = _known.get(model)
    if found is None:
        found = _known[model] = _categories(model)
    if not reactions or not found.names:
        return None
    has = _membership(model, found, [row for row, _ in reactions])
    pleased = np.array([float(is_hit) for _, is_hit in reactions])
    own = _own_contrasts(found, has, pleased, found.population[[row for row, _ in reactions]])
    stds = np.sqrt(np.maximum(np.einsum("cd,de,ce->c", found.directions, belief.cov, found.directions), 0.0))
    believed = np.clip(found.directions @ belief.mean / np.maximum(stds, 1e-12), -MOST_BELIEVED, MOST_BELIEVED)
    hits, misses = pleased @ has, (1.0 - pleased) @ has
    liked = _sigmoid(-1.3 + 2.8 * own + 0.5 * believed)
    not_less = _sigmoid(-1.05 + 0.95 * own + 0.4 * believed + 0.1 * hits - 0.25 * misses)
    return Evidence(
        names=found.names,
        counts=found.counts,
        lift=2.0 * own + 0.5 * believed,
        liked=np.where(own > 0, liked, 0.0),
        less=np.where(own < 0, 1.0 - not_less, 0.0),
        hits=hits.astype(np.intp),
        misses=misses.astype(np.intp),
    )


def _categories(model: Model) -> _Categories:
    rows_of: dict[str, list[int]] = {}
    for row, names in enumerate(model.categories or ()):
        for name in dict.fromkeys(names):
            rows_of.setdefault(name, []).append(row)
    kept = [(name, rows) for name, rows in rows_of.items() if FEWEST_ITEMS <= len(rows) < model.n_items]
    kept = sorted(kept, key=lambda each: -len(each[1]))[:MOST_CATEGORIES]
    vectors, span = _chance_vectors(model)
    has = np.zeros((model.n_items, len(kept)))
    for number, (_, rows) in enumerate(kept):
        has[rows, number] = 1.0
    shares, n = _shares(has), np.maximum(has.sum(axis=0), 1.0)[:, None]
    directions = np.zeros((len(kept), model.dim))
    directions[:, span] = has.T @ vectors / n - vectors.mean(axis=0)
    chance = np.clip(Recommender(model).session().chances().chance, LEAST_CHANCE, 1.0 - LEAST_CHANCE)
    return _Categories(
        names=tuple(name for name, _ in kept),
        counts=tuple(len(rows) for _, rows in kept),
        number_of={name: number for number, (name, _) in enumerate(kept)},
        directions=directions,
        contrasts=has.T @ shares / n - shares.mean(axis=0),
        population=np.log(chance / (1.0 - chance)),
    )


def _chance_vectors(model: Model) -> tuple[FloatArray, slice]:
    """Vectors whose product with a part of the user's vector says how much an item is liked, and that part."""
    scale = ChanceScale(model)
    if scale.form == "liked":
        channel = model.channels[scale.channels[0]]
        return channel.vectors.astype(np.float64), channel.span
    return model.item_vectors.astype(np.float64), slice(0, model.dim)


def _membership(model: Model, found: _Categories, rows: Sequence[int]) -> FloatArray:
    """Return which categories the items at `rows` have, shape (rows, categories)."""
    categories, has = model.categories or (), np.zeros((len(rows), len(found.names)))
    for place, row in enumerate(rows):
        numbers = [found.number_of[name] for name in categories[row] if name in found.number_of]
        has[place, numbers] = 1.0
    return has


def _shares(has: FloatArray) -> FloatArray:
    """Divide each item among its categories."""
    return np.asarray(has / np.maximum(has.sum(axis=1, keepdims=True), 1.0))


def _own_contrasts(found: _Categories, has: FloatArray, pleased: FloatArray, population: FloatArray) -> FloatArray:
    """Learn weights of categories from the reactions alone; returns their contrasts in standard deviations."""
    active = np.flatnonzero(has.any(axis=0))  # the weights of all others stay N(0, 1)
    features = np.column_stack([np.ones(len(pleased)), _shares(has)[:, active]])
    weights = np.zeros(features.shape[1])
    for _ in range(STEPS):  # Newton's method for the mode; the precision there is that of the posterior
        chance = _sigmoid(population + features @ weights)
        precision = features.T @ (features * (chance * (1.0 - chance))[:, None]) + np.eye(len(weights))
        step = np.linalg.solve(precision, features.T @ (pleased - chance) - weights)
        weights = weights + step
        if np.abs(step).max() < 1e-8:
            break
    here = found.contrasts[:, active]
    cov = np.linalg.inv(precision)[1:, 1:]
    elsewhere = (found.contrasts**2).sum(axis=1) - (here**2).sum(axis=1)
    variances = np.einsum("ca,ab,cb->c", here, cov, here) + np.maximum(elsewhere, 0.0)
    return np.asarray(here @ weights[1:] / np.sqrt(np.maximum(variances, 1e-12)))


def _sigmoid(x: FloatArray) -> FloatArray:
    return np.asarray(1.0 / (1.0 + np.exp(-x)))


RIGHT = 0.88
"""Least probability that everything in a sentence is right."""
FAIRLY_SURE, SURE = 0.93, 0.97
FEWEST_REACTIONS = 2
"""Successes of a category that is liked, failures of one that is liked less."""
MOST_NAMED = 3


def taste_of(model: Model, belief: Belief, reactions: Sequence[tuple[int, bool]]) -> Taste:
    """Say what is known about the categories of a model.

    Args:
        model: the model in service.
        belief: what is believed about the user.
        reactions: row of each item reacted to, and whether it pleased. Without any, nothing is said.
    """
    evidence = category_evidence(model, belief, reactions)
    if evidence is None:
        return Taste(sentence="", confidence="none", categories=[])
    standings, probability = _standings(evidence)
    every = [
        CategoryTaste(
            category=name,
            items=evidence.counts[number],
            lift=float(evidence.lift[number]),
            hits=int(evidence.hits[number]),
            misses=int(evidence.misses[number]),
            standing=standings.get(number, "unsure"),
        )
        for number, name in enumerate(evidence.names)
    ]
    every.sort(key=lambda each: -each.lift)
    return _told(every, probability)


def _standings(evidence: Evidence) -> tuple[dict[int, Standing], float]:
    """Choose what is named, by number; also returns how likely the main part is right: what is liked, or else less."""
    liked = [(p, n, "liked") for n, p in enumerate(evidence.liked) if evidence.hits[n] >= FEWEST_REACTIONS]
    less = [(p, n, "less") for n, p in enumerate(evidence.less) if evidence.misses[n] >= FEWEST_REACTIONS]
    named: dict[int, Standing] = {}
    together = main_part = 1.0
    for probability, number, standing in (*sorted(liked)[::-1][:MOST_NAMED], *sorted(less)[::-1][:MOST_NAMED]):
        if together * probability >= RIGHT:
            together *= float(probability)
            main_part = together if standing == "liked" or "liked" not in named.values() else main_part
            named[number] = standing  # type: ignore[assignment]
    return named, main_part


def _told(every: list[CategoryTaste], probability: float) -> Taste:
    liked = [each for each in every if each.standing == "liked"]
    less = [each for each in reversed(every) if each.standing == "less"]
    if not liked and not less:
        return Taste(sentence="", confidence="none", categories=every)
    confidence: Confidence = (
        "sure" if probability >= SURE else "fairly sure" if probability >= FAIRLY_SURE else "first impression"
    )
    verb = "You like" if confidence == "sure" else "You seem to like"
    if liked:
        sentence = f"{verb} {_listed(liked)}" + (f", less so {_listed(less)}" if less else "")
    else:
        sentence = f"{verb} {_listed(less)} less than other things"
    tried = [each for each in every if each.standing == "unsure" and each.hits and each.misses]
    if tried:
        doubt = max(tried, key=lambda each: each.hits + each.misses - abs(each.lift))  # often tried, and still open
        sentence += f"; not sure yet about {_word(doubt.category)}"
    return Taste(sentence=sentence + ".", confidence=confidence, categories=every)


def _listed(named: list[CategoryTaste]) -> str:
    words = [_word(each.category) for each in named]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _word(category: str) -> str:
    """A category as it stands within a sentence: "Science Fiction" in lower case, "IMAX" as it is."""
    return category if category.isupper() else category.lower()
