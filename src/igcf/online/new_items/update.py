"""The items that were added to a model, as one immutable snapshot: their evidence, posteriors and rows."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b

import numpy as np

from igcf.arrays import AnyFloatArray, BoolArray, Float32Array, FloatArray, IntArray
from igcf.item import Item
from igcf.model import Model
from igcf.model.channel import activations, expectation
from igcf.model.content import ItemPriors
from igcf.model.new_items import ItemEvidence, SettledItem, UserEvidence, expected_noise
from igcf.online.new_items.posterior import ItemLearning, ItemPosterior

LARGEST_NUMBER = 2**64
UNKNOWN_WEIGHT = 0.25  # weight of the reaction of a user about whom nothing else is known
PROMOTED_FROM = 10
"""An item is settled for good when about this many times as many users have reacted to it as are counted."""


@dataclass(frozen=True, eq=False)
class NewItems:
    """The added items of a model. Learning yields another snapshot; a row moves with the evidence about its item."""

    model: Model  # the model; its rows of these items are the means of their posteriors
    learning: ItemLearning
    priors: ItemPriors  # beliefs about the items from their descriptions alone
    shares: FloatArray  # posterior probability of each class, (new items, classes)
    class_vectors: tuple[Float32Array, ...]
    """Posterior mean of the vector in each class, (new items, classes, width) per scored channel."""
    most: int  # users that count, per item
    versions: IntArray  # number of the update that last moved each item, (new items,)
    version: int = 0

    @classmethod
    def from_model(cls, model: Model, most: int) -> "NewItems":
        """Build the snapshot of a model with added items, which may come with evidence."""
        learning = ItemLearning(model.trained)
        priors = learning.content.of([model.catalogue.item(row) for row in model.added.tolist()])
        vectors = tuple(priors.means[number].astype(np.float32) for number in model.scored)
        versions = np.zeros(len(model.added), dtype=np.int64)
        start = cls(model, learning, priors, priors.shares.copy(), vectors, most, versions)
        known = [place for place, each in enumerate(model.evidence) if each.contributions or each.settled is not None]
        return start._moved(model.evidence, known) if known else start

    @property
    def rows(self) -> IntArray:
        """Rows of the items, which are the last ones of the model."""
        return self.model.added

    @property
    def evidence(self) -> tuple[ItemEvidence, ...]:
        """Evidence about each item."""
        return self.model.evidence

    def __contains__(self, row: int) -> bool:
        return self.model.n_trained <= row < self.model.n_items

    def place(self, row: int) -> int:
        """Return the number of a new item among all of them."""
        return row - self.model.n_trained

    @cached_property
    def n_reactions(self) -> IntArray:
        """Number of users with a reaction that counts to each item, (new items,)."""
        counts = [self.most if each.settled is not None else len(each.contributions) for each in self.evidence]
        return np.array(counts, dtype=np.int64)

    @cached_property
    def unsettled(self) -> BoolArray:
        """Which of all items are new and have had fewer reactions than count, (items,)."""
        return np.concatenate([np.zeros(self.model.n_trained, dtype=np.bool_), self.n_reactions < self.most])

    def is_settled(self, row: int) -> bool:
        """Whether as many users as count have reacted to an item."""
        return not self.unsettled[row]

    def updated(self, evidence: Sequence[ItemEvidence]) -> "NewItems":
        """Return the items after more evidence; only those with another evidence object are computed."""
        pairs = enumerate(zip(self.evidence, evidence, strict=True))
        changed = [place for place, (old, new) in pairs if old is not new]
        return self._moved(evidence, changed) if changed else self

    def extended(self, model: Model) -> "NewItems":
        """Return the items of a model that further items have joined; `model` has the rows of these."""
        n = len(self.evidence)
        start = NewItems.from_model(model, self.most)
        shares, versions = start.shares.copy(), np.full(len(model.added), self.version + 1)
        vectors = tuple(each.copy() for each in start.class_vectors)
        shares[:n], versions[:n] = self.shares, self.versions
        for own, old in zip(vectors, self.class_vectors, strict=True):
            own[:n] = old
        return replace(start, shares=shares, class_vectors=vectors, versions=versions, version=self.version + 1)

    def described(self, items: Mapping[int, Item]) -> "NewItems":
        """Return the items with other descriptions at some rows, from which their priors follow."""
        own = {row: item for row, item in items.items() if row in self}
        model = self.model.with_catalogue(self.model.catalogue.changed(items))
        if not own:
            return replace(self, model=model)
        found = self.learning.content.of(list(own.values()))
        places = [self.place(row) for row in own]
        priors = ItemPriors(self.priors.shares.copy(), tuple(each.copy() for each in self.priors.means))
        priors.shares[places] = found.shares
        for mine, other in zip(priors.means, found.means, strict=True):
            mine[places] = other
        changed = [
            place
            for place in places
            if (priors.shares[place] != self.priors.shares[place]).any()
            or any((a[place] != b[place]).any() for a, b in zip(priors.means, self.priors.means, strict=True))
        ]
        result = replace(self, model=model, priors=priors)
        return result._moved(model.evidence, changed) if changed else result

    def posterior(self, place: int, evidence: ItemEvidence) -> ItemPosterior:
        """Return the belief about one item given some evidence."""
        if evidence.settled is not None:
            means = tuple(each.astype(np.float64) for each in evidence.settled.means)
            return ItemPosterior(evidence.settled.shares, means)
        own = [evidence.contributions[number] for number in sorted(evidence.contributions)]
        return self.learning.posterior(self.priors, place, own)

    def _moved(self, evidence: Sequence[ItemEvidence], places: Sequence[int]) -> "NewItems":
        """Return the items with other evidence at some places; final evidence becomes a settled posterior."""
        kept, model, content = list(evidence), self.model, self.learning.content
        shares, vectors = self.shares.copy(), tuple(each.copy() for each in self.class_vectors)
        found = []
        for place in places:
            own = self.posterior(place, kept[place])
            if kept[place].settled is None and is_final(kept[place], self.most):
                kept[place] = ItemEvidence(settled=SettledItem(own.shares, own.means, kept[place].counts))
            shares[place] = own.shares
            for mine, number in zip(vectors, model.scored, strict=True):
                mine[place] = own.means[number]
            found.append(own)
        all_shares = np.stack([own.shares for own in found])
        beliefs = ItemPriors(
            all_shares, tuple(np.stack([own.means[n] for own in found]) for n in range(len(model.channels)))
        )
        channels = []
        for number, channel in enumerate(model.channels):
            noise = expected_noise(content, number, beliefs, channel, model.prior_mean, model.prior_cov)
            rows = beliefs.vectors(number).astype(np.float32)
            channels.append(replace(channel, vectors=rows, noise_var=noise))
        versions, version = self.versions.copy(), self.version + 1
        versions[list(places)] = version
        model = model.with_rows(model.added[list(places)], channels, kept)
        return replace(self, model=model, shares=shares, class_vectors=vectors, versions=versions, version=version)

    def moved_since(self, version: int) -> IntArray:
        """Return the rows of the items that moved after the update of this number."""
        return self.rows[self.versions > version]

    def uncertainty(self, users: FloatArray, places: IntArray | slice = slice(None)) -> AnyFloatArray:
        """Return the standard deviation of expected rewards that is due to the items' classes, (users, new items)."""
        shares = self.shares[places]
        expected = class_expectations(self.model, [every[places] for every in self.class_vectors], users)
        mean = np.einsum("unk,nk->un", expected, shares)
        square = np.einsum("unk,nk->un", expected**2, shares)
        return np.asarray(np.sqrt(np.maximum(square - mean**2, 0.0)))

    def uncertainty_at(self, user: FloatArray, rows: IntArray) -> FloatArray:
        """Return the standard deviation that is due to the items themselves, (rows,); 0 for all other items."""
        result = np.zeros(len(rows))
        new = np.flatnonzero(rows >= self.model.n_trained)
        if len(new):
            result[new] = self.uncertainty(user[None], rows[new] - self.model.n_trained)[0]
        return result


def class_expectations(model: Model, class_vectors: Sequence[AnyFloatArray], users: FloatArray) -> AnyFloatArray:
    """Return the expected rewards of items for users if the items belong to each class, (users, items, classes)."""
    z = {}
    for own, number in zip(class_vectors, model.scored, strict=True):
        mean = users[:, model.channels[number].span].astype(np.float32)
        z[number] = (mean @ own.reshape(-1, own.shape[2]).T).reshape(len(users), *own.shape[:2])
    return expectation(model.terms, activations(model.channels, z))


def user_number(user: Hashable, item_id: str) -> int:
    """Return the number drawn for a user's reaction to an item: a hash of both, uniform from 0 to 2^64."""
    return int.from_bytes(blake2b(f"{user!r}\0{item_id}".encode(), digest_size=8).digest())


def weight_of(n_known: int, n_full: int) -> float:
    """Return the weight of a reaction of a user with so many others; from `n_full` others on it is 1."""
    share = 1.0 if n_known >= n_full else n_known / n_full
    return UNKNOWN_WEIGHT + (1.0 - UNKNOWN_WEIGHT) * share


def with_contribution(
    evidence: ItemEvidence, number: int, contribution: UserEvidence | None, most: int
) -> ItemEvidence:
    """Return the evidence after the reaction of the user with this number, instead of any before; None takes it back.

    At most `most` users count, those with the smallest numbers: a fair draw that does not depend on who came first.
    """
    if evidence.settled is not None or (contribution is None and number not in evidence.contributions):
        return evidence
    own = {key: value for key, value in evidence.contributions.items() if key != number}
    if contribution is not None:
        own[number] = contribution
    if len(own) > most:
        del own[max(own)]
        if number not in own:
            return evidence
    return replace(evidence, contributions=own)


def is_final(evidence: ItemEvidence, most: int) -> bool:
    """Whether so many users have reacted to the item that further ones would hardly change the draw.

    The largest of the `most` smallest numbers says how many were drawn: with n users it is about most / n.
    """
    own = evidence.contributions
    return len(own) >= most and max(own) < LARGEST_NUMBER // PROMOTED_FROM
