"""Items that join a trained model, and what users' reactions say about them (docs/maths.md, section New items)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from igcf.arrays import AnyFloatArray, FloatArray
from igcf.errors import ModelError
from igcf.item import Item, parse_items
from igcf.model.channel import Channel
from igcf.model.content import ContentPrior, ItemPriors

if TYPE_CHECKING:
    from igcf.model.model import Model

PREFIX = "evidence_"
"""Prefix of the names of these arrays in a model folder."""
COLUMNS = ("user", "spreads", "rewards", "weight", "is_success")


@dataclass(frozen=True, eq=False)
class UserEvidence:
    """What one user's reaction says about an item: all that the item's posterior needs of it."""

    user: FloatArray
    """Mean of the user's vector before the reaction, (d,)."""
    spreads: FloatArray
    """Variance of z that is due to the uncertainty about the user, (channels, classes)."""
    rewards: FloatArray
    """Reward of the reaction in each channel, (channels,); NaN where it says nothing."""
    weight: float = 1.0
    """Weight of the reaction beside others, in (0, 1]."""
    is_success: bool = True


@dataclass(frozen=True, eq=False)
class SettledItem:
    """The final posterior of an item that is learned no further: a mixture over classes of items."""

    shares: FloatArray
    """Probability of each class, (classes,)."""
    means: tuple[AnyFloatArray, ...]
    """Mean of the item's vector in each class, (classes, width) per channel."""
    counts: tuple[int, int]
    """Number of users who reacted, and of those whom the item satisfied."""


@dataclass(frozen=True, eq=False)
class ItemEvidence:
    """Evidence about one item: one contribution per user, or the final posterior once the item is settled."""

    contributions: Mapping[int, UserEvidence] = field(default_factory=dict)
    """By the number drawn for the user, in order of arrival."""
    settled: SettledItem | None = None

    @property
    def counts(self) -> tuple[int, int]:
        """Number of users with a reaction that counts, and of satisfied ones."""
        if self.settled is not None:
            return self.settled.counts
        return len(self.contributions), sum(each.is_success for each in self.contributions.values())


def evidence_arrays(evidence: Sequence[ItemEvidence]) -> dict[str, npt.NDArray[Any]]:
    """Return the evidence of all added items as arrays, by their names in a model folder."""
    pairs = [pair for each in evidence for pair in each.contributions.items()]
    settled = [(place, each.settled) for place, each in enumerate(evidence) if each.settled is not None]
    arrays: dict[str, npt.NDArray[Any]] = {"counts": np.array([len(each.contributions) for each in evidence])}
    if pairs:
        arrays["numbers"] = np.array([number for number, _ in pairs], dtype=np.uint64)
        arrays |= {name: np.array([getattr(each, name) for _, each in pairs]) for name in COLUMNS}
    if settled:
        arrays["settled"] = np.array([place for place, _ in settled])
        arrays["shares"] = np.array([each.shares for _, each in settled])
        arrays["settled_counts"] = np.array([each.counts for _, each in settled])
        for number in range(len(settled[0][1].means)):
            arrays[f"means_{number}"] = np.array([each.means[number] for _, each in settled])
    return {f"{PREFIX}{name}": array for name, array in arrays.items()}


def evidence_from_arrays(arrays: Mapping[str, npt.NDArray[Any]], n_channels: int) -> tuple[ItemEvidence, ...]:
    """Build the evidence from the arrays of a model folder; empty if the folder has no such arrays."""
    own = {name.removeprefix(PREFIX): array for name, array in arrays.items() if name.startswith(PREFIX)}
    if "counts" not in own:
        return ()
    numbers, ends = own.get("numbers", np.zeros(0, dtype=np.uint64)), np.cumsum(own["counts"])
    if len(ends) and ends[-1] != len(numbers):
        raise ModelError(f"the evidence about added items has {len(numbers)} entries, not {ends[-1]}")
    if len(numbers) and not all(np.isfinite(own[name]).all() for name in COLUMNS[:2]):
        raise ModelError("the evidence about added items holds NaN or infinite numbers; restore the model")
    columns = [own[name] for name in COLUMNS] if len(numbers) else [numbers] * len(COLUMNS)
    rows = zip(*columns, strict=True)
    users = [UserEvidence(user, spreads, rewards, float(w), bool(good)) for user, spreads, rewards, w, good in rows]
    settled = {}
    for i, place in enumerate(own.get("settled", ())):
        n_users, n_satisfied = map(int, own["settled_counts"][i])
        means = tuple(own[f"means_{n}"][i] for n in range(n_channels))
        settled[int(place)] = SettledItem(own["shares"][i], means, (n_users, n_satisfied))
    pairs = list(zip(numbers.tolist(), users, strict=True))
    spans = zip(ends.tolist(), own["counts"].tolist(), strict=True)
    return tuple(
        ItemEvidence(dict(pairs[end - count : end]), settled.get(place)) for place, (end, count) in enumerate(spans)
    )


def with_items(model: "Model", items: Iterable[Item | Mapping[str, Any]]) -> "Model":
    """Return a model that also has new items, after those it has; all are added or none."""
    new = parse_items(items)
    for item in new:
        if model.known_row(item.id) is not None:
            raise ModelError(f"item {item.id!r} is in this model already; change its description instead of adding it")
    if not new:
        return model
    if model.content is None:
        raise ModelError("this model was trained without a content prior, which new items need; run `igcf pretrain`")
    priors = model.content.of(new)
    channels = []
    for number, channel in enumerate(model.channels):
        noise = expected_noise(model.content, number, priors, channel, model.prior_mean, model.prior_cov)
        vectors = np.vstack([channel.vectors, priors.vectors(number).astype(np.float32)])
        channels.append(replace(channel, vectors=vectors, noise_var=np.concatenate([channel.noise_var, noise])))
    catalogue, n_new = model.catalogue.appended(new), len(new)
    longer = model.changed(
        channels=channels,
        item_variances=np.pad(model.item_variances, ((0, n_new), (0, 0))),
        item_ids=catalogue.item_ids,
        titles=catalogue.titles,
        categories=catalogue.categories,
        reactions=None if model.reactions is None else np.pad(model.reactions, ((0, n_new), (0, 0))),
        attributes=catalogue.attributes,
        added=np.arange(model.n_trained, model.n_items + n_new),
        evidence=(*model.evidence, *(ItemEvidence(),) * n_new),
    )
    longer.__dict__["trained"] = model.trained
    return longer


def expected_noise(
    content: ContentPrior, number: int, priors: ItemPriors, channel: Channel, mean: FloatArray, cov: FloatArray
) -> FloatArray:
    """Return the noise of reactions to new items as evidence about a user, (items,): also that of the items' vectors.

    For a user of the population N(m, S) the vector's covariance Q adds tr(Q (S + m m')) to the variance of a reward;
    a logit channel's evidence is divided by 1 + pi / 8 times that.
    """
    second = (cov + np.outer(mean, mean))[channel.span, channel.span]
    own = np.asarray(priors.shares @ (content.noise[number] * content.temperature))
    within = priors.shares @ (content.covs[number] * second).sum(axis=(1, 2))
    centred = priors.means[number] - priors.vectors(number)[:, None]
    between = (priors.shares * ((centred @ second) * centred).sum(axis=2)).sum(axis=1)
    spread = within + between
    return np.asarray(own + spread if channel.link == "identity" else own * (1.0 + np.pi / 8.0 * spread))
