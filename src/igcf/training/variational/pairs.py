"""The pairs that the graph model is trained on, their batches, and the two linear operations of a training step."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from igcf.arrays import AnyFloatArray, Float32Array, IntArray
from igcf.config import GraphConfig
from igcf.graph import Propagation, csr_product, sampled_products


@dataclass(frozen=True, eq=False)
class Pairs:
    """User-item pairs with targets, sorted by user; `by_item` holds the same pairs sorted by item."""

    indptr: IntArray  # start of each user's pairs, shape (users + 1,)
    items: IntArray  # item row of each pair
    targets: Float32Array  # reward of each pair
    item_indptr: IntArray  # start of each item's pairs in item order, shape (items + 1,)
    item_users: IntArray  # user row of each pair in item order
    by_item: IntArray  # position in user order of each pair of the item order

    def __len__(self) -> int:
        return len(self.items)

    @property
    def n_users(self) -> int:
        """Number of users, including those without a pair."""
        return len(self.indptr) - 1

    @property
    def n_items(self) -> int:
        """Number of items, including those without a pair."""
        return len(self.item_indptr) - 1

    @property
    def users(self) -> IntArray:
        """Return the user row of each pair."""
        return np.repeat(np.arange(self.n_users, dtype=np.int32), np.diff(self.indptr))

    @classmethod
    def from_arrays(
        cls, n_users: int, n_items: int, user_idx: IntArray, item_idx: IntArray, targets: AnyFloatArray
    ) -> "Pairs":
        """Sort the given pairs; no pair may occur twice."""
        order = np.arange(len(user_idx), dtype=np.int32)
        rows = sp.csr_array((order, (user_idx, item_idx)), shape=(n_users, n_items))
        order = rows.data
        rows.data = np.arange(len(order), dtype=np.int32)
        columns = rows.tocsc()
        return cls(
            indptr=rows.indptr,
            items=rows.indices,
            targets=np.asarray(targets, dtype=np.float32)[order],
            item_indptr=columns.indptr,
            item_users=columns.indices,
            by_item=columns.data,
        )


@dataclass(frozen=True, eq=False)
class TrainingPairs:
    """User-item pairs with their rewards, and the graph of all users and items."""

    n_users: int
    n_items: int
    user_idx: IntArray  # user row of each pair
    item_idx: IntArray  # item row of each pair
    targets: Float32Array  # reward of each pair
    propagation: Propagation

    @property
    def n_pairs(self) -> int:
        """Number of pairs."""
        return len(self.targets)

    @property
    def n_nodes(self) -> int:
        """Number of users and items together."""
        return self.n_users + self.n_items

    @cached_property
    def all_pairs(self) -> Pairs:
        """Return all pairs as one batch."""
        return self._pairs(slice(None))

    def batches(self, config: GraphConfig, epoch: int) -> Iterator[Pairs]:
        """Yield the batches of one epoch; their order depends on the seed and the epoch only."""
        if config.batch_size is None:
            yield self.all_pairs
            return
        order = np.arange(self.n_pairs)
        if config.shuffle:
            order = np.random.default_rng([config.seed, epoch]).permutation(len(order))
        for start in range(0, len(order), config.batch_size):
            yield self._pairs(order[start : start + config.batch_size])

    def _pairs(self, rows: slice | IntArray) -> Pairs:
        return Pairs.from_arrays(
            self.n_users, self.n_items, self.user_idx[rows], self.item_idx[rows], self.targets[rows]
        )


def propagated(propagation: Propagation, vectors: Tensor) -> Tensor:
    """Return G @ vectors, shape (nodes, d); a polynomial takes K sparse products, and K more for the gradient."""
    result: Tensor = _Propagated.apply(vectors, propagation)  # type: ignore[no-untyped-call]
    return result


def pair_scores(pairs: Pairs, users: Tensor, items: Tensor) -> Tensor:
    """Return users[u] . items[i] for every pair, in the order of `pairs`, without a temporary of shape (pairs, d)."""
    result: Tensor = _PairScores.apply(users, items, pairs)  # type: ignore[no-untyped-call]
    return result


class _Propagated(torch.autograd.Function):
    """A linear operator; its gradient is the adjoint."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, propagation: Propagation) -> Tensor:
        ctx.propagation = propagation
        return torch.from_numpy(propagation.apply(vectors.detach().numpy()))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return torch.from_numpy(ctx.propagation.adjoint(grads[0].detach().numpy())), None


class _PairScores(torch.autograd.Function):
    """Sampled dense-dense products; the gradients are sparse products with the incoming values."""

    @staticmethod
    def forward(ctx: Any, users: Tensor, items: Tensor, pairs: Pairs) -> Tensor:
        ctx.save_for_backward(users, items)
        ctx.pairs = pairs
        return torch.from_numpy(
            sampled_products(pairs.indptr, pairs.items, users.detach().numpy(), items.detach().numpy())
        )

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        users, items = (side.detach().numpy() for side in ctx.saved_tensors)
        pairs: Pairs = ctx.pairs
        grad = grads[0].contiguous().numpy()
        return (
            torch.from_numpy(csr_product(pairs.indptr, pairs.items, grad, items)),
            torch.from_numpy(csr_product(pairs.item_indptr, pairs.item_users, grad[pairs.by_item], users)),
            None,
        )
