"""Answers under rules: compiled rules, and items selected greedily under caps and for diversity."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from igcf.arrays import AnyFloatArray, BoolArray, Float32Array, FloatArray, IntArray, covariance_root
from igcf.errors import NoItemsLeftError, RuleError, UnknownItemError
from igcf.item import nearest
from igcf.model import Model
from igcf.model.catalogue import Catalogue
from igcf.online.backend.types import Selection
from igcf.online.exploration import AMONG, Explorer
from igcf.online.selection import Query

if TYPE_CHECKING:
    from igcf.online.rules import Rules

EVERY = "*"  # name in `caps` of every category that it does not name
POOL = 50  # items that a diverse answer is chosen among, or twice its length where that is more
WIDER = 32  # times as many items are looked for in an index where caps leave too few of those found


@dataclass(frozen=True, eq=False)
class CompiledRules:
    """Rules in terms of the rows of a catalogue."""

    catalogue: Catalogue
    allowed: BoolArray | None  # which items pass the filters, (1, items); None: all
    boosts: Float32Array | None  # what is added to the score of each item, (items,); None: nothing to any
    caps: Mapping[str, int]  # most items of an answer by label
    category_cap: int | None  # most items of an answer by category that `caps` does not name
    pinned: tuple[int, ...]  # rows of the pinned items
    diversity: float
    weights: Float32Array | None = None  # what the score of each item is multiplied by, (items,); None: by 1

    @cached_property
    def is_filter(self) -> bool:
        """Whether the rules do no more than leave items out."""
        return not (
            self.boosts is not None or self.weights is not None or self.has_caps or self.pinned or self.diversity
        )

    @property
    def has_caps(self) -> bool:
        """Whether the number of items of some label is limited."""
        return bool(self.caps) or self.category_cap is not None

    def select(self, query: Query, beside: int | None = None) -> Selection:
        """Select items under these rules; the caps also count the item in row `beside`, which is shown with them."""
        query = replace(query, boosts=self.boosts, weights=self.weights)
        has_order = self.has_caps or self.pinned or self.diversity
        return _select_slate(self, query, beside) if has_order else query.select()

    def allowed_last(self, rows: Sequence[int], available: BoolArray) -> BoolArray:
        """Return which available items, (1, items), may replace the last item of an answer.

        A pinned item stays, and no cap is exceeded.
        """
        if rows[-1] in self.pinned:
            return np.zeros_like(available)
        if not self.has_caps:
            return available
        counts = Counter(name for row in rows[:-1] for name, _ in self.limits(row))
        full = [name for name, most in self.caps.items() if counts[name] >= most]
        if self.category_cap is not None:
            full += [name for name in counts if name not in self.caps and counts[name] >= self.category_cap]
        result = available.copy()
        for name in full:
            result[0, self.catalogue.labels.get(name, [])] = False
        return result

    def rows_of(self, name: str) -> Any:
        """Return the rows of the items that the cap on a label counts."""
        return self.catalogue.labels.get(name, []) if name in self.caps else self.catalogue.category_rows[name]

    def limits(self, row: int) -> list[tuple[str, int]]:
        """Return the labels of an item that are capped, and their caps."""
        own = [(name, self.caps[name]) for name in self.catalogue.labels_of(row) if name in self.caps]
        if self.category_cap is not None and self.catalogue.categories is not None:
            others = (name for name in self.catalogue.categories[row] if name not in self.caps)
            own += [(name, self.category_cap) for name in others]
        return own


def compile_rules(rules: "Rules", catalogue: Catalogue, *, is_lenient: bool) -> CompiledRules:
    """Find the items that rules name; unless `is_lenient`, unknown names are an error."""
    named = [*(name for group in rules.any for name in group), *rules.all, *rules.none, *dict(rules.boost)]
    named += [name for name, _ in rules.caps if name != EVERY]
    if not is_lenient:
        _refuse_unknown(rules, named, catalogue)
    boosts = np.zeros(len(catalogue))
    for name, amount in rules.boost:
        boosts[catalogue.labels.get(name, [])] += amount
    caps = dict(rules.caps)
    category_cap = caps.pop(EVERY, None)
    none_of: list[Any] = [catalogue.labels.get(name, []) for name, most in caps.items() if most == 0]  # a filter
    if category_cap == 0:
        none_of += [rows for name, rows in catalogue.category_rows.items() if name not in caps]
        category_cap = None
    rows = [catalogue.row_of.get(item_id) for item_id in rules.pinned]
    weighed = catalogue.attributes.numbers.get(rules.weight) if rules.weight and rules.strength else None
    mask = _mask(rules, catalogue, none_of)
    return CompiledRules(
        catalogue=catalogue,
        allowed=None if mask is None else mask[None],
        boosts=boosts.astype(np.float32) if boosts.any() else None,
        caps={name: most for name, most in caps.items() if most},
        category_cap=category_cap,
        pinned=tuple(row for row in rows if row is not None),
        diversity=rules.diversity,
        weights=None if weighed is None else success_weights(weighed, str(rules.weight), rules.strength),
    )


def success_weights(numbers: FloatArray, name: str, strength: float) -> Float32Array:
    """Return what a success counts on each item: its number against the mean of all, as far as the strength says."""
    mean = float(np.nanmean(numbers))
    if not mean > 0:
        raise RuleError(f"the number {name!r} of the items has the mean {mean:g}; expected a positive one for a weight")
    relative = np.where(np.isnan(numbers), 1.0, numbers / mean)
    return np.asarray(1.0 - strength + strength * relative, dtype=np.float32)


def _mask(rules: "Rules", catalogue: Catalogue, capped: list[Any]) -> BoolArray | None:
    if not (rules.any or rules.all or rules.none or rules.least or rules.most or capped):
        return None
    mask = np.ones(len(catalogue), dtype=np.bool_)
    for group in (*rules.any, *((name,) for name in rules.all)):
        has_one = np.zeros(len(catalogue), dtype=np.bool_)
        for name in group:
            has_one[catalogue.labels.get(name, [])] = True
        mask &= has_one
    for rows in (*(catalogue.labels.get(name, []) for name in rules.none), *capped):
        mask[rows] = False
    missing = np.full(len(catalogue), np.nan)
    for name, amount in rules.least:
        mask &= catalogue.attributes.numbers.get(name, missing) >= amount
    for name, amount in rules.most:
        mask &= catalogue.attributes.numbers.get(name, missing) <= amount
    return mask


def _refuse_unknown(rules: "Rules", labels: Iterable[str], catalogue: Catalogue) -> None:
    for name in labels:
        if name not in catalogue.labels:
            raise RuleError(f"no item has the category or tag {name[:80]!r}{nearest(name, catalogue.labels)}")
    weighed = () if rules.weight is None else (rules.weight,)
    for name in (*dict((*rules.least, *rules.most)), *weighed):
        if name not in catalogue.attributes.numbers:
            raise RuleError(f"no item has the number {name[:80]!r}{nearest(name, catalogue.attributes.numbers)}")
    for item_id in rules.pinned:
        if item_id not in catalogue.row_of:
            raise UnknownItemError(f"the pinned item {item_id[:80]!r} is not in the catalogue")


def _select_slate(rules: CompiledRules, query: Query, beside: int | None) -> Selection:
    """Select items one after the other, best first, pinned items before all others; refuses where caps leave too few.

    The cost is that of `k` passes over the scores, and for diversity of a bounded pool of items.
    """
    available, k, explorer = query.available[0], query.k, query.explorer
    left = int(np.count_nonzero(available))
    pinned = np.array([row for row in dict.fromkeys(rules.pinned) if available[row]], dtype=np.int64)
    size = k if explorer is None else k + AMONG - 1
    while True:
        if explorer is not None:
            explorer.propensities.clear()
        among, scores = query.scored(min(size, left), also=pinned)
        found = _Slate(rules, query, _open_scores(among, scores, available))
        if beside is not None:
            found.close(beside)
        found.take_pinned(pinned)
        found.fill()
        if len(found.rows) == k:
            rows = np.array(found.rows)
            own = scores[rows] if among is None else scores[np.searchsorted(among, rows)]
            return query.engine.describe(rows, own, available, among)
        if among is None or size >= left:
            raise NoItemsLeftError(
                f"asked for {k} items, the caps leave {len(found.rows)} of the {left} that pass the filters; ask for "
                "fewer or loosen the caps"
            )
        size *= WIDER


def _open_scores(among: IntArray | None, scores: AnyFloatArray, available: BoolArray) -> AnyFloatArray:
    """Scores of all items, (items,), finite only for those that may be chosen."""
    if among is None:
        return np.where(available, scores, -np.inf)
    result = np.full(len(available), -np.inf, dtype=scores.dtype)
    result[among] = scores
    return result


class _Slate:
    """Items chosen so far, and the scores of those that may still be: an item that a cap forbids has none."""

    def __init__(self, rules: CompiledRules, query: Query, scores: AnyFloatArray) -> None:
        self._rules, self._query, self._scores = rules, query, scores
        self.rows: list[int] = []
        self._counts: Counter[str] = Counter()

    def _take(self, row: int) -> None:
        self.rows.append(row)
        self.close(row)

    def close(self, row: int) -> None:
        """Close an item and all that its caps now forbid."""
        self._scores[row] = -np.inf
        for name, most in self._rules.limits(row) if self._rules.has_caps else ():
            self._counts[name] += 1
            if self._counts[name] == most:
                self._scores[self._rules.rows_of(name)] = -np.inf

    def take_pinned(self, rows: IntArray) -> None:
        """Take pinned items in their order, as far as caps allow."""
        for row in rows.tolist():
            if len(self.rows) < self._query.k and np.isfinite(self._scores[row]):
                self._take(row)
                if self._query.explorer is not None:
                    self._query.explorer.fixed()

    def fill(self) -> None:
        """Take items by score, or for diversity, until there are enough or none is left."""
        if self._rules.diversity:
            self._fill_diverse()
        while len(self.rows) < self._query.k and (row := self._best(self._scores)) is not None:
            self._take(row)

    def _best(self, scores: AnyFloatArray) -> int | None:
        """Place of the best score, ties broken at random, or of one drawn among the best; None: all are closed."""
        place = int(scores.argmax())
        if scores[place] == -np.inf:
            return None
        if self._query.explorer is not None:
            return self._drawn(scores, self._query.explorer)
        ties = np.flatnonzero(scores == scores[place])
        return place if len(ties) == 1 else int(self._query.make_rng().choice(ties))

    @staticmethod
    def _drawn(scores: AnyFloatArray, explorer: Explorer) -> int:
        n = min(AMONG, int(np.count_nonzero(scores > -np.inf)))
        best = np.argpartition(-scores, n - 1)[:n]
        best = best[np.argsort(-scores[best], kind="stable")]
        return int(best[explorer.place(n)])

    def _fill_diverse(self) -> None:
        """Take one item after the other, each by its score less what it repeats of those before it.

        What an item repeats is the share of its variance over the population that the items before it explain, in units
        of the spread of the scores: 0 where other people like it, 1 where the same people do. The best items by score
        are compared; the next ones only where caps leave none of them.
        """
        explained, weight, k = _Explained(self._query.engine.model, self.rows), None, self._query.k
        while len(self.rows) < k and (n_open := int(np.count_nonzero(self._scores > -np.inf))):
            size = min(max(POOL, 2 * k), n_open)
            pool = np.argpartition(-self._scores, size - 1)[:size]
            if weight is None:
                weight = self._rules.diversity * float(self._scores[pool].std())
            left, whole = explained.look_at(pool)
            while len(self.rows) < k:
                worth = self._scores[pool] + weight * left / whole
                place = int(worth.argmax())  # of a few items: looking for ties would take as long as the rest
                if worth[place] == -np.inf:
                    break
                place = place if self._query.explorer is None else self._drawn(worth, self._query.explorer)
                self._take(int(pool[place]))
                left = explained.add(place)


class _Explained:
    """What is left of the variance of some items when others are known: their tastes less what these span."""

    def __init__(self, model: Model, known: list[int]) -> None:
        self._vectors = model.item_vectors
        self._root = model.computed("root of the prior", lambda: covariance_root(model.prior_cov))
        self._basis: FloatArray = np.zeros((0, len(model.prior_mean)))
        self.look_at(np.array(known, dtype=np.int64))
        for place in range(len(known)):
            self.add(place)

    def look_at(self, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """Turn to some items; return the variance left of them and their own, both of shape (rows,)."""
        self._tastes = self._vectors[rows].astype(np.float64) @ self._root  # products: covariances over the population
        whole = np.maximum(np.einsum("nd,nd->n", self._tastes, self._tastes), 1e-12)
        self._left = whole - np.square(self._tastes @ self._basis.T).sum(axis=1)
        return self._left, whole

    def add(self, place: int) -> FloatArray:
        """Let the item at `place` of those compared be known; return the variance left of each."""
        taste = self._tastes[place]
        rest = taste - (self._basis @ taste) @ self._basis
        size = float(rest @ rest)
        if size > 1e-9 * float(taste @ taste):
            self._basis = np.concatenate([self._basis, rest[None] / np.sqrt(size)])
            self._left = self._left - np.square(self._tastes @ self._basis[-1])
        return np.asarray(self._left)
