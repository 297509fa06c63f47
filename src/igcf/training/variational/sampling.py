"""A draw of all vectors and the KL of their posterior with all gradients, in pieces that stay in the cache.

Automatic differentiation of mean + std * noise and of the KL gives the same, but keeps a tensor of the
size of all parameters for every operation: for millions of items that took several times as long, most of it for new
pages of memory.
"""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

PIECE = 1 << 16
"""Number of entries that are worked on at a time."""


def sample_and_kl(mean: Tensor, rho: Tensor, noise: Tensor, prior_std: float) -> tuple[Tensor, Tensor]:
    """Draw from N(mean, softplus(rho)^2) (eq:vi-optim), and compute its KL to N(0, prior_std^2) (eq:KL)."""
    sample, kl = _SampleAndKl.apply(mean, rho, noise, prior_std)  # type: ignore[no-untyped-call]
    return sample, kl


class _SampleAndKl(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, mean: Tensor, rho: Tensor, noise: Tensor, prior_std: float) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(mean, rho, noise)
        ctx.prior_std = prior_std
        sample = torch.empty_like(mean)
        squares = torch.zeros((), dtype=torch.float64, device=mean.device)
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
