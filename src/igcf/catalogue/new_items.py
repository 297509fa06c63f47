"""New items while they are learned: what all users together told of them, and who tries them next."""

from collections.abc import Hashable, Iterable
from copy import copy
from dataclasses import dataclass, replace
from threading import RLock

import numpy as np

from igcf.arrays import AnyFloatArray, BoolArray, Float32Array, FloatArray, IntArray
from igcf.catalogue.posterior import ItemLearning, ItemPosterior, Told
from igcf.errors import ConfigError
from igcf.model import Model
from igcf.model.adding import expected_noise
from igcf.model.channel import activations, expectation
from igcf.model.content import ItemPriors
from igcf.online.belief import Belief


@dataclass(frozen=True)
class Exposure:
    """How much new items are tried, beyond being shown where they are expected to please most."""

    share: float = 0.05
    """Largest share of the items shown to a user that are trials."""
    most: int = 50
    """Largest number of trials of an item: it is judged then."""
    optimism: float = 1.0
    """A trial must promise, at this many standard deviations of what is unknown of the item, as much as the item that
    would be shown instead."""
    settled: int = 200
    """Reactions after which an item is settled: it is then learned no further."""

    def __post_init__(self) -> None:
        """Refuse what is no share or no number."""
        if not 0 <= self.share <= 1:
            raise ConfigError(f"share must lie between 0 and 1, got {self.share}")
        if self.most < 0 or self.settled < 1 or not 0 <= self.optimism < float("inf"):
            raise ConfigError(f"most and optimism must not be negative, settled at least 1, got {self}")


class NewItems:
    """The items that were added to a model, shared by all users who are met.

    `model` is a copy of its own, whose rows of these items move with every reaction to them; all other rows are those
    of the model that was given. Reactions are kept by key, so that one can be taken back.
    """

    def __init__(self, model: Model, exposure: Exposure | None = None) -> None:
        self.exposure = Exposure() if exposure is None else exposure
        self.model = copy(model)
        self.model.channels = tuple(
            replace(each, vectors=each.vectors.copy(), noise_var=each.noise_var.copy()) for each in model.channels
        )
        if model.is_linear:
            self.model.item_vectors = self.model.channels[0].vectors
        self._learning = ItemLearning(model)
        self.rows: IntArray = model.added
        self._place = {int(row): place for place, row in enumerate(self.rows)}
        self.priors: ItemPriors = self._learning.content.of([model.catalogue.item(int(row)) for row in self.rows])
        self.shares: FloatArray = self.priors.shares.copy()
        self.class_vectors: tuple[Float32Array, ...] = tuple(self.priors.means[n].copy() for n in model.scored)
        self._told: list[dict[Hashable, Told]] = [{} for _ in self.rows]
        self.trials: IntArray = np.zeros(len(self.rows), dtype=np.int64)
        self.version = 0
        self._changed_at: IntArray = np.zeros(len(self.rows), dtype=np.int64)
        self._lock = RLock()

    def __contains__(self, row: int) -> bool:
        return row in self._place

    @property
    def n_reactions(self) -> IntArray:
        """Number of reactions that each item was learned from, (new items,)."""
        return np.array([len(each) for each in self._told], dtype=np.int64)

    def told(self, row: int) -> dict[Hashable, Told]:
        """Return what the reactions to an item told of it, by key."""
        return dict(self._told[self._place[row]])

    def is_settled(self, row: int) -> bool:
        """Whether an item is learned no further."""
        return len(self._told[self._place[row]]) >= self.exposure.settled

    def observe(self, key: Hashable, row: int, belief: Belief, value: float) -> None:
        """Learn an item from a reaction; `belief` is that about the user before it, `key` names the reaction."""
        with self._lock:
            place = self._place[row]
            if not self.is_settled(row) or key in self._told[place]:
                self._told[place][key] = self._learning.contribution(self.priors, place, belief, value)
                self._refresh(place)

    def retract(self, keys: Iterable[Hashable]) -> None:
        """Take reactions back, of any item, as if they had never been."""
        gone = set(keys)
        with self._lock:
            for place, told in enumerate(self._told):
                for key in gone & told.keys():
                    del told[key]
                    self._refresh(place)

    def posterior(self, row: int) -> ItemPosterior:
        """Return what is believed of an item, with covariances."""
        place = self._place[row]
        return self._learning.posterior(self.priors, place, self._in_order(place), with_cov=True)

    def limited(self, most: int) -> "NewItems":
        """Return the same items as they were known after the first `most` reactions to each."""
        other = NewItems(self.model, self.exposure)
        for place, told in enumerate(self._told):
            other._told[place] = dict(list(told.items())[:most])
            other._refresh(place)
        return other

    def _in_order(self, place: int) -> list[Told]:
        """What was told of an item in an order that does not depend on who came first."""
        told = self._told[place]
        return [told[key] for key in sorted(told, key=repr)]

    def _refresh(self, place: int) -> None:
        """Compute the posterior of an item from all that was told of it, and move its rows there."""
        found = self._learning.posterior(self.priors, place, self._in_order(place))
        self.shares[place] = found.shares
        model, row = self.model, int(self.rows[place])
        for own, number in zip(self.class_vectors, model.scored, strict=True):
            own[place] = found.means[number]
        one = ItemPriors(found.shares[None], tuple(each[None] for each in found.means))
        for number, channel in enumerate(model.channels):
            channel.vectors[row] = found.vector(number)
            content = self._learning.content
            channel.noise_var[row] = expected_noise(content, number, one, channel, model.prior_mean, model.prior_cov)[0]
        self.version += 1
        self._changed_at[place] = self.version

    def changed_since(self, version: int) -> IntArray:
        """Return the rows of the items that moved after `version`."""
        return self.rows[self._changed_at > version]

    def uncertainty(self, users: FloatArray) -> AnyFloatArray:
        """Return the standard deviation of expected rewards that is due to the items' classes, (users, new items)."""
        model = self.model
        z = {}
        for own, number in zip(self.class_vectors, model.scored, strict=True):
            mean = users[:, model.channels[number].span].astype(np.float32)
            z[number] = (mean @ own.reshape(-1, own.shape[2]).T).reshape(len(users), *own.shape[:2])
        expected = expectation(model.terms, activations(model.channels, z))
        mean = np.einsum("unk,nk->un", expected, self.shares)
        square = np.einsum("unk,nk->un", expected**2, self.shares)
        return np.asarray(np.sqrt(np.maximum(square - mean**2, 0.0)))

    def trial(
        self, users: FloatArray, means: AnyFloatArray, available: BoolArray, shown: IntArray, may_try: BoolArray
    ) -> IntArray:
        """Return the row of the item that each user is to try instead of the last one shown, (users,); -1: none.

        Args:
            users: means of the users' vectors, (users, d).
            means: expected rewards of all items, (users, items).
            available: what may be shown, (users, items).
            shown: rows of the items that would be shown, best first, (users, k).
            may_try: whose budget allows a trial, (users,).
        """
        result = np.full(len(users), -1, dtype=np.int64)
        chosen = np.flatnonzero(may_try)
        if not len(chosen) or not (self.trials < self.exposure.most).any():
            return result
        instead = means[chosen, shown[chosen, -1]]
        promise = means[np.ix_(chosen, self.rows)] + self.exposure.optimism * self.uncertainty(users[chosen])
        promise[~available[np.ix_(chosen, self.rows)]] = -np.inf
        for number, user in enumerate(chosen.tolist()):
            own = np.where(
                (self.trials < self.exposure.most) & ~np.isin(self.rows, shown[user]), promise[number], -np.inf
            )
            item = int(own.argmax())
            if own[item] >= instead[number]:
                result[user] = self.rows[item]
                self.trials[item] += 1
        return result
