"""New items while they are learned: what all users together told of them, and who tries them next."""

from collections.abc import Callable, Hashable, Iterable
from copy import copy
from dataclasses import replace
from threading import RLock

import numpy as np

from igcf.arrays import AnyFloatArray, BoolArray, Float32Array, FloatArray, IntArray
from igcf.model import Model
from igcf.model.adding import expected_noise
from igcf.model.content import ItemPriors
from igcf.online.belief import Belief
from igcf.online.exposure import Exposure
from igcf.online.new_items.posterior import ItemLearning, ItemPosterior, Told
from igcf.online.new_items.trials import Known, Trials, class_expectations
from igcf.online.shared_items import Answers


class NewItems:
    """The items that were added to a model, shared by all users who are met.

    `model` is a copy of its own, whose rows of these items move with every reaction to them; all other rows are those
    of the model that was given. Reactions are kept by key, so that one can be taken back. A posterior is computed when
    somebody asks for the items, from all reactions that came until then.
    """

    def __init__(self, model: Model, exposure: Exposure | None = None) -> None:
        self.exposure = Exposure() if exposure is None else exposure
        self._model = copy(model)
        self._model.channels = tuple(
            replace(each, vectors=each.vectors.copy(), noise_var=each.noise_var.copy()) for each in model.channels
        )
        if model.is_linear:
            self._model.item_vectors = self._model.channels[0].vectors
        self._learning = ItemLearning(model)
        self.rows: IntArray = model.added
        self._place = {int(row): place for place, row in enumerate(self.rows)}
        self._is_unsettled: BoolArray = np.zeros(model.n_items, dtype=np.bool_)
        self._is_unsettled[self.rows] = True
        self.priors: ItemPriors = self._learning.content.of([model.catalogue.item(int(row)) for row in self.rows])
        self._shares: FloatArray = self.priors.shares.copy()
        self._class_vectors: tuple[Float32Array, ...] = tuple(self.priors.means[n].copy() for n in model.scored)
        self._told: list[dict[Hashable, Told]] = [{} for _ in self.rows]
        self._trials = Trials(self._model, self._class_vectors, self.exposure)
        self._version = 0
        self._stale: set[int] = set()
        self._changed_at: IntArray = np.zeros(len(self.rows), dtype=np.int64)
        self._lock = RLock()
        self.on_move: Callable[[IntArray], None] | None = None
        """Called with the rows of items whose vectors have moved."""

    @property
    def trials(self) -> IntArray:
        """Number of trials of each item, (new items,)."""
        return self._trials.counts

    def may_try(self, n_tried: int, n_shown: int, n_known: int) -> bool:
        """Whether a user may be asked to try something, after so many trials, items shown, and reactions."""
        return n_tried + 1 <= self.exposure.share * n_shown and n_known >= self.exposure.known

    def __contains__(self, row: int) -> bool:
        return row in self._place

    @property
    def model(self) -> Model:
        """The model with these items as they are known now."""
        self._update()
        return self._model

    @property
    def version(self) -> int:
        """A number that grows whenever a vector moves."""
        self._update()
        return self._version

    @property
    def shares(self) -> FloatArray:
        """Probability of each class, (new items, classes)."""
        self._update()
        return self._shares

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
        self.tell(key, row, self.contribution(row, belief, value))

    def contribution(self, row: int, belief: Belief, value: float) -> Told:
        """Return what a reaction tells of an item: it may be stored, and told wherever the same model is in use."""
        return self._learning.contribution(self.priors, self._place[row], belief, value)

    def told_from(self, stored: bytes) -> Told:
        """Return what `Told.to_bytes` stored."""
        return self._learning.told_from(stored)

    def tell(self, key: Hashable, row: int, told: Told) -> None:
        """Learn an item from what a reaction told of it, here or elsewhere; the same key counts once."""
        with self._lock:
            place = self._place[row]
            if self.is_settled(row) and key not in self._told[place]:
                return
            if key not in self._told[place] and not np.isnan(told.rewards[0]):
                self._trials.account.note_new(float(told.rewards[0]))
            self._told[place][key] = told
            self._is_unsettled[row] = not self.is_settled(row)
            self._stale.add(place)

    def account(self, expected: float, value: float) -> None:
        """Note what was expected of a known item, and the reaction to it: the price of trials is counted in rewards."""
        reward = self._model.reward.of_one(value)
        if not np.isnan(reward):
            with self._lock:
                self._trials.account.note_known(expected, reward)

    def retract(self, keys: Iterable[Hashable]) -> None:
        """Take reactions back, of any item, as if they had never been."""
        gone = set(keys)
        with self._lock:
            for place, told in enumerate(self._told):
                for key in gone & told.keys():
                    del told[key]
                    self._is_unsettled[self.rows[place]] = True
                    self._stale.add(place)

    def posterior(self, row: int) -> ItemPosterior:
        """Return what is believed of an item, with covariances."""
        place = self._place[row]
        return self._learning.posterior(self.priors, place, self._in_order(place), with_cov=True)

    def limited(self, most: int) -> "NewItems":
        """Return the same items as they were known after the first `most` reactions to each."""
        other = NewItems(self._model, self.exposure)
        for place, told in enumerate(self._told):
            other._told[place] = dict(list(told.items())[:most])
        other._stale.update(range(len(other.rows)))
        return other

    def joined(self, model: Model) -> "NewItems":
        """Return these items with what is known of them, and those that were added to the model since."""
        other = NewItems(model, self.exposure)
        n = len(self.rows)
        other._told[:n] = [dict(told) for told in self._told]
        other._shares[:n], other._changed_at[:n] = self.shares, self._changed_at
        other._is_unsettled[self.rows] = self._is_unsettled[self.rows]
        for vectors, old in zip(other._class_vectors, self._class_vectors, strict=True):
            vectors[:n] = old
        for new, own in zip(other._model.channels, self._model.channels, strict=True):
            new.vectors[self.rows], new.noise_var[self.rows] = own.vectors[self.rows], own.noise_var[self.rows]
        other._trials.go_on_from(self._trials)
        other._version = self._version
        return other

    def _in_order(self, place: int) -> list[Told]:
        """What was told of an item in an order that does not depend on who came first."""
        told = self._told[place]
        return [told[key] for key in sorted(told, key=repr)]

    def _update(self) -> None:
        """Compute the posteriors of the items that somebody reacted to since."""
        if self._stale:
            with self._lock:
                stale, self._stale = sorted(self._stale), set()
                for place in stale:
                    self._refresh(place)
                if self.on_move is not None:
                    self.on_move(self.rows[stale])

    def _refresh(self, place: int) -> None:
        """Compute the posterior of an item from all that was told of it, and move its rows there."""
        found = self._learning.posterior(self.priors, place, self._in_order(place))
        self._shares[place] = found.shares
        model, row = self._model, int(self.rows[place])
        for own, number in zip(self._class_vectors, model.scored, strict=True):
            own[place] = found.means[number]
        one = ItemPriors(found.shares[None], tuple(each[None] for each in found.means))
        for number, channel in enumerate(model.channels):
            channel.vectors[row] = found.vector(number)
            content = self._learning.content
            channel.noise_var[row] = expected_noise(content, number, one, channel, model.prior_mean, model.prior_cov)[0]
        self._version += 1
        self._changed_at[place] = self._version

    def changed_since(self, version: int) -> IntArray:
        """Return the rows of the items that moved after `version`."""
        self._update()
        return self.rows[self._changed_at > version]

    def uncertainty_at(self, user: FloatArray, rows: IntArray) -> FloatArray:
        """Return the standard deviation that is due to the items themselves, (rows,); 0 for all other items."""
        places = [self._place.get(row, -1) for row in rows.tolist()]
        result = np.zeros(len(places))
        new = np.array([number for number, place in enumerate(places) if place >= 0], dtype=np.int64)
        if len(new):
            result[new] = self.uncertainty(user[None], np.array(places)[new])[0]
        return result

    def uncertainty(self, users: FloatArray, places: IntArray | slice = slice(None)) -> AnyFloatArray:
        """Return the standard deviation of expected rewards that is due to the items' classes, (users, new items)."""
        model, shares = self.model, self.shares[places]
        expected = class_expectations(model, [every[places] for every in self._class_vectors], users)
        mean = np.einsum("unk,nk->un", expected, shares)
        square = np.einsum("unk,nk->un", expected**2, shares)
        return np.asarray(np.sqrt(np.maximum(square - mean**2, 0.0)))

    def choose(self, answers: Answers) -> IntArray:
        """Return what is shown: the answers, whose last items may give way to trials of new ones, (users, k)."""
        self._update()
        with self._lock:
            known = Known(self.rows, self._is_unsettled, self._shares, self._class_vectors, self.n_reactions)
            return self._trials.choose(answers, known)
