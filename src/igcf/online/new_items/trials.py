"""Who tries which new item next (docs/catalogue.md, Trials)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from igcf.arrays import AnyFloatArray, BoolArray, FloatArray, IntArray
from igcf.model import Model
from igcf.model.channel import activations, expectation
from igcf.online.exposure import Account, Exposure
from igcf.online.shared_items import Answers

SAMPLE = 4_096
"""Items out of which it is estimated what a user's next items are expected to bring."""
LEAST_GAIN = 0.02
"""How much better than expected an item must be able to turn out for a trial to be worth anything."""


@dataclass(frozen=True, eq=False)
class Known:
    """What is known of the new items when a choice is made."""

    rows: IntArray
    is_unsettled: BoolArray
    """Which of all items are new and not settled, (items,)."""
    shares: FloatArray
    """Probability of each class, (new items, classes)."""
    class_vectors: Sequence[AnyFloatArray]
    """Mean vector in each class, (new items, classes, width) per scored channel."""
    n_reactions: IntArray


def class_expectations(model: Model, class_vectors: Sequence[AnyFloatArray], users: FloatArray) -> AnyFloatArray:
    """Return what users can expect of items if these belong to each class, (users, items, classes)."""
    z = {}
    for own, number in zip(class_vectors, model.scored, strict=True):
        mean = users[:, model.channels[number].span].astype(np.float32)
        z[number] = (mean @ own.reshape(-1, own.shape[2]).T).reshape(len(users), *own.shape[:2])
    return expectation(model.terms, activations(model.channels, z))


class Trials:
    """Trials of new items: so far, and which come next.

    A user is asked about an item that they would like, more than others, if it is as good as it may still be: of the
    classes that are not ruled out yet the best one counts. Such users' reactions tell most of the item, and cost least.
    """

    def __init__(self, model: Model, class_vectors: Sequence[AnyFloatArray], exposure: Exposure) -> None:
        self.exposure = exposure
        self.account = Account(exposure.price, exposure.caution)
        n_items = len(class_vectors[0])
        self.counts: IntArray = np.zeros(n_items, dtype=np.int64)
        self._model = model
        self._bars = _population_level(model, class_vectors, exposure.fit)

    def go_on_from(self, other: "Trials") -> None:
        """Take over what was tried and paid before more items were added."""
        self.counts[: len(other.counts)] = other.counts
        self.account = other.account.copy()

    def choose(self, answers: Answers, known: Known) -> IntArray:
        """Return what is shown: the answers, whose last items may give way to trials, (users, k)."""
        result = np.array(answers.shown)
        is_new = known.is_unsettled[result]
        is_asked = answers.may_try & ~is_new[:, -1]
        has_open = bool((self.counts < self.exposure.most).any())
        looked = np.flatnonzero((is_asked & has_open) | is_new.any(axis=1))
        last = np.zeros(len(result))
        last[looked] = self._last_of_horizon(answers, known, looked)
        expected = answers.engine.means_at(result)
        given_up = float((is_new * last[:, None]).sum())
        self.account.begin(result.size, float((expected * ~is_new).sum()), given_up)
        asked = np.flatnonzero(is_asked)
        if len(asked) and has_open and (self.account.balance > 0 or self.exposure.price >= 1):
            self._try(answers, known, asked, last, result)
        return result

    def _try(self, answers: Answers, known: Known, asked: IntArray, last: FloatArray, result: IntArray) -> None:
        """Write trials into the last places of `result`, the users first who promise most."""
        worth = self._worth(answers, known, asked)
        for number in np.argsort(-worth.max(axis=1), kind="stable").tolist():
            user, own = asked[number], worth[number]
            item = int(np.where(self.counts < self.exposure.most, own, -np.inf).argmax())
            is_open = self.counts[item] < self.exposure.most and own[item] > -np.inf
            if is_open and known.rows[item] not in result[user] and self.account.pay(float(last[user])):
                result[user, -1] = known.rows[item]
                self.counts[item] += 1

    def _worth(self, answers: Answers, known: Known, asked: IntArray) -> FloatArray:
        """How much it is worth that a user tries an item, (asked, new items); minus infinity: not at all."""
        expected = class_expectations(self._model, known.class_vectors, answers.engine.belief_means[asked])
        possible = np.where(known.shares >= self.exposure.doubt, expected, -np.inf)
        best = possible.argmax(axis=2)
        hope = np.take_along_axis(possible, best[..., None], axis=2)[..., 0]
        bar = np.take_along_axis(self._bars, best.T, axis=1).T
        may_show = answers.tryable[np.ix_(asked, known.rows)]
        is_worth = may_show & (hope >= bar) & (hope >= answers.engine.means_at(known.rows)[asked] + LEAST_GAIN)
        is_worth &= known.is_unsettled[known.rows]
        return np.where(is_worth, hope - self.exposure.turn * known.n_reactions, -np.inf)

    def _last_of_horizon(self, answers: Answers, known: Known, users: IntArray) -> FloatArray:
        """What the last item of each user's horizon is expected to bring, of the known ones, (users,)."""
        n_items = answers.available.shape[1]
        step = -(-n_items // SAMPLE)
        some = np.arange(0, n_items, step)
        is_known = answers.available[np.ix_(users, some)] & ~known.is_unsettled[some]
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
