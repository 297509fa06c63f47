"""The artifact: what pretraining learned and everything that the online phase needs."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from inspect import signature
from pathlib import Path
from types import EllipsisType
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from igcf.arrays import Float32Array, FloatArray, IntArray
from igcf.attributes import Attributes
from igcf.config import Objective
from igcf.errors import ModelError, UnknownItemError
from igcf.item import Item
from igcf.model.attribute_prior import AttributePrior
from igcf.model.catalogue import Catalogue
from igcf.model.channel import Channel, Term, activations, expectation, linearised
from igcf.model.checks import check_blocks, check_numbers, check_shapes, checked_kinds
from igcf.model.content import ContentPrior
from igcf.model.new_items import ItemEvidence
from igcf.model.reward import Reward, reaction_value
from igcf.model.usage import Calibration, PolicyChoice, Usage
from igcf.tables import html_card

T = TypeVar("T")
UNIT_REWARD = Reward("raw", threshold=0.5, low=0.0, high=1.0)


class Model:
    """Item vectors, the population of users, and how values become rewards; immutable.

    Most models are linear: one vector per item, the expected reward is its product with the user's vector. A model may
    instead be built from several `channels`, numbers that every reaction reveals, and `terms` that say how the expected
    reward follows from them; `item_vectors` is then its linearisation at the population's mean.

    Example:
        Training makes models; one for an experiment can be made by hand.

        >>> import igcf
        >>> model = igcf.Model(
        ...     item_ids=["tea", "coffee", "juice"],
        ...     item_vectors=[[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]],
        ...     prior_mean=[0.6, 0.4],
        ...     prior_cov=[[1.0, 0.0], [0.0, 1.0]],
        ...     noise_var=0.1,
        ... )
        >>> model.n_items, model.dim
        (3, 2)
    """

    population: "Model | None" = None
    """The model with the population's prior, where this one has that of one user; None: this is it."""

    def __init__(
        self,
        *,
        item_ids: Sequence[str],
        prior_mean: npt.ArrayLike,
        prior_cov: npt.ArrayLike,
        item_vectors: npt.ArrayLike | None = None,
        noise_var: float | npt.ArrayLike | None = None,
        item_variances: npt.ArrayLike | None = None,
        reward: Reward = UNIT_REWARD,
        channels: Sequence[Channel] = (),
        terms: Sequence[Term] = (),
        kinds: Mapping[str, float] | None = None,
        titles: Sequence[str] | None = None,
        categories: Sequence[Sequence[str]] | None = None,
        metadata: Mapping[str, Any] | None = None,
        low_pass: npt.ArrayLike | None = None,
        appeared: npt.ArrayLike | None = None,
        reactions: npt.ArrayLike | None = None,
        usage: Usage | None = None,
        attributes: Attributes | None = None,
        content: ContentPrior | None = None,
        added: npt.ArrayLike = (),
        evidence: Sequence[ItemEvidence] = (),
        attribute_prior: AttributePrior | None = None,
        context_effect: AttributePrior | None = None,
    ) -> None:
        """Check that all parts fit together.

        Args:
            item_ids: ids, one per item.
            prior_mean: mean of the users' vectors in the population, (d,).
            prior_cov: their covariance, (d, d); may be singular.
            item_vectors: (items, d); leave it out when `channels` are given.
            noise_var: variance of a reward around its expectation, one number or one per item; with `item_vectors`.
            item_variances: how uncertain the item vectors themselves are, (items, d); zero by default.
            reward: what the model predicts.
            channels: what a reaction reveals, instead of `item_vectors` and `noise_var`.
            terms: how the expected reward follows from the channels; by default it is that of the first one.
            kinds: values of the kinds of feedback (view, like, purchase ...), where there are several.
            titles: titles, one per item.
            categories: the genres or tags of each item.
            metadata: how the model came about; plain JSON values.
            low_pass: leading directions of the log's graph times the root of their weight, (items of the log, rank).
            appeared: time of the first reaction to each item of the log, (items of the log,), in the units of the log.
            reactions: number of reactions to each item in the log, and of those that satisfied, (items, 2).
            usage: objective, policy and calibration; without it those of the paper.
            attributes: what else is known of the items: tags, numbers, texts, when they may be shown.
            content: what the vectors of further items are likely to be; `with_items` needs it.
            added: rows of the items that joined after training; they follow those of the log.
            evidence: what users' reactions say about each added item; empty: nothing yet.
            attribute_prior: what attributes of users say about their vectors; None: nothing.
            context_effect: how the context of a request moves a user's vector for that request; None: not at all.
        """
        if (item_vectors is None) == (not channels) or (item_vectors is None) != (noise_var is None):
            raise ModelError("a model needs either item_vectors and noise_var, or channels")
        self.item_ids = tuple(str(item_id) for item_id in item_ids)
        self.prior_mean: FloatArray = np.array(prior_mean, dtype=np.float64, order="C")
        self.prior_cov: FloatArray = np.array(prior_cov, dtype=np.float64, order="C")
        self.reward = reward
        self.kinds: dict[str, float] = checked_kinds(kinds or {})
        self.titles = None if titles is None else tuple(titles)
        self.categories = None if categories is None else tuple(tuple(each) for each in categories)
        self.metadata: dict[str, Any] = dict(metadata or {})
        self.low_pass: Float32Array | None = None if low_pass is None else np.asarray(low_pass, dtype=np.float32)
        self.appeared: IntArray | None = None if appeared is None else np.asarray(appeared, dtype=np.int64)
        self.reactions: IntArray | None = None if reactions is None else np.asarray(reactions, dtype=np.int64)
        self.usage = Usage() if usage is None else usage
        self.attributes = attributes
        self.content = content
        self.attribute_prior = attribute_prior
        self.context_effect = context_effect
        self.added: IntArray = np.array(added, dtype=np.int64)
        self.evidence = tuple(evidence) or (ItemEvidence(),) * len(self.added)
        if item_vectors is not None:
            vectors = np.ascontiguousarray(item_vectors, dtype=np.float32)
            noise = np.array(noise_var, dtype=np.float64)
            channels = [Channel(vectors, noise if noise.ndim else np.full(len(vectors), float(noise)), reward)]
        self.channels = tuple(channel.contiguous() for channel in channels)
        self.terms = tuple(terms) or (Term(1.0, (0,)),)
        check_shapes(self)
        check_blocks(self)
        self.item_variances: Float32Array = (
            np.zeros((self.n_items, self.dim), dtype=np.float32)
            if item_variances is None
            else np.ascontiguousarray(item_variances, dtype=np.float32)
        )
        check_numbers(self)
        self._computed: dict[Hashable, Any] = {}

    @cached_property
    def item_vectors(self) -> Float32Array:
        """One vector per item, (items, d): of a model with several channels, its linearisation at the prior mean."""
        if self.is_linear:
            return self.channels[0].vectors
        return linearised(self.channels, self.terms, self.prior_mean)

    def computed(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return `compute(model)`, cached under `key` for the lifetime of the model."""
        if key not in self._computed:
            self._computed[key] = compute()
        return cast("T", self._computed[key])

    @property
    def objective(self) -> Objective:
        """What the ranking maximises: `hit` (seen and liked) or `liking` (liked, if seen)."""
        return self.usage.objective

    @property
    def policy(self) -> PolicyChoice:
        """The default policy, by name and nu."""
        return self.usage.policy

    @property
    def calibration(self) -> Calibration:
        """Parameters of the calibration of chances."""
        return self.usage.calibration

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.item_ids)

    @property
    def dim(self) -> int:
        """Size d of the user's vector."""
        return len(self.prior_mean)

    @property
    def n_trained(self) -> int:
        """Number of items of the training log; the others were added later."""
        return self.n_items - len(self.added)

    @cached_property
    def trained(self) -> "Model":
        """This model without the added items; arrays are shared."""
        if not len(self.added):
            return self
        n = self.n_trained
        return self.changed(
            channels=[replace(each, vectors=each.vectors[:n], noise_var=each.noise_var[:n]) for each in self.channels],
            item_variances=self.item_variances[:n],
            reactions=None if self.reactions is None else self.reactions[:n],
            item_ids=self.item_ids[:n],
            titles=self.titles and self.titles[:n],
            categories=self.categories and self.categories[:n],
            attributes=self.attributes and self.attributes.taken(range(n)),
            added=(),
            evidence=(),
        )

    @property
    def item_noise(self) -> FloatArray:
        """The noise variance of each item, (items,)."""
        return self.channels[0].noise_var

    @cached_property
    def noise_var(self) -> float | FloatArray:
        """The noise variance: a number where it is the same for every item, otherwise one per item."""
        noise = self.item_noise
        return float(noise[0]) if (noise == noise[0]).all() else noise

    @cached_property
    def is_linear(self) -> bool:
        """Whether the expected reward is one linear function of the user's vector."""
        whole = self.channels[0].vectors.shape[1:] == self.prior_mean.shape
        return whole and self.terms == (Term(1.0, (0,)),) and self.has_identity_links

    @cached_property
    def has_identity_links(self) -> bool:
        """Whether all channels are linear: the belief is then exact and does not depend on the order of reactions."""
        return all(channel.link == "identity" for channel in self.channels)

    @cached_property
    def blocks(self) -> tuple[tuple[slice, tuple[int, ...]], ...]:
        """The parts of the user's vector that are learned apart from each other, and the channels of each."""
        starts = sorted({channel.start for channel in self.channels})
        numbers = [tuple(n for n, channel in enumerate(self.channels) if channel.start == start) for start in starts]
        return tuple((self.channels[own[0]].span, own) for own in numbers)

    @cached_property
    def catalogue(self) -> Catalogue:
        """The items as the model describes them."""
        return Catalogue(self.item_ids, self.titles, self.categories, self.attributes)

    @cached_property
    def row_of(self) -> dict[str, int]:
        """The row of each item by its id; not to be written to."""
        return {item_id: row for row, item_id in enumerate(self.item_ids)}

    def known_row(self, item_id: str) -> int | None:
        """Return the row of an item, or None."""
        return self.row_of.get(item_id)

    def item_row(self, item_id: str) -> int:
        """Return the row of an item; an unknown item is an error."""
        row = self.known_row(item_id)
        if row is None:
            raise UnknownItemError(
                f"item {item_id!r} is not in this model ({self.n_items} items, for instance {self.item_ids[0]!r})"
            )
        return row

    def item_rows(self, item_ids: Iterable[str]) -> list[int]:
        """Return the rows of some items; an unknown item is an error."""
        ids = list(item_ids)
        try:
            return list(map(self.row_of.__getitem__, ids))
        except KeyError:
            return [self.item_row(item_id) for item_id in ids]

    def title(self, item_id: str) -> str:
        """Return the title of an item; its id if it has no title."""
        return self.titles[self.item_row(item_id)] if self.titles else item_id

    def reaction_value(self, value: "float | EllipsisType | None" = ..., kind: str | None = None) -> float:
        """Return the value that the belief learns from; an invalid one is an error. NaN: shown without a reaction.

        A reaction has a value or a kind; if every reaction of the log counts alike it needs neither.
        """
        return reaction_value(self.reward, self.kinds, value, kind)

    def expected(self, user: FloatArray) -> FloatArray:
        """Return the expected reward of every item for user vectors (..., d), (..., items)."""
        z = {n: user[..., self.channels[n].span] @ self.channels[n].vectors.T for n in self.scored}
        return expectation(self.terms, activations(self.channels, z))

    def expected_of(self, user: FloatArray, row: int) -> float:
        """Return the expected reward of one item for one user vector (d,)."""
        z = {n: np.asarray(user[self.channels[n].span] @ self.channels[n].vectors[row]) for n in self.scored}
        return float(expectation(self.terms, activations(self.channels, z)))

    @cached_property
    def scored(self) -> tuple[int, ...]:
        """The channels that the expected reward depends on."""
        return tuple(sorted({number for term in self.terms for number in term.channels}))

    def with_prior(self, mean: FloatArray, cov: FloatArray, noise_var: float | None = None) -> "Model":
        """Return a model of the same items with another prior and, for a linear model, with another noise."""
        channels = self.channels
        if noise_var is not None:
            channels = (replace(channels[0], noise_var=np.full(self.n_items, float(noise_var))), *channels[1:])
        return self.changed(channels=channels, prior_mean=mean, prior_cov=cov)

    def changed(self, **parts: Any) -> "Model":
        """Return a copy with some parts replaced, named as in the constructor; all are checked again."""
        names = signature(Model).parameters.keys() - {"item_vectors", "noise_var"}  # which are the first channel's
        return Model(**({name: getattr(self, name) for name in names} | parts))

    def with_catalogue(self, catalogue: Catalogue) -> "Model":
        """Return the same model with its items described as in `catalogue`."""
        own = {"titles": catalogue.titles, "categories": catalogue.categories, "attributes": catalogue.attributes}
        other = self._copied(**own)
        other.__dict__["catalogue"], other._computed = catalogue, self._computed
        return other

    def with_rows(self, rows: IntArray, channels: Sequence[Channel], evidence: Sequence[ItemEvidence]) -> "Model":
        """Return the model with other vectors and noise at the rows of some added items, and their evidence.

        `channels` hold these rows only.
        """
        moved = [replace(each, vectors=each.vectors.copy(), noise_var=each.noise_var.copy()) for each in self.channels]
        for channel, own in zip(moved, channels, strict=True):
            channel.vectors[rows], channel.noise_var[rows] = own.vectors, own.noise_var
        reactions = None if self.reactions is None else self.reactions.copy()
        if reactions is not None:
            reactions[rows] = [evidence[row - self.n_trained].counts for row in rows.tolist()]
        other = self._copied(channels=tuple(moved), evidence=tuple(evidence), reactions=reactions)
        if len(self.added):
            other.__dict__["trained"] = self.trained
        return other

    def _copied(self, **parts: Any) -> "Model":
        """Return a copy with some other parts, which are not checked; nothing computed from the old ones stays."""
        other = copy(self)
        for name in ("item_vectors", "noise_var", "trained"):
            other.__dict__.pop(name, None)
        other.__dict__ |= {"_computed": {}} | parts
        return other

    def with_items(self, items: Iterable[Item | Mapping[str, Any]]) -> "Model":
        """Return a model that also has new items, scored by their content until somebody reacts to them.

        An item is an `Item`, or a mapping with `id` and any of its fields; all are added or none.
        """
        from igcf.model.new_items import with_items

        return with_items(self, items)

    def save(self, folder: str | Path) -> None:
        """Write the model folder; it must not exist, and a failure leaves nothing behind."""
        from igcf.model.files import save_model

        save_model(self, Path(folder))

    @classmethod
    def load(cls, folder: str | Path) -> "Model":
        """Read a model folder; nothing in it is executed, and a damaged or foreign one is an error."""
        from igcf.model.files import load_model

        return load_model(Path(folder))

    def __repr__(self) -> str:
        return f"Model({self.n_items} items, dim {self.dim}, reward {self.reward.kind})"

    def _repr_html_(self) -> str:
        """Show what the model is made of in a notebook."""
        rows = {"items": f"{self.n_items:,}", "dimensions": self.dim, "reward": self.reward.kind}
        rows |= {"success from": self.reward.threshold}
        known = self.metadata.get("data", {}).items()
        rows |= {f"data: {name}": value for name, value in known if isinstance(value, str | int | float)}
        return html_card("Model", ("", ""), list(rows.items()))
