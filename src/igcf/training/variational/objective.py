"""The terms of the evidence lower bound as pure functions (docs/maths.md, section Pretraining).

U (users, d) and V (items, d) are propagated vectors; `scores` and `targets` belong to the observed pairs.
Every function returns a sum over pairs, not a mean.
"""

import math

import torch
from torch import Tensor
from torch.nn.functional import softplus


def observed_gaussian(scores: Tensor, targets: Tensor, *, noise_var: float) -> Tensor:
    """Compute the negative log likelihood of the observed pairs without its constant (eq::objective::reg)."""
    return _squares(targets - scores) / (2 * noise_var)


def full_gaussian(
    U: Tensor, V: Tensor, scores: Tensor, targets: Tensor, *, noise_var: float, missing_weight: float
) -> Tensor:
    """Compute the negative log likelihood over all users x items; missing pairs have target 0 and `missing_weight`.

    sum over all pairs of (u.v)^2 = <U'U, V'V>, so no pair is visited that was not observed; at an observed pair
    (target - score)^2 - w0 score^2 = (1 - w0) score^2 - 2 score target + target^2.
    """
    all_pairs = ((U.T @ U) * (V.T @ V)).sum()
    observed = _squares(targets) - 2.0 * torch.dot(scores, targets)
    if missing_weight != 1.0:
        observed = observed + (1.0 - missing_weight) * _squares(scores)
    return (missing_weight * all_pairs + observed) / (2 * noise_var)


def observed_bernoulli(scores: Tensor, targets: Tensor) -> Tensor:
    """Compute the negative log likelihood of successes (1) and failures (0) at observed pairs (eq::objective::cls)."""
    return softplus((1 - 2 * targets) * scores).sum()


def full_bernoulli_bound(U: Tensor, V: Tensor, scores: Tensor, targets: Tensor, *, missing_weight: float) -> Tensor:
    """Bound the negative log likelihood over all users x items from above; a pair without a reaction is a failure.

    For a failure, -log sigmoid(-x) <= -log sigmoid(xi) + (x + xi) / 2 + lambda(xi) (x^2 - xi^2) with
    lambda(xi) = tanh(xi / 2) / (4 xi), and the sums of x and x^2 over all pairs need no visit to a pair. One xi is
    shared by all unobserved pairs; its best value is the root mean square of their scores.
    """
    n_unobserved = len(U) * len(V) - len(scores)
    observed = observed_bernoulli(scores, targets)
    first = U.sum(dim=0) @ V.sum(dim=0) - scores.sum()
    second = ((U.T @ U) * (V.T @ V)).sum() - _squares(scores)
    if n_unobserved <= 0:
        return observed
    xi = math.sqrt(max(second.item() / n_unobserved, 0.0))
    bound = first / 2 + curvature(xi) * second + n_unobserved * (log1p_exp(-xi) + xi / 2 - curvature(xi) * xi**2)
    return observed + missing_weight * bound


def curvature(xi: float) -> float:
    """Return lambda(xi) = tanh(xi / 2) / (4 xi), 1/8 at 0."""
    return 0.125 if abs(xi) < 1e-4 else math.tanh(xi / 2) / (4 * xi)


def log1p_exp(x: float) -> float:
    """Return log(1 + exp(x)) without overflow."""
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def _squares(x: Tensor) -> Tensor:
    flat = x.reshape(-1)
    return torch.dot(flat, flat)
