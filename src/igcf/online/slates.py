"""Answers under rules: items ranked with boosts, then chosen one after the other under caps and for diversity."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from igcf.arrays import AnyFloatArray, BoolArray, FloatArray, covariance_root
from igcf.errors import NoItemsLeftError
from igcf.model import Model
from igcf.online import backend
from igcf.online.backend import MakeRng, RuleArrays, Selection
from igcf.online.engine import ScoringEngine
from igcf.online.policies import Policy
from igcf.online.selection import is_separable, policy_scores, scores_at, selection_details

if TYPE_CHECKING:
    from igcf.online.compiled import CompiledRules

POOL = 50
"""Items that a diverse answer is chosen among, or twice its length where that is more."""
SPARE = 16
"""Items that are looked at beyond the length of an answer, in case caps forbid some; more where that is not enough."""
_roots: "WeakKeyDictionary[Model, FloatArray]" = WeakKeyDictionary()


def select_slate(
    rules: "CompiledRules", policy: Policy, engine: ScoringEngine, available: BoolArray, k: int, *, make_rng: MakeRng
) -> Selection:
    """Select `k` items of the only user of `engine` under rules, best first, pinned items before all others.

    `available` (1, items) has passed the filters. Refuses where caps leave fewer than `k`.
    """
    ranking = _Ranking(rules, policy, engine, available, make_rng)
    choice = _Choice(rules, engine.model, k)
    for row in dict.fromkeys(rules.pinned):
        if available[0, row] and len(choice.rows) < k:
            choice.take_if_allowed(row)
    pinned = set(choice.rows)
    left = int(np.count_nonzero(available))
    size = min(left, _pool_size(rules, k))
    while True:
        rows, scores = ranking.best(size)
        known = dict(zip(rows, scores, strict=True))
        attempt = choice.copy()
        attempt.fill([row for row in rows if row not in pinned], known)
        if len(attempt.rows) >= k:
            break
        if size == left:
            raise NoItemsLeftError(
                f"asked for {k} items, the caps leave {len(attempt.rows)} of the {left} that pass the filters; ask for "
                "fewer or loosen the caps"
            )
        size = min(left, 4 * size)
    if missing := [row for row in attempt.rows if row not in known]:
        known |= ranking.scores_of(missing)
    return ranking.details(attempt.rows, known)


def _pool_size(rules: "CompiledRules", k: int) -> int:
    """Return how many of the best items an answer is chosen among at first."""
    if rules.diversity:
        return max(POOL, 2 * k)
    return k + max(SPARE, k) if rules.has_caps else k


class _Ranking:
    """The available items in the order of score plus boost."""

    def __init__(
        self, rules: "CompiledRules", policy: Policy, engine: ScoringEngine, available: BoolArray, make_rng: MakeRng
    ) -> None:
        self._rules, self._policy, self._engine = rules, policy, engine
        self._available, self._make_rng = available, make_rng
        self._scores: AnyFloatArray | None = None
        self._last: Selection | None = None
        self._boosts = None if rules.boosts is None else RuleArrays(rules.boosts)
        if not is_separable(policy):  # sampled, or dependent on what is available: scored once, for all
            own = policy_scores(policy, engine, available, make_rng())
            self._scores = own if rules.boosts is None else own + rules.boosts

    def best(self, n: int) -> tuple[list[int], list[float]]:
        """Return rows and scores of the `n` best items."""
        if self._scores is None:
            self._last = selection_details(
                self._policy, self._engine, self._available, n, make_rng=self._make_rng, rules=self._boosts
            )
        else:
            rows, scores = backend.loops.select_users(self._scores, None, self._available, 0.0, n, self._make_rng)
            self._last = self._engine.describe(rows[0], scores[0], self._available[0])
        return self._last.rows, self._last.scores

    def scores_of(self, rows: Sequence[int]) -> dict[int, float]:
        """Return the scores of single items."""
        if self._scores is not None:
            return {row: float(self._scores[0, row]) for row in rows}
        own = scores_at(self._policy, self._engine, np.array(rows))
        if self._rules.boosts is not None:
            own = own + self._rules.boosts[list(rows)]
        return dict(zip(rows, own.tolist(), strict=True))

    def details(self, rows: Sequence[int], scores: dict[int, float]) -> Selection:
        """Return what is believed of some items: as the last ranking told it, or else computed."""
        told = {} if self._last is None else {each[0]: each for each in zip(*self._last, strict=True)}
        missing = [row for row in rows if row not in told]
        if missing:
            found = self._engine.describe(np.array(missing), [scores[row] for row in missing], self._available[0])
            told |= {each[0]: each for each in zip(*found, strict=True)}
        return Selection(*map(list, zip(*(told[row] for row in rows), strict=True)))


class _Choice:
    """Items chosen so far, and how many of them carry each capped label."""

    def __init__(self, rules: "CompiledRules", model: Model, k: int) -> None:
        self._rules, self._model, self._k = rules, model, k
        self.rows: list[int] = []
        self._counts: Counter[str] = Counter()

    def copy(self) -> "_Choice":
        """Return a choice that goes on from here."""
        other = _Choice(self._rules, self._model, self._k)
        other.rows, other._counts = list(self.rows), Counter(self._counts)
        return other

    def take_if_allowed(self, row: int) -> bool:
        """Take an item unless a cap forbids it."""
        if self._rules.has_caps:
            limits = self._rules.limits(row)
            if any(self._counts[name] >= most for name, most in limits):
                return False
            self._counts.update(name for name, _ in limits)
        self.rows.append(row)
        return True

    def fill(self, rows: Sequence[int], scores: dict[int, float]) -> None:
        """Take items in their order, or for diversity, until there are enough."""
        if self._rules.diversity:
            self._fill_diverse(rows, scores)
            return
        for row in rows:
            if len(self.rows) >= self._k:
                return
            self.take_if_allowed(row)

    def _fill_diverse(self, rows: Sequence[int], scores: dict[int, float]) -> None:
        """Take one item after the other, each by its score less what it repeats of those before it.

        What an item repeats is the share of its variance over the population that the items before it explain, in units
        of the spread of the scores: 0 where other people like it, 1 where the same people do.
        """
        taste = _tastes(self._model, [*self.rows, *rows])
        products = taste @ taste.T
        left = np.maximum(products.diagonal(), 1e-12)
        own = np.array([scores[row] for row in rows])
        weight = self._rules.diversity * (float(own.std()) if len(own) else 0.0)
        first = len(self.rows)
        worth_of_new = weight / left[first:]
        explained = _Explained(products, left)
        for number in range(first):
            explained.add(number)
        n_left = len(rows)
        while len(self.rows) < self._k and n_left:
            place = int((own + worth_of_new * explained.left[first:]).argmax())
            own[place] = -np.inf
            n_left -= 1
            if self.take_if_allowed(rows[place]):
                explained.add(first + place)


class _Explained:
    """What is left of the variance of some items when one after the other is known (a pivoted Cholesky factor)."""

    def __init__(self, products: FloatArray, whole: FloatArray) -> None:
        self._products, self._least = products, 1e-9 * whole
        self.left: FloatArray = whole.copy()
        self._factor: FloatArray = np.empty((len(whole), len(whole)))
        self._n = 0

    def add(self, number: int) -> None:
        """Let the item at `number` be known."""
        if self.left[number] <= self._least[number]:
            return
        before = self._factor[:, : self._n]
        column = (self._products[:, number] - before @ before[number]) / np.sqrt(self.left[number])
        self._factor[:, self._n] = column
        self._n += 1
        self.left -= column * column


def _tastes(model: Model, rows: Sequence[int]) -> FloatArray:
    """Return vectors of items, (n, d), whose products are the covariances of their rewards over the population."""
    root = _roots.get(model)
    if root is None:
        root = _roots[model] = covariance_root(model.prior_cov)
    return np.asarray(model.item_vectors[list(rows)].astype(np.float64) @ root)
