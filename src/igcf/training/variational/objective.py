"""The evidence lower bound: a diagonal Gaussian over all vectors (eq:va), its KL, and the likelihoods of a log.

docs/maths.md, section Pretraining. U (users, d) and V (items, d) are propagated vectors; `scores` and `targets` belong
to the observed pairs. Every term is a sum over pairs, not a mean.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from igcf.config import GraphConfig

START_STD, START_RHO = 0.1, -3.0  # standard deviation of the first means at d = 8, and the first rho
PIECE = 1 << 16  # number of entries that are worked on at a time


@dataclass(eq=False)
class Parameters:
    """Means and rho of all nodes, users first, (nodes, d); the standard deviation is softplus(rho)."""

    mean: Tensor
    rho: Tensor

    @property
    def std(self) -> Tensor:
        """Return the standard deviations: softplus of rho, log(1 + exp(rho))."""
        return softplus(self.rho)

    def tensors(self) -> list[Tensor]:
        """Return the tensors that the optimiser changes."""
        return [self.mean, self.rho]


def initial_parameters(n_nodes: int, config: GraphConfig) -> Parameters:
    """Make the first parameters: small random means, or zeros as alg:pretrain has it.

    At zero means the expected gradient of the means vanishes (the loss does not change when all vectors change sign);
    only the sampling noise then leaves the saddle.
    """
    mean = torch.zeros(n_nodes, config.dim)
    rho = torch.zeros_like(mean)
    if config.start == "random":
        noise = standard_normal(n_nodes, config.dim, seed=(config.seed, 0))
        mean.add_(noise, alpha=START_STD * math.sqrt(8 / config.dim))
        rho.fill_(START_RHO)
    return Parameters(mean.requires_grad_(), rho.requires_grad_())


def standard_normal(n_rows: int, dim: int, *, seed: Sequence[int]) -> Tensor:
    """Draw standard normal numbers of shape (rows, dim), which depend on the seed only."""
    state = np.random.SeedSequence([number % 2**64 for number in seed]).generate_state(1, np.uint64)[0]
    generator = torch.Generator().manual_seed(int(state))
    return torch.randn(n_rows, dim, generator=generator)


def sample_and_kl(mean: Tensor, rho: Tensor, noise: Tensor, prior_std: float) -> tuple[Tensor, Tensor]:
    """Draw from N(mean, softplus(rho)^2) (eq:vi-optim), and compute its KL to N(0, prior_std^2) (eq:KL)."""
    sample, kl = _SampleAndKl.apply(mean, rho, noise, prior_std)  # type: ignore[no-untyped-call]
    return sample, kl


class _SampleAndKl(torch.autograd.Function):
    """Gradients in pieces that stay in the cache: automatic differentiation took several times as long."""

    @staticmethod
    def forward(ctx: Any, mean: Tensor, rho: Tensor, noise: Tensor, prior_std: float) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(mean, rho, noise)
        ctx.prior_std = prior_std
        sample = torch.empty_like(mean)
        squares = torch.zeros((), dtype=torch.float64)
        logs = torch.zeros_like(squares)
        for m, r, z, out in _pieces(mean, rho, noise, sample):
            std = softplus(r)
            torch.addcmul(m, std, z, out=out)
            squares += torch.dot(m, m) + torch.dot(std, std)
            logs += std.log_().sum()
        kl = squares / (2 * prior_std**2) - logs + mean.numel() * (math.log(prior_std) - 0.5)
        return sample, kl.to(mean.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None]:
        mean, rho, noise = ctx.saved_tensors
        of_kl = grads[1].item()
        of_squares = of_kl / ctx.prior_std**2
        grad_mean, grad_rho = torch.empty_like(mean), torch.empty_like(rho)
        pieces = _pieces(grads[0].contiguous(), mean, rho, noise, grad_mean, grad_rho)
        for g, m, r, z, out_mean, out_rho in pieces:
            std = softplus(r)
            torch.add(g, m, alpha=of_squares, out=out_mean)
            torch.mul(g, z, out=out_rho)
            out_rho.add_(std, alpha=of_squares).sub_(std.reciprocal_(), alpha=of_kl)  # d / d std
            out_rho.mul_(torch.sigmoid(r))
        return grad_mean, grad_rho, None, None


def _pieces(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    flat = [tensor.detach().view(-1) for tensor in tensors]
    for start in range(0, flat[0].numel(), PIECE):
        yield tuple(each[start : start + PIECE] for each in flat)


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
    bound = (
        first / 2 + curvature(xi) * second + n_unobserved * (math.log1p(math.exp(-xi)) + xi / 2 - curvature(xi) * xi**2)
    )
    return observed + missing_weight * bound


def curvature(xi: float) -> float:
    """Return lambda(xi) = tanh(xi / 2) / (4 xi), 1/8 at 0."""
    return 0.125 if abs(xi) < 1e-4 else math.tanh(xi / 2) / (4 * xi)


def _squares(x: Tensor) -> Tensor:
    flat = x.reshape(-1)
    return torch.dot(flat, flat)
