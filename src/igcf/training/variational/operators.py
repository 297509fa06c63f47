"""The two linear operations of a training step with their gradients: propagation, and scores at given pairs.

On the CPU they run through the compiled kernels of `igcf.graph`, on any other device through torch.
"""

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor

from igcf.config import GraphConfig
from igcf.graph import Polynomial, Propagation, csr_product, sampled_products
from igcf.training.variational.pairs import Pairs


class Operators(Protocol):
    """Linear operations of a training step on some hardware."""

    def propagate(self, vectors: Tensor) -> Tensor:
        """Return G @ vectors, shape (nodes, d)."""
        ...

    def scores(self, pairs: Pairs, users: Tensor, items: Tensor) -> Tensor:
        """Return users[u] . items[i] for every pair, in the order of `pairs`."""
        ...


class CompiledOperators:
    """Operators by threaded CPU kernels on the memory of the tensors, in float32."""

    def __init__(self, propagation: Propagation) -> None:
        self._apply, self._adjoint = (
            lambda vectors, of=of: torch.from_numpy(of(vectors.detach().numpy()))
            for of in (propagation.apply, propagation.adjoint)
        )

    def propagate(self, vectors: Tensor) -> Tensor:
        """Return G @ vectors; a polynomial takes K sparse products, and K more for the gradient."""
        return _propagated(vectors, self._apply, self._adjoint)

    def scores(self, pairs: Pairs, users: Tensor, items: Tensor) -> Tensor:
        """Return the scores row by row, without a temporary of shape (pairs, d)."""
        result: Tensor = _PairScores.apply(users, items, pairs)  # type: ignore[no-untyped-call]
        return result


class TorchOperators:
    """Operators by torch alone, on any device and in any precision."""

    def __init__(self, propagation: Polynomial, *, device: str = "cpu", dtype: torch.dtype = torch.float32) -> None:
        matrix, weights = propagation.adjacency, propagation.weights
        adjacency = torch.sparse_coo_tensor(
            torch.stack([torch.from_numpy(index).long() for index in matrix.tocoo().coords]),
            torch.from_numpy(matrix.data),
            matrix.shape,
            dtype=dtype,
            device=device,
            check_invariants=False,
        ).coalesce()

        def apply(vectors: Tensor) -> Tensor:
            result = weights[-1] * vectors
            for weight in reversed(weights[:-1]):
                result = torch.sparse.mm(adjacency, result) + weight * vectors
            return result

        self._apply = apply

    def propagate(self, vectors: Tensor) -> Tensor:
        """Return G @ vectors by K sparse products; the gradient takes K more."""
        return _propagated(vectors, self._apply, self._apply)

    def scores(self, pairs: Pairs, users: Tensor, items: Tensor) -> Tensor:
        """Return the scores by two gathers and a sum."""
        user_rows = torch.from_numpy(pairs.users).to(users.device)
        item_rows = torch.from_numpy(pairs.items).to(items.device)
        return (users[user_rows] * items[item_rows]).sum(dim=1)


def make_operators(propagation: Propagation, config: GraphConfig) -> Operators:
    """Return the operators that the settings ask for."""
    if config.kernel == "torch":
        assert isinstance(propagation, Polynomial)  # noqa: S101  (the configuration refuses others)
        return TorchOperators(propagation, device=config.device)
    return CompiledOperators(propagation)


def _propagated(vectors: Tensor, *operator: Callable[[Tensor], Tensor]) -> Tensor:
    result: Tensor = _Linear.apply(vectors, *operator)  # type: ignore[no-untyped-call]
    return result


class _Linear(torch.autograd.Function):
    """A linear operator; its gradient is the adjoint."""

    @staticmethod
    def forward(
        ctx: Any, vectors: Tensor, apply: Callable[[Tensor], Tensor], adjoint: Callable[[Tensor], Tensor]
    ) -> Tensor:
        ctx.adjoint = adjoint
        return apply(vectors)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        return ctx.adjoint(grads[0]), None, None


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
