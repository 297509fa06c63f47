import numpy as np
import pytest
import torch

from igcf.config import GraphConfig
from igcf.training.variational.pairs import Pairs, pair_scores, propagated
from tests.training.worlds import checkerboard, small_world

PAIRS = small_world(GraphConfig(layers=3)).training_pairs


def scores(vectors: torch.Tensor) -> torch.Tensor:
    U, V = torch.split(propagated(PAIRS.propagation, vectors), [12, 9])
    return pair_scores(PAIRS.all_pairs, U, V)


def dense_scores(vectors: torch.Tensor) -> torch.Tensor:
    """The same by automatic differentiation, with G as a dense matrix."""
    G = torch.from_numpy(PAIRS.propagation.apply(np.eye(21, dtype=np.float32)))
    U, V = torch.split(G @ vectors, [12, 9])
    return (U @ V.T)[torch.from_numpy(PAIRS.all_pairs.users).long(), torch.from_numpy(PAIRS.all_pairs.items).long()]


def test_values_and_gradients_are_those_of_dense_matrices() -> None:
    results = []
    for own in (scores, dense_scores):
        start = torch.randn(21, 5, generator=torch.Generator().manual_seed(0)).requires_grad_()
        found = own(start)
        loss = (found**2 * torch.arange(len(found))).sum()
        results.append((found.detach(), *torch.autograd.grad(loss, start)))
    torch.testing.assert_close(results[0], results[1], rtol=1e-4, atol=1e-3)


def test_the_gradient_agrees_with_finite_differences() -> None:
    """Central differences of a float32 computation along a random direction."""
    generator = torch.Generator().manual_seed(1)
    start, direction = torch.randn(21, 4, generator=generator), torch.randn(21, 4, generator=generator)
    start.requires_grad_()
    (gradient,) = torch.autograd.grad((scores(start) ** 2).sum(), start)
    step = 1e-2
    ends = [(scores(start + sign * step * direction) ** 2).sum().item() for sign in (1, -1)]
    assert (gradient * direction).sum().item() == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-2)


def test_pairs_keep_their_targets_in_both_orders() -> None:
    log = checkerboard(8, 6)
    shuffled = np.random.default_rng(0).permutation(len(log))
    pairs = Pairs.from_arrays(8, 6, log.user_idx[shuffled], log.item_idx[shuffled], log.values[shuffled])
    table = log.dense()
    np.testing.assert_array_equal(pairs.targets, table[pairs.users, pairs.items])
    items = np.repeat(np.arange(6), np.diff(pairs.item_indptr))
    np.testing.assert_array_equal(pairs.targets[pairs.by_item], table[pairs.item_users, items])
