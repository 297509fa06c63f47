"""Items that join a trained model: rows with what their content says (docs/maths.md, section New items)."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from igcf.arrays import FloatArray
from igcf.errors import ModelError
from igcf.item import Item
from igcf.item_parsing import parse_items
from igcf.model.channel import Channel
from igcf.model.content import ContentPrior, ItemPriors
from igcf.model.item_evidence import ItemEvidence

if TYPE_CHECKING:
    from igcf.model.model import Model


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
    return joined(model, new, model.content.of(new))


def joined(model: "Model", new: list[Item], priors: ItemPriors) -> "Model":
    """Return the model with further items of which these priors are believed."""
    from igcf.model.model import Model

    content = model.content
    assert content is not None  # noqa: S101
    channels = []
    for number, channel in enumerate(model.channels):
        noise = expected_noise(content, number, priors, channel, model.prior_mean, model.prior_cov)
        vectors = np.vstack([channel.vectors, priors.vectors(number).astype(np.float32)])
        channels.append(replace(channel, vectors=vectors, noise_var=np.concatenate([channel.noise_var, noise])))
    catalogue, n_new = model.catalogue.appended(new), len(new)
    flat = np.zeros((n_new, model.dim), dtype=np.float32)
    longer = Model(
        channels=channels,
        terms=model.terms,
        item_variances=np.vstack([model.item_variances, flat]),
        item_ids=catalogue.item_ids,
        prior_mean=model.prior_mean,
        prior_cov=model.prior_cov,
        reward=model.reward,
        kinds=model.kinds,
        titles=catalogue.titles,
        categories=catalogue.categories,
        metadata=model.metadata,
        neighbours=model.neighbours,
        appeared=model.appeared,
        reactions=None if model.reactions is None else np.pad(model.reactions, ((0, n_new), (0, 0))),
        usage=model.usage,
        attributes=catalogue.attributes,
        content=content,
        added=np.concatenate([model.added, np.arange(model.n_items, model.n_items + n_new)]),
        evidence=(*model.evidence, *(ItemEvidence(),) * n_new),
    )
    longer.__dict__["trained"] = model.trained
    return longer


def expected_noise(
    content: ContentPrior, number: int, priors: ItemPriors, channel: Channel, mean: FloatArray, cov: FloatArray
) -> FloatArray:
    """Return the noise with which reactions to new items tell of a user, (items,): also that of the items' vectors.

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
