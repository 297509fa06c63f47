"""Answers under rules: items chosen one after the other by score, under caps and for diversity, pinned items first."""

from collections import Counter
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from igcf.arrays import AnyFloatArray, BoolArray, FloatArray, IntArray, covariance_root
from igcf.errors import NoItemsLeftError
from igcf.model import Model
from igcf.online.backend.types import MakeRng, Selection
from igcf.online.engine import ScoringEngine
from igcf.online.policies import Policy
from igcf.online.selection import scored_items

if TYPE_CHECKING:
    from igcf.online.compiled import CompiledRules

POOL = 50
"""Items that a diverse answer is chosen among, or twice its length where that is more."""
WIDER = 32
"""Times as many items are looked for in an index where caps leave too few of those found."""
_roots: "WeakKeyDictionary[Model, FloatArray]" = WeakKeyDictionary()


def select_slate(
    rules: "CompiledRules", policy: Policy, engine: ScoringEngine, available: BoolArray, k: int, *, make_rng: MakeRng
) -> Selection:
    """Select `k` items of the only user of `engine` under rules, best first, pinned items before all others.

    `available` (1, items) has passed the filters. Refuses where caps leave fewer than `k`. The cost is that of `k`
    passes over the scores, and for diversity of a bounded pool of items.
    """
    left = int(np.count_nonzero(available))
    pinned = np.array([row for row in dict.fromkeys(rules.pinned) if available[0, row]], dtype=np.int64)
    size = k
    while True:
        among, scores = scored_items(
            policy, engine, available, min(size, left), make_rng=make_rng, boosts=rules.boosts, also=pinned
        )
        choice = _Choice(rules, engine.model, _open_scores(among, scores, available[0]), make_rng)
        choice.take_pinned(pinned, k)
        choice.fill(k)
        if len(choice.rows) == k:
            rows = np.array(choice.rows)
            own = scores[rows] if among is None else scores[np.searchsorted(among, rows)]
            return engine.describe(rows, own, available[0], among)
        if among is None or size >= left:
            raise NoItemsLeftError(
                f"asked for {k} items, the caps leave {len(choice.rows)} of the {left} that pass the filters; ask for "
                "fewer or loosen the caps"
            )
        size *= WIDER


def _open_scores(among: IntArray | None, scores: AnyFloatArray, available: BoolArray) -> AnyFloatArray:
    """Scores of all items, (items,), of which only those that may be chosen are finite."""
    if among is None:
        return np.where(available, scores, -np.inf)
    result = np.full(len(available), -np.inf, dtype=scores.dtype)
    result[among] = scores
    return result


class _Choice:
    """Items chosen so far, and the scores of those that may still be: an item that a cap forbids has none."""

    def __init__(self, rules: "CompiledRules", model: Model, scores: AnyFloatArray, make_rng: MakeRng) -> None:
        self._rules, self._model, self._scores, self._make_rng = rules, model, scores, make_rng
        self.rows: list[int] = []
        self._counts: Counter[str] = Counter()

    def _take(self, row: int) -> None:
        """Take an item, and close it and all that its caps now forbid."""
        self.rows.append(row)
        self._scores[row] = -np.inf
        for name, most in self._rules.limits(row) if self._rules.has_caps else ():
            self._counts[name] += 1
            if self._counts[name] == most:
                self._scores[self._rules.rows_of(name)] = -np.inf

    def take_pinned(self, rows: IntArray, k: int) -> None:
        """Take up to `k` pinned items in their order, as far as caps allow."""
        for row in rows.tolist():
            if len(self.rows) < k and np.isfinite(self._scores[row]):
                self._take(row)

    def fill(self, k: int) -> None:
        """Take items by score, or for diversity, until there are `k` or none is left."""
        if self._rules.diversity:
            self._fill_diverse(k)
            return
        while len(self.rows) < k:
            row = int(self._scores.argmax())
            best = self._scores[row]
            if best == -np.inf:
                return
            ties = np.flatnonzero(self._scores == best)
            self._take(row if len(ties) == 1 else int(self._make_rng().choice(ties)))

    def _fill_diverse(self, k: int) -> None:
        """Take one item after the other, each by its score less what it repeats of those before it.

        What an item repeats is the share of its variance over the population that the items before it explain, in units
        of the spread of the scores: 0 where other people like it, 1 where the same people do. The best items by score
        are looked at; the next ones only where caps leave none of them.
        """
        explained = _Explained(self._model)
        explained.look_at(np.array(self.rows, dtype=np.int64))
        for place in range(len(self.rows)):
            explained.add(place)
        weight: float | None = None
        size = max(POOL, 2 * k)
        while len(self.rows) < k:
            n_open = int(np.count_nonzero(self._scores > -np.inf))
            if n_open == 0:
                return
            pool = np.argpartition(-self._scores, min(size, n_open) - 1)[: min(size, n_open)]
            if weight is None:
                weight = self._rules.diversity * float(self._scores[pool].std())
            left, whole = explained.look_at(pool)
            while len(self.rows) < k:
                own = self._scores[pool]
                place = int((own + weight * left / whole).argmax())
                if own[place] == -np.inf:
                    break
                self._take(int(pool[place]))
                left = explained.add(place)


class _Explained:
    """What is left of the variance of some items when others are known: their tastes less what these span."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._basis: FloatArray = np.zeros((0, len(model.prior_mean)))

    def look_at(self, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """Turn to some items; return the variance left of them and their own, both of shape (rows,)."""
        self._tastes = _tastes(self._model, rows)
        whole = np.maximum(np.einsum("nd,nd->n", self._tastes, self._tastes), 1e-12)
        self._left = whole - np.square(self._tastes @ self._basis.T).sum(axis=1)
        return self._left, whole

    def add(self, place: int) -> FloatArray:
        """Let the item at `place` of those looked at be known; return the variance left of each."""
        taste = self._tastes[place]
        rest = taste - (self._basis @ taste) @ self._basis
        size = float(rest @ rest)
        if size > 1e-9 * float(taste @ taste):
            self._basis = np.concatenate([self._basis, rest[None] / np.sqrt(size)])
            self._left = self._left - np.square(self._tastes @ self._basis[-1])
        return np.asarray(self._left)


def _tastes(model: Model, rows: IntArray) -> FloatArray:
    """Return vectors of items, (n, d), whose products are the covariances of their rewards over the population."""
    root = _roots.get(model)
    if root is None:
        root = _roots[model] = covariance_root(model.prior_cov)
    return np.asarray(model.item_vectors[rows].astype(np.float64) @ root)
