"""How much new items are tried, the account of what that costs, and who tries which item next (docs/catalogue.md)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock

import numpy as np

from igcf.arrays import AnyFloatArray, BoolArray, FloatArray, IntArray
from igcf.errors import ConfigError
from igcf.model import Model
from igcf.model.channel import activations, expectation
from igcf.online.engine import ScoringEngine
from igcf.online.new_items.update import NewItems, class_expectations

SAMPLE = 4_096  # number of items sampled to estimate the expected reward of a user's next items
LEAST_GAIN = 0.02  # how much better than expected an item must be able to turn out for a trial to be worth anything
WEIGHT = 50.0
"""Expected rewards that count as come true before the first reaction, where the price of trials is counted."""
MEMORY = 12_000
"""Answers after which what was saved for trials is forgotten, so that it is not spent on a few users at once."""


@dataclass(frozen=True)
class Exposure:
    """How often new items are shown in order to learn about them.

    >>> import igcf
    >>> igcf.Exposure(share=0.1, price=0.005).most  # `igcf.Recommender(model, exposure=...)` takes it
    50
    """

    share: float = 0.3
    """Largest share of the items shown to a user that are trials."""
    price: float = 0.01
    """Largest share of what the other items would have brought that new items may cost, all users together: trials are
    paid for by this and by what new items bring. At 1 trials are not counted."""
    most: int = 50
    """Largest number of trials of an item: it is judged then."""
    known: int = 10
    """Number of reactions of a user before their first trial: such users are more informative."""
    fit: float = 0.4
    """How much more than of the population the user must be expected to like the item if it is a good one, in standard
    deviations of the population."""
    doubt: float = 0.002
    """Probability of a class of items below which an item is no longer tried in the hope that it belongs to it."""
    turn: float = 0.02
    """How much more an item must be hoped for than another one to be tried before it, per reaction that it had more."""
    horizon: int = 30
    """Items that a user will still be shown: a replaced item is shown later, and the last of these is lost."""
    caution: float = 1.15
    """How much more than expected a replaced known item counts as bringing: what is given up is estimated, and
    users of whom less is learned on new items are served a little worse afterwards."""
    settled: int = 200
    """Reactions after which an item is settled: it is then learned no further."""

    def __post_init__(self) -> None:
        """Refuse shares outside 0 to 1 and counts below their least value."""
        for name in ("share", "price", "doubt"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"{name} must be between 0 and 1, got {getattr(self, name)}")
        if min(self.most, self.known, self.turn) < 0 or min(self.settled, self.horizon) < 1 or self.fit != self.fit:
            raise ConfigError(
                f"most, known and turn must not be negative, settled and horizon at least 1, fit a number, got {self}"
            )
        if not 0 < self.caution < math.inf:
            raise ConfigError(f"caution must be a positive number, got {self.caution}")


class Account:
    """What may be spent on trials, in rewards of all users together.

    It takes in the price, a share of what known items bring, and what new items bring, and pays for the known items
    that are not shown because of new ones.
    """

    def __init__(self, price: float, caution: float = 1.0) -> None:
        self._price, self._caution = price, caution
        self.balance = 0.0
        self._came, self._expected = WEIGHT, WEIGHT  # of known items

    def note_known(self, expected: float, reward: float) -> None:
        """Note what was expected of a known item, and what it brought."""
        self._came += reward
        self._expected += expected

    def begin(self, n_answers: int, expected_of_known: float, given_up: float) -> None:
        """Record answers: the expected reward of their known items, and of those that new items replaced."""
        if self.balance > 0:
            self.balance *= max(0.0, 1.0 - n_answers / MEMORY)
        self.balance += self._scale * (self._price * expected_of_known - self._caution * given_up)

    def pay(self, given_up: float) -> bool:
        """Pay for a trial, if there is enough for it."""
        cost = self._scale * self._caution * max(given_up, 0.0)
        if self._price < 1 and (self.balance <= 0 or cost > self.balance):
            return False
        self.balance -= cost
        return True

    @property
    def _scale(self) -> float:
        """Rewards per expected reward: what is shown is chosen for being expected to please, which overrates it."""
        return max(self._came, 0.0) / self._expected if self._expected > 0 else 1.0


@dataclass(frozen=True, eq=False)
class Answers:
    """Answers to some users as they would be without trials."""

    engine: ScoringEngine  # the users' state
    available: BoolArray  # what may be shown, (users, items)
    shown: IntArray  # rows of the items that would be shown, best first, (users, k)
    may_try: BoolArray  # who may be asked to try something, (users,)
    tryable: BoolArray  # what may be tried in the last place, (users, items)


class Trials:
    """Trials of new items by all users: how many there were, what they may cost, and which come next.

    A user is asked about an item that they would like, more than others, if it is as good as it may still be: of the
    classes that are not ruled out yet the best one counts. Such users' reactions are most informative and cost least.
    """

    def __init__(self, exposure: Exposure) -> None:
        self.exposure = exposure
        self.account = Account(exposure.price, exposure.caution)
        self.counts: IntArray = np.zeros(0, dtype=np.int64)  # number of trials of each item, (new items,)
        self._bars: FloatArray = np.zeros((0, 0))
        self._lock = Lock()

    def may_try(self, n_tried: int, n_shown: int, n_known: int) -> bool:
        """Whether a user may be asked to try something, after so many trials, items shown, and reactions."""
        return n_tried + 1 <= self.exposure.share * n_shown and n_known >= self.exposure.known

    def note_new(self, reward: float) -> None:
        """Note what a new item brought, whether it was shown for its merit or tried."""
        with self._lock:
            self.account.balance += np.nan_to_num(reward)

    def note_known(self, expected: float, reward: float) -> None:
        """Note what was expected of a known item, and what it brought: the price of trials is counted in rewards."""
        with self._lock:
            if not np.isnan(reward):
                self.account.note_known(expected, reward)

    def choose(self, answers: Answers, items: NewItems) -> IntArray:
        """Return the answers, shape (users, k), with their last items possibly replaced by trials."""
        with self._lock:
            n_more = len(items.rows) - len(self.counts)
            if n_more > 0:
                self.counts = np.pad(self.counts, (0, n_more))
                vectors = [items.priors.means[number] for number in items.model.scored]
                self._bars = _population_level(items.model, vectors, self.exposure.fit)
            return self._choose(answers, items)

    def _choose(self, answers: Answers, items: NewItems) -> IntArray:
        result = np.array(answers.shown)
        is_new = items.unsettled[result]
        is_asked = answers.may_try & ~is_new[:, -1]
        has_open = bool((self.counts[: len(items.rows)] < self.exposure.most).any())
        looked = np.flatnonzero((is_asked & has_open) | is_new.any(axis=1))
        last = np.zeros(len(result))
        last[looked] = self._last_of_horizon(answers, items, looked)
        expected = answers.engine.means_at(result)
        given_up = float((is_new * last[:, None]).sum())
        self.account.begin(result.size, float((expected * ~is_new).sum()), given_up)
        asked = np.flatnonzero(is_asked)
        if len(asked) and has_open and (self.account.balance > 0 or self.exposure.price >= 1):
            self._try(answers, items, asked, last, result)
        return result

    def _try(self, answers: Answers, items: NewItems, asked: IntArray, last: FloatArray, result: IntArray) -> None:
        """Write trials into the last places of `result`, the users first who promise most."""
        worth = self._worth(answers, items, asked)
        for number in np.argsort(-worth.max(axis=1), kind="stable").tolist():
            user, own = asked[number], worth[number]
            item = int(np.where(self.counts[: len(own)] < self.exposure.most, own, -np.inf).argmax())
            is_open = self.counts[item] < self.exposure.most and own[item] > -np.inf
            if is_open and items.rows[item] not in result[user] and self.account.pay(float(last[user])):
                result[user, -1] = items.rows[item]
                self.counts[item] += 1

    def _worth(self, answers: Answers, items: NewItems, asked: IntArray) -> FloatArray:
        """How much it is worth that a user tries an item, (asked, new items); minus infinity: not at all."""
        expected = class_expectations(items.model, items.class_vectors, answers.engine.belief_means[asked])
        possible = np.where(items.shares >= self.exposure.doubt, expected, -np.inf)
        best = possible.argmax(axis=2)
        hope = np.take_along_axis(possible, best[..., None], axis=2)[..., 0]
        bar = np.take_along_axis(self._bars[: len(items.rows)], best.T, axis=1).T
        may_show = answers.tryable[np.ix_(asked, items.rows)]
        is_worth = may_show & (hope >= bar) & (hope >= answers.engine.means_at(items.rows)[asked] + LEAST_GAIN)
        is_worth &= items.unsettled[items.rows]
        return np.where(is_worth, hope - self.exposure.turn * items.n_reactions, -np.inf)

    def _last_of_horizon(self, answers: Answers, items: NewItems, users: IntArray) -> FloatArray:
        """What the last item of each user's horizon is expected to bring, of the known ones, (users,)."""
        n_items = answers.available.shape[1]
        step = -(-n_items // SAMPLE)
        some = np.arange(0, n_items, step)
        is_known = answers.available[np.ix_(users, some)] & ~items.unsettled[some]
        means = np.where(is_known, answers.engine.means_at(some)[users], 0.0)
        place = min(max(1, round(self.exposure.horizon / step)), len(some))
        return np.asarray(np.maximum(np.partition(means, -place, axis=1)[:, -place], 0.0), dtype=np.float64)


def _population_level(model: Model, class_vectors: Sequence[AnyFloatArray], fit: float) -> FloatArray:
    """What users `fit` standard deviations above the population expect of each item by class, (new items, classes)."""
    z = {}
    for own, number in zip(class_vectors, model.scored, strict=True):
        span, y = model.channels[number].span, own.astype(np.float64)
        spread = np.einsum("nkv,nkv->nk", y @ model.prior_cov[span, span], y)
        z[number] = y @ model.prior_mean[span] + fit * np.sqrt(np.maximum(spread, 0.0))
    return np.asarray(expectation(model.terms, activations(model.channels, z)), dtype=np.float64)
