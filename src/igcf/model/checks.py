"""Whether the parts of a model fit together and hold usable numbers."""

from collections.abc import Iterator, Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from igcf.arrays import AnyFloatArray
from igcf.errors import ModelError

if TYPE_CHECKING:
    import numpy.typing as npt

    from igcf.model.model import Model

RESERVED_KIND = "skip"
"""Kind of feedback without evidence: the item is not shown for a while."""
LARGEST_NUMBER = 1e9
"""Products of three such numbers are still finite in single precision."""


def check_shapes(model: "Model") -> None:
    """Refuse parts of contradictory sizes, naming the part, its shape and the one expected."""
    first = model.channels[0].vectors
    n, d = len(first), model.prior_mean.size
    trained = n - len(model.added)
    shapes: dict[str, tuple[tuple[int, ...] | None, tuple[int, ...]]] = {
        "item_ids": ((len(model.item_ids),), (n,)),
        "prior_mean": (model.prior_mean.shape, (d,)),
        "prior_cov": (model.prior_cov.shape, (d, d)),
        "titles": (None if model.titles is None else (len(model.titles),), (n,)),
        "low_pass": (None if model.low_pass is None else model.low_pass.shape[:1], (trained,)),
        "appeared": (None if model.appeared is None else model.appeared.shape, (trained,)),
        "evidence": ((len(model.evidence),), (len(model.added),)),
        "reactions": (None if model.reactions is None else model.reactions.shape, (n, 2)),
        "categories": (None if model.categories is None else (len(model.categories),), (n,)),
        "attributes": (None if model.attributes is None else (model.attributes.n_items,), (n,)),
    }
    for number, channel in enumerate(model.channels):
        where = f" of channel {number}" if len(model.channels) > 1 else ""
        shape = channel.vectors.shape
        if len(shape) != 2 or 0 in shape:
            raise ModelError(f"item_vectors{where} has shape {shape}; expected (items, dim), both at least 1")
        width = shape[1]
        if len(model.channels) == 1 and width != d:
            raise ModelError(f"prior_mean has shape {(d,)}, expected {(width,)} to fit item_vectors {first.shape}")
        shapes |= {f"item_vectors{where}": (shape, (n, width)), f"noise_var{where}": (channel.noise_var.shape, (n,))}
        if not 0 <= channel.start <= d - width:
            raise ModelError(f"channel {number} reads dimensions {channel.span} of {d}; it must be within them")
    for name, (found, wanted) in shapes.items():
        if found not in (None, wanted):
            raise ModelError(f"{name} has shape {found}, expected {wanted} to fit item_vectors {first.shape}")
    if len(set(model.item_ids)) != n:
        raise ModelError(f"item_ids has {n - len(set(model.item_ids))} duplicates; every item needs an id of its own")
    _check_parts(model, d)


def _check_parts(model: "Model", d: int) -> None:
    """Refuse added items that are not the last ones, priors of another model, and terms that are not usable."""
    n = model.n_items
    if not np.array_equal(model.added, np.arange(n - len(model.added), n)):
        raise ModelError(f"added has rows {model.added.tolist()[:5]}; expected the last rows of {n} in ascending order")
    if model.content is not None:
        model.content.check([channel.vectors.shape[1] for channel in model.channels])
    for each in (model.attribute_prior, model.context_effect):
        if each is not None:
            each.check(d)
    for term in model.terms:
        if isinstance(term.weight, bool) or not isinstance(term.weight, int | float) or not isfinite(term.weight):
            raise ModelError(f"a term has the weight {term.weight!r}; expected a finite number")
        if not all(0 <= number < len(model.channels) for number in term.channels):
            raise ModelError(f"a term names channels {term.channels}, there are {len(model.channels)}")


def check_blocks(model: "Model") -> None:
    """Refuse channels that share a part of their dimensions, and blocks of dimensions that are correlated."""
    block = np.full(model.dim, -1)
    for number, channel in enumerate(model.channels):
        taken = block[channel.span]
        if ((taken >= 0) & (taken != channel.start)).any() or (block == channel.start).sum() not in (0, len(taken)):
            raise ModelError(f"channel {number} reads dimensions {channel.span}, another one only a part of them")
        block[channel.span] = channel.start
    if model.prior_cov[block[:, None] != block[None, :]].any():
        raise ModelError("prior_cov correlates dimensions of different channels; they are learned apart")


def refuse_far_tensors(tensors: Mapping[str, "npt.NDArray[Any]"]) -> None:
    """Refuse numbers of a saved model with which scores overflow; variances are squares of others."""
    most = LARGEST_NUMBER**2
    for name, part in tensors.items():
        if part.dtype.kind == "f" and max(-part.min(initial=0.0), part.max(initial=0.0)) > most:
            raise ModelError(f"{name} holds a number beyond {most:g}; scores overflow with it, so retrain")


def refuse_far_settings(settings: object) -> None:
    """Refuse settings of a saved model with which scores overflow."""
    for name, value in _numbers(settings):
        if abs(value) > LARGEST_NUMBER:
            raise ModelError(f"{name} of the model is beyond {LARGEST_NUMBER:g}; scores overflow with it, so retrain")


def _numbers(settings: object, name: str = "") -> Iterator[tuple[str, float]]:
    """Yield all numbers of a tree of settings, each with its place."""
    if isinstance(settings, int | float):
        yield name, settings
    elif isinstance(settings, dict | list):
        for key, own in settings.items() if isinstance(settings, dict) else enumerate(settings):
            yield from _numbers(own, f"{name} {key}".strip())


def check_numbers(model: "Model") -> None:
    """Refuse what is not finite, no variance, or no covariance."""
    found, wanted = model.item_variances.shape, (model.n_items, model.dim)
    if found != wanted:
        raise ModelError(f"item_variances has shape {found}, expected {wanted}")
    scored: list[AnyFloatArray] = [model.item_variances, model.prior_mean, model.prior_cov]
    scored += [channel.vectors for channel in model.channels]
    numbers = scored + [channel.noise_var for channel in model.channels]
    numbers += [] if model.low_pass is None else [model.low_pass]
    # the smallest and the largest number suffice, without a second array as large as the items
    ends = [(float(part.min(initial=0.0)), float(part.max(initial=0.0))) for part in numbers]
    if not np.isfinite(ends).all():
        raise ModelError("the model holds NaN or infinite numbers; pretraining may have diverged")
    largest = max(max(-low, high) for low, high in ends[: len(scored)])
    if largest > LARGEST_NUMBER:
        raise ModelError(f"the model holds a number of size {largest:g}; beyond {LARGEST_NUMBER:g} scores overflow")
    if not all((channel.noise_var > 0).all() for channel in model.channels):
        raise ModelError("noise_var must be positive for every item")
    if ends[0][0] < 0:
        raise ModelError("item_variances must not be negative")
    scale = max(float(np.abs(model.prior_cov).max()), 1e-300)
    if np.abs(model.prior_cov - model.prior_cov.T).max() > 1e-8 * scale:
        raise ModelError("prior_cov is not symmetric")
    if np.linalg.eigvalsh(model.prior_cov)[0] < -1e-8 * scale:
        raise ModelError("prior_cov has negative eigenvalues; a covariance has none")


def checked_kinds(kinds: Mapping[str, float]) -> dict[str, float]:
    """Return the values of the kinds of feedback as numbers; refuse other values, and the name `skip`."""
    found = {}
    for kind, value in kinds.items():
        if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not isfinite(value):
            raise ModelError(f"kind {kind!r} has the value {value!r}; expected a finite number")
        if not kind or kind == RESERVED_KIND:
            raise ModelError(f"a kind of feedback cannot be called {kind!r}; `skip` puts an item aside")
        found[str(kind)] = float(value)
    return found
