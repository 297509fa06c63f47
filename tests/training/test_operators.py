import numpy as np
import pytest
import torch

from igcf.config import GraphConfig
from igcf.graph import Polynomial
from igcf.training.variational.operators import CompiledOperators, Operators, TorchOperators
from igcf.training.variational.pairs import Pairs
from tests.training.worlds import checkerboard, small_world


def toy_operators(dtype: torch.dtype = torch.float32) -> tuple[Polynomial, CompiledOperators, TorchOperators, Pairs]:
    world = small_world(GraphConfig(layers=3))
    propagation = world.propagation
    assert isinstance(propagation, Polynomial)
    compiled, by_torch = CompiledOperators(propagation), TorchOperators(propagation, dtype=dtype)
    return propagation, compiled, by_torch, world.training_pairs.all_pairs


def test_compiled_and_torch_give_the_same_values_and_gradients() -> None:
    _, compiled, by_torch, pairs = toy_operators()
    results = []
    for operators in (compiled, by_torch):
        start = torch.randn(21, 5, generator=torch.Generator().manual_seed(0)).requires_grad_()
        U, V = torch.split(operators.propagate(start), [12, 9])
        scores = operators.scores(pairs, U, V)
        loss = (scores**2 * torch.arange(len(scores))).sum()
        results.append((scores.detach(), *torch.autograd.grad(loss, start)))
    torch.testing.assert_close(results[0], results[1], rtol=1e-4, atol=1e-3)


def test_gradients_agree_with_finite_differences() -> None:
    _, _, operators, pairs = toy_operators(torch.float64)

    def scores(vectors: torch.Tensor) -> torch.Tensor:
        U, V = torch.split(operators.propagate(vectors), [12, 9])
        return operators.scores(pairs, U, V)

    start = torch.randn(21, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert torch.autograd.gradcheck(scores, (start.requires_grad_(),))


def test_compiled_gradient_agrees_with_finite_differences() -> None:
    """Central differences of a float32 computation along a random direction."""
    _, operators, _, pairs = toy_operators()
    generator = torch.Generator().manual_seed(1)
    start, direction = torch.randn(21, 4, generator=generator), torch.randn(21, 4, generator=generator)

    def loss(vectors: torch.Tensor, by: Operators = operators) -> torch.Tensor:
        U, V = torch.split(by.propagate(vectors), [12, 9])
        return (by.scores(pairs, U, V) ** 2).sum()

    start.requires_grad_()
    (gradient,) = torch.autograd.grad(loss(start), start)
    step = 1e-2
    slope = (loss(start + step * direction) - loss(start - step * direction)).item() / (2 * step)
    assert (gradient * direction).sum().item() == pytest.approx(slope, rel=1e-2)


def test_pairs_keep_their_targets_in_both_orders() -> None:
    log = checkerboard(8, 6)
    shuffled = np.random.default_rng(0).permutation(len(log))
    pairs = Pairs.from_arrays(8, 6, log.user_idx[shuffled], log.item_idx[shuffled], log.values[shuffled])
    table = log.dense()
    np.testing.assert_array_equal(pairs.targets, table[pairs.users, pairs.items])
    items = np.repeat(np.arange(6), np.diff(pairs.item_indptr))
    np.testing.assert_array_equal(pairs.targets[pairs.by_item], table[pairs.item_users, items])
