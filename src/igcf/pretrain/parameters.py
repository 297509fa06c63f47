"""The variational posterior: a diagonal Gaussian over all user and item vectors (eq:va)."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import softplus

from igcf.config import Start

START_STD, START_RHO = 0.1, -3.0


@dataclass(eq=False)
class Parameters:
    """Means and rho of all nodes, users first, (nodes, d); the standard deviation is softplus(rho)."""

    mean: Tensor
    rho: Tensor

    @property
    def std(self) -> Tensor:
        """Softplus of rho: log(1 + exp(rho))."""
        return softplus(self.rho)

    def sample(self, std: Tensor, *, generator: torch.Generator) -> Tensor:
        """One reparameterised draw of all vectors (eq:vi-optim)."""
        noise = torch.empty_like(self.mean).normal_(generator=generator)
        return torch.addcmul(self.mean, std, noise)

    def tensors(self) -> list[Tensor]:
        """What the optimiser changes."""
        return [self.mean, self.rho]

    def copied(self) -> "Parameters":
        """A snapshot that training no longer changes."""
        return Parameters(self.mean.detach().clone(), self.rho.detach().clone())


def initial_parameters(
    n_nodes: int, dim: int, start: Start, *, generator: torch.Generator, device: str = "cpu"
) -> Parameters:
    """Small random means and narrow posteriors, or all zeros as alg:pretrain has it.

    At zero means the expected gradient of the means vanishes (the loss does not change when all vectors change sign);
    only the sampling noise then leaves the saddle.
    """
    mean = torch.zeros(n_nodes, dim)
    rho = torch.zeros(n_nodes, dim)
    if start == "random":
        mean.normal_(std=START_STD * math.sqrt(8 / dim), generator=generator)
        rho.fill_(START_RHO)
    return Parameters(mean.to(device).requires_grad_(), rho.to(device).requires_grad_())
