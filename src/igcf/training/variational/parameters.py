"""The variational posterior: a diagonal Gaussian over all user and item vectors (eq:va)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from igcf.config import GraphConfig

START_STD, START_RHO = 0.1, -3.0


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

    def copied(self) -> "Parameters":
        """Return a copy that training no longer changes."""
        return Parameters(self.mean.detach().clone(), self.rho.detach().clone())


def initial_parameters(n_nodes: int, config: GraphConfig) -> Parameters:
    """Make the first parameters: small random means, or zeros as alg:pretrain has it.

    At zero means the expected gradient of the means vanishes (the loss does not change when all vectors change sign);
    only the sampling noise then leaves the saddle.
    """
    mean = torch.zeros(n_nodes, config.dim, device=config.device)
    rho = torch.zeros_like(mean)
    if config.start == "random":
        noise = standard_normal(n_nodes, config.dim, seed=(config.seed, 0), device=config.device)
        mean.add_(noise, alpha=START_STD * math.sqrt(8 / config.dim))
        rho.fill_(START_RHO)
    return Parameters(mean.requires_grad_(), rho.requires_grad_())


def standard_normal(n_rows: int, dim: int, *, seed: Sequence[int], device: str = "cpu") -> Tensor:
    """Draw standard normal numbers of shape (rows, dim), which depend on the seed only."""
    state = np.random.SeedSequence([number % 2**64 for number in seed]).generate_state(1, np.uint64)[0]
    generator = torch.Generator(device=device).manual_seed(int(state))
    return torch.randn(n_rows, dim, generator=generator, device=device)
