"""Building the inverted file: faiss groups the items by how the population likes them."""

from typing import Any

import numpy as np

from igcf.arrays import Float32Array, FloatArray, IntArray
from igcf.errors import ConfigError
from igcf.model import Model
from igcf.model.channel import activations, expectation, gradients
from igcf.online.index.lists import ChannelLists, ItemLists

LISTS_PER_ROOT = 4.0
"""Lists per square root of the number of items: looking through the centres then takes about as long as the lists."""
LEARNED_FROM = 40
"""Items per list from which its centre is learned."""
ROUNDS = 10
CHUNK = 65_536
TOP = 200
"""Items that the population likes best, at which the weights of the channels are taken."""
SAMPLE = 100_000
"""Items from which the covariance around the centres is estimated."""


def build_lists(model: Model, *, seed: int = 0) -> ItemLists:
    """Put the items of a model into about 4 sqrt(items) lists; items added to the model are left out.

    Two items are near where people of the population differ little in how much more they like the one than the other:
    vectors are compared after multiplication with the root of the users' second moments, channel by channel, each
    weighted by how much it matters to the expected reward of the best items.
    """
    faiss = load_faiss()
    rows = np.delete(np.arange(model.n_items), model.added)
    if not len(rows):
        raise ConfigError("the model has no items but those added to it; an index needs items that were trained")
    channels = [model.channels[number] for number in model.scored]
    n_lists = max(1, min(int(LISTS_PER_ROOT * np.sqrt(len(rows))), len(rows)))
    metric = _metric(model)

    def vectors_at(own: IntArray) -> Float32Array:
        return np.concatenate([channel.vectors[own] for channel in channels], axis=1)

    rng = np.random.default_rng(seed)
    learned_from = np.sort(rng.permutation(rows)[: LEARNED_FROM * n_lists])
    means = faiss.Kmeans(
        metric.shape[1], n_lists, niter=ROUNDS, seed=seed, min_points_per_centroid=1,
        max_points_per_centroid=LEARNED_FROM,
    )  # fmt: skip
    means.train(np.ascontiguousarray(vectors_at(learned_from) @ metric))
    lists = np.empty(len(rows), dtype=np.int64)
    for part in _chunks(len(rows)):
        lists[part] = means.index.search(np.ascontiguousarray(vectors_at(rows[part]) @ metric), 1)[1][:, 0]
    order = np.argsort(lists, kind="stable")
    sizes = np.bincount(lists, minlength=n_lists)
    is_used = sizes > 0
    lists = (np.cumsum(is_used) - 1)[lists[order]]
    starts = np.concatenate([[0], np.cumsum(sizes[is_used])]).astype(np.int64)
    rows = rows[order]
    sample = np.sort(rng.permutation(len(rows))[:SAMPLE])
    own = tuple(_channel_lists(channel.vectors[rows], starts, lists, sample) for channel in channels)
    squares = np.empty(len(rows))
    for part in _chunks(len(rows)):
        apart = np.concatenate([each.vectors[part] - each.centres[lists[part]] for each in own], axis=1)
        squares[part] = np.square(apart @ metric).sum(axis=1)
    typical = max(float(squares.mean()), float(np.finfo(np.float32).tiny))
    spread = np.sqrt(np.add.reduceat(squares, starts[:-1]) / np.diff(starts) / typical)
    return ItemLists(own, rows, starts, spread.astype(np.float32))


def load_faiss() -> Any:
    """Import faiss, in one thread as everything here is, or say how to get it."""
    try:
        import faiss
    except ImportError as error:
        raise ConfigError(
            "building an index of items needs faiss, which is not installed; `pip install 'igcf[index]'`, or answer "
            "without an index (exact)"
        ) from error
    faiss.omp_set_num_threads(1)
    return faiss


def _metric(model: Model) -> Float32Array:
    """The matrix that vectors side by side are multiplied with before they are compared, shape (width, width')."""
    channels = {number: model.channels[number] for number in model.scored}
    z = {number: channel.vectors @ model.prior_mean[channel.span] for number, channel in channels.items()}
    active = activations(model.channels, z)
    top = np.argsort(-expectation(model.terms, active), kind="stable")[:TOP]
    slopes = gradients(model.channels, model.terms, {number: own[top] for number, own in active.items()})
    blocks = []
    for number, channel in channels.items():
        mean = model.prior_mean[channel.span]
        size, axes = np.linalg.eigh(model.prior_cov[channel.span, channel.span] + np.outer(mean, mean))
        weight = float(np.sqrt(np.mean(np.square(slopes[number]))))
        blocks.append(weight * axes * np.sqrt(np.maximum(size, 0.0)))
    return _block_diagonal(blocks).astype(np.float32)


def _channel_lists(vectors: Float32Array, starts: IntArray, lists: IntArray, sample: IntArray) -> ChannelLists:
    """One channel's vectors, which are in the order of the lists, and what is typical of each list."""
    lengths = np.einsum("nd,nd->n", vectors, vectors)
    sums = np.add.reduceat(vectors, starts[:-1], axis=0, dtype=np.float64)
    centres = (sums / np.diff(starts)[:, None]).astype(np.float32)
    around = (vectors[sample] - centres[lists[sample]]).astype(np.float64)
    return ChannelLists(vectors, lengths, centres, np.asarray(around.T @ around / len(sample)))


def _block_diagonal(blocks: list[FloatArray]) -> FloatArray:
    ends = np.cumsum([len(block) for block in blocks])
    result = np.zeros((ends[-1], ends[-1]))
    for end, block in zip(ends.tolist(), blocks, strict=True):
        span = slice(end - len(block), end)
        result[span, span] = block
    return result


def _chunks(n: int) -> list[slice]:
    return [slice(first, min(first + CHUNK, n)) for first in range(0, n, CHUNK)]
