"""What has been learned about a user's taste, in words and for the map: which groups of items they like more or less.

Groups are the categories of the catalogue or, without categories, clusters of items that the same people like, named by
their best-known items. Groups are named as long as everything said is right with a probability of at least `RIGHT`, and
only where the user reacted to them, since a belief also moves what merely goes along. Clusters that fall short of it
are compared with one another ("closer to A than to B").

Two sources say how much a group is liked beyond the whole catalogue, as Gaussian contrasts divided by their standard
deviations: a logistic regression of the user's successes on the groups of each item, with weights N(0, 1), around the
chance that the item has in the population; and the belief, in which the average of a group is linear. Two logistic
functions turn both into probabilities of being liked more and less; their numbers were fitted on invented users with
mixed tastes (`tools/taste_words.py`).
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import numpy as np

from igcf.arrays import FloatArray, IntArray
from igcf.model import Model
from igcf.online import Belief, Recommender
from igcf.online.chance import ChanceScale
from igcf.service.models.page_responses import Confidence, GroupTaste, Standing, Taste

FEWEST_ITEMS = 3  # smallest group that is named
MOST_CATEGORIES = 300  # the largest categories are used, where there are more
MOST_CLUSTERS = 8
CLUSTERED = 5_000  # clusters are found among so many of the best-known items; the others join the nearest
CLUSTER_STEPS = 20
LONGEST_NAME = 32  # characters of the two titles that name a cluster; beyond, one title is enough
MOST_BELIEVED = 5.0  # standard deviations beyond which a belief counts no more: it may be certain where nobody differs
STEPS = 30  # steps of Newton's method at most; a few are enough
LEAST_CHANCE = 0.02  # chances of the population are kept this far from 0 and 1
RIGHT = 0.88  # least probability that everything in a sentence is right
FAIRLY_SURE, SURE = 0.93, 0.97
FEWEST_REACTIONS = 2  # successes of a group that is liked, failures of one that is liked less
MOST_NAMED = 3
FIRST_IMPRESSION = 2.5  # least difference of lifts for a comparison of two clusters, neither certain enough to be named
NOUNS = dict.fromkeys(("synthetic", "ml-100k", "ml-1m", "eachmovie"), "films") | {"kuairec": "videos"}
COUNTABLE = {"album", "artist", "article", "book", "film", "game", "movie", "product", "song", "track", "video"}
"""Columns of items that say what the items are."""


@dataclass(frozen=True, eq=False)
class Groups:
    """The groups of a model's items, independent of the user."""

    kind: Literal["categories", "items"]  # what names them: their category, or their best-known items
    names: tuple[str, ...]
    rows: tuple[IntArray, ...]  # rows of the items of each group
    of_row: dict[int, list[int]]  # numbers of the groups that an item belongs to
    directions: FloatArray  # average of a group minus that of the catalogue, in the space of users, shape (groups, d)
    moments: FloatArray  # sums of the outer products of the vectors of its items, shape (groups, span, span)
    span: slice  # part of the user's vector that the moments are about
    contrasts: FloatArray
    """The directions in the space of groups: which shares its items have of each, shape (groups, groups)."""
    population: FloatArray  # log odds that each item pleases a stranger, shape (items,)
    prior: FloatArray  # variance of the population over the items of each group


class Evidence(NamedTuple):
    """What is known about the groups, arrays of one entry per name."""

    lift: FloatArray  # log odds that a group is liked more than the catalogue, beyond those of a stranger
    liked: FloatArray
    """Probabilities that a group is liked more than the catalogue; 0 where the reactions say otherwise."""
    less: FloatArray
    hits: IntArray  # reactions to items of each group that were successes
    misses: IntArray


def groups_of(model: Model) -> Groups:
    """Return the groups of a model, computed once."""
    return model.computed("taste groups", lambda: _find_groups(model))


def _find_groups(model: Model) -> Groups:
    vectors, span = _chance_vectors(model)
    rows_of: defaultdict[str, list[int]] = defaultdict(list)
    for row, names in enumerate(model.categories or ()):
        for name in dict.fromkeys(names):
            rows_of[name].append(row)
    large = [(name, np.array(rows)) for name, rows in rows_of.items() if FEWEST_ITEMS <= len(rows) < model.n_items]
    kept = sorted(large, key=lambda each: -len(each[1]))[:MOST_CATEGORIES] if rows_of else _clusters(model)
    has = np.zeros((model.n_items, len(kept)))
    of_row: defaultdict[int, list[int]] = defaultdict(list)
    for number, (_, rows) in enumerate(kept):
        has[rows, number] = 1.0
        for row in rows.tolist():
            of_row[row].append(number)
    shares, n = _shares(has), np.maximum(has.sum(axis=0), 1.0)[:, None]
    directions = np.zeros((len(kept), model.dim))
    directions[:, span] = has.T @ vectors / n - vectors.mean(axis=0)
    moments = np.array([vectors[rows].T @ vectors[rows] for _, rows in kept]).reshape(len(kept), *2 * vectors.shape[1:])
    chance = np.clip(Recommender(model).session().chances().chance, LEAST_CHANCE, 1.0 - LEAST_CHANCE)
    return Groups(
        kind="categories" if rows_of else "items",
        names=tuple(name for name, _ in kept),
        rows=tuple(rows for _, rows in kept),
        of_row=of_row,
        directions=directions,
        moments=moments,
        span=span,
        contrasts=has.T @ shares / n - shares.mean(axis=0),
        population=np.log(chance / (1.0 - chance)),
        prior=np.einsum("gde,de->g", moments, model.prior_cov[span, span]),
    )


def _clusters(model: Model) -> list[tuple[str, IntArray]]:
    """Group items that the same people like, by spherical k-means; names and rows, the largest first.

    The first centres are well-known items, each as different as possible from those before it.
    """
    n_clusters = min(MOST_CLUSTERS, round(np.sqrt(model.n_items) / 2.0))
    if n_clusters < 2:
        return []
    vectors, span = _chance_vectors(model)
    size, axes = np.linalg.eigh(model.prior_cov[span, span])
    spread = (vectors - vectors.mean(axis=0)) @ (axes * np.sqrt(np.maximum(size, 0.0)))  # one unit: one std of people
    unit = spread / np.maximum(np.linalg.norm(spread, axis=1, keepdims=True), 1e-12)
    order = np.argsort(-model.expected(model.prior_mean), kind="stable")
    known = unit[order[:CLUSTERED]]
    candidates = known[: max(n_clusters, len(known) // 4)]
    centres = candidates[:1]
    while len(centres) < n_clusters:
        centres = np.vstack([centres, candidates[np.argmin((candidates @ centres.T).max(axis=1))]])
    for _ in range(CLUSTER_STEPS):
        members = np.eye(len(centres))[np.argmax(known @ centres.T, axis=1)]
        centres = (members.T @ known)[members.sum(axis=0) >= FEWEST_ITEMS]
        centres /= np.maximum(np.linalg.norm(centres, axis=1, keepdims=True), 1e-12)
    nearest = np.argmax(unit @ centres.T, axis=1)[order]
    groups: dict[str, IntArray] = {}
    for number in np.unique(nearest).tolist():
        rows = order[nearest == number]
        titles = [_title(model, row) for row in rows[:2].tolist()]
        name = " and ".join(titles)
        groups[name if len(name) <= LONGEST_NAME else titles[0]] = rows
    return sorted(groups.items(), key=lambda each: -len(each[1])) if len(groups) > 1 else []


def _title(model: Model, row: int) -> str:
    """Return the title of an item without its year and with its article first, or its id."""
    title = (model.titles[row] if model.titles is not None else None) or model.item_ids[row]
    return re.sub(r"^(.+), (The|An?|L[ea]s?|D(?:er|ie|as)|El|Il)$", r"\2 \1", re.sub(r"\s*\(\d{4}\)$", "", title))


def _noun(model: Model) -> str:
    """Return what the items are, by the name of the log or of its column of items."""
    name = model.metadata.get("data", {}).get("name")
    column = (model.metadata.get("reading", {}).get("columns") or {}).get("item") or ""
    noun = re.sub(r"[\s_-]*ids?$", "", column.lower())
    return NOUNS.get(str(name)) or (f"{noun}s" if noun in COUNTABLE else "items")


def group_evidence(model: Model, belief: Belief, reactions: Sequence[tuple[int, bool]]) -> Evidence | None:
    """Weigh what reactions (row of the item, whether it pleased) and belief say; None without reactions or groups."""
    found = groups_of(model)
    if not reactions or not found.names:
        return None
    has = np.zeros((len(reactions), len(found.names)))
    for place, (row, _) in enumerate(reactions):
        has[place, found.of_row.get(row, [])] = 1.0
    pleased = np.array([float(is_hit) for _, is_hit in reactions])
    own = _own_contrasts(found, has, pleased, found.population[[row for row, _ in reactions]])
    stds = np.sqrt(np.maximum(np.einsum("cd,de,ce->c", found.directions, belief.cov, found.directions), 0.0))
    believed = np.clip(found.directions @ belief.mean / np.maximum(stds, 1e-12), -MOST_BELIEVED, MOST_BELIEVED)
    hits, misses = pleased @ has, (1.0 - pleased) @ has
    liked = _sigmoid(-1.3 + 2.8 * own + 0.5 * believed)
    not_less = _sigmoid(-1.05 + 0.95 * own + 0.4 * believed + 0.1 * hits - 0.25 * misses)
    return Evidence(
        lift=2.0 * own + 0.5 * believed,
        liked=np.where(own > 0, liked, 0.0),
        less=np.where(own < 0, 1.0 - not_less, 0.0),
        hits=hits.astype(np.intp),
        misses=misses.astype(np.intp),
    )


def _chance_vectors(model: Model) -> tuple[FloatArray, slice]:
    """Vectors; their product with a part of the user's vector says how much an item is liked, and that part."""
    scale = ChanceScale(model)
    if scale.liked is not None:
        channel = model.channels[scale.liked]
        return channel.vectors.astype(np.float64), channel.span
    return model.item_vectors.astype(np.float64), slice(0, model.dim)


def _shares(has: FloatArray) -> FloatArray:
    """Divide each item among its groups."""
    return np.asarray(has / np.maximum(has.sum(axis=1, keepdims=True), 1.0))


def _own_contrasts(found: Groups, has: FloatArray, pleased: FloatArray, population: FloatArray) -> FloatArray:
    """Learn weights of groups from the reactions alone; returns their contrasts in standard deviations."""
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


def taste_of(model: Model, belief: Belief, reactions: Sequence[tuple[int, bool]]) -> Taste:
    """Say what reactions (row of the item, whether it pleased) and belief tell about the groups of a model's items."""
    found, evidence = groups_of(model), group_evidence(model, belief, reactions)
    if evidence is None:
        return Taste(sentence="", confidence="none", kind=found.kind, unknown=1.0, groups=[])
    standings, probability = _standings(evidence)
    left = np.einsum("gde,de->g", found.moments, belief.cov[found.span, found.span])
    every = [
        GroupTaste(
            name=name,
            items=len(found.rows[number]),
            lift=float(evidence.lift[number]),
            hits=int(evidence.hits[number]),
            misses=int(evidence.misses[number]),
            unknown=_share(left[number], found.prior[number]),
            standing=standings.get(number, "unsure"),
        )
        for number, name in enumerate(found.names)
    ]
    every.sort(key=lambda each: -each.lift)
    in_words = _of_clusters if found.kind == "items" else partial(_of_categories, noun=_noun(model))
    sentence, confidence = in_words(every, probability)
    unknown = _share(left.sum(), found.prior.sum())
    return Taste(sentence=sentence, confidence=confidence, kind=found.kind, unknown=unknown, groups=every)


def _share(left: float, prior: float) -> float:
    return float(np.clip(left / max(prior, 1e-300), 0.0, 1.0))


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


def _named(every: list[GroupTaste]) -> tuple[list[str], list[str]]:
    """Return the names of the groups that are liked, and of those that are liked less, the strongest first."""
    liked = [each.name for each in every if each.standing == "liked"]
    return liked, [each.name for each in reversed(every) if each.standing == "less"]


def _confidence(probability: float) -> Confidence:
    return "sure" if probability >= SURE else "fairly sure" if probability >= FAIRLY_SURE else "first impression"


def _of_categories(every: list[GroupTaste], probability: float, noun: str) -> tuple[str, Confidence]:
    """Say which categories are liked more and less: "You like Crime and Thriller films more than Romance"."""
    liked, less = _named(every)
    if not liked and not less:
        return "", "none"
    confidence = _confidence(probability)
    verb = "You like" if confidence == "sure" else "You seem to like"
    if liked:
        sentence = f"{verb} {_listed(liked)} {noun}" + (f" more than {_listed(less)}" if less else "")
    else:
        sentence = f"{verb} {_listed(less)} {noun} less than other {noun}"
    tried = [each for each in every if each.standing == "unsure" and each.hits and each.misses]
    if tried:
        doubt = max(tried, key=lambda each: each.hits + each.misses - abs(each.lift))  # often tried, and still open
        sentence += f"; not sure yet about {_spoken(doubt.name)}"
    return f"{sentence}.", confidence


def _of_clusters(every: list[GroupTaste], probability: float) -> tuple[str, Confidence]:
    """Say it by items: "You are closer to Iron Maiden and Metallica than to Madonna and Prince"."""
    liked, less = _named(every)
    confidence = _confidence(probability) if liked or less else "first impression"
    near = [each for each in every if each.hits and each.lift > 0 and (not liked or each.standing == "liked")]
    far = [each for each in reversed(every) if each.misses and each.lift < 0 and (not less or each.standing == "less")]
    seem = "are" if confidence == "sure" else "seem"
    if near and far and (liked or less or near[0].lift - far[0].lift >= FIRST_IMPRESSION):
        return f"You {seem} closer to {near[0].name} than to {far[0].name}.", confidence
    if liked or less:
        return f"You {seem} {f'close to {liked[0]}' if liked else f'far from {less[0]}'}.", confidence
    return "", "none"


def _spoken(name: str) -> str:
    """Return a name as a sentence has it: "8 videos" would be a number of videos."""
    return f"category {name}" if name.isdigit() else name


def _listed(names: list[str]) -> str:
    names = [_spoken(name) for name in names]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
