"""What has been learned about a user's taste, in words: which categories they like more or less than the others.

Categories are named as long as all that is said together is right with a probability of at least `RIGHT`, what is liked
before what is liked less; otherwise nothing is said. A category is named only where the user reacted to it, since a
belief also moves what merely goes along.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from igcf.model import Model
from igcf.online import Belief
from igcf.service.serving.category_evidence import Evidence, category_evidence

Standing = Literal["liked", "less", "unsure"]
Confidence = Literal["none", "first impression", "fairly sure", "sure"]
RIGHT = 0.88
"""Least probability that everything in a sentence is right."""
FAIRLY_SURE, SURE = 0.93, 0.97
FEWEST_REACTIONS = 2
"""Successes of a category that is liked, failures of one that is liked less."""
MOST_NAMED = 3


@dataclass(frozen=True)
class CategoryTaste:
    """What is believed about one category, compared with the whole catalogue."""

    category: str
    items: int
    lift: float
    """Log odds that it is liked more than the catalogue, beyond those of a stranger; positive: more than others."""
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


def taste_of(model: Model, belief: Belief, reactions: Sequence[tuple[int, bool]]) -> Taste:
    """Say what is known about the categories of a model.

    Args:
        model: the model in service.
        belief: what is believed about the user.
        reactions: row of each item reacted to, and whether it pleased. Without any, nothing is said.
    """
    evidence = category_evidence(model, belief, reactions)
    if evidence is None:
        return Taste("", "none", [])
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
    """Choose what is named, by number; also returns the probability that all of it is right."""
    liked = [(p, n, "liked") for n, p in enumerate(evidence.liked) if evidence.hits[n] >= FEWEST_REACTIONS]
    less = [(p, n, "less") for n, p in enumerate(evidence.less) if evidence.misses[n] >= FEWEST_REACTIONS]
    named: dict[int, Standing] = {}
    together = 1.0
    for probability, number, standing in (*sorted(liked)[::-1][:MOST_NAMED], *sorted(less)[::-1][:MOST_NAMED]):
        if together * probability >= RIGHT:
            together *= float(probability)
            named[number] = standing  # type: ignore[assignment]
    return named, together


def _told(every: list[CategoryTaste], probability: float) -> Taste:
    liked = [each for each in every if each.standing == "liked"]
    less = [each for each in reversed(every) if each.standing == "less"]
    if not liked and not less:
        return Taste("", "none", every)
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
        doubt = min(tried, key=lambda each: abs(each.lift))
        sentence += f"; not sure yet about {_word(doubt.category)}"
    return Taste(sentence + ".", confidence, every)


def _listed(named: list[CategoryTaste]) -> str:
    words = [_word(each.category) for each in named]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _word(category: str) -> str:
    """A category as it stands within a sentence: "Science Fiction" in lower case, "IMAX" as it is."""
    return category if category.isupper() else category.lower()
