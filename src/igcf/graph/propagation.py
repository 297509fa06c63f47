"""Propagation G: a polynomial in the normalised adjacency, never materialised (docs/maths.md, section Graph)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from igcf.arrays import Float32Array, IntArray
from igcf.config import GraphConfig
from igcf.errors import ConfigError
from igcf.graph.adjacency import normalised_adjacency, warn_if_degenerate
from igcf.graph.sparse_products import sparse_product

EXACT_NODES = 8192
"""Number of nodes up to which the squared operator is computed exactly; above, by random probes."""
N_PROBES = 64
"""Number of random probes."""
COLUMN_BLOCK = 256
"""Number of columns of the operator that are in memory at a time."""


@dataclass(frozen=True, eq=False)
class Propagation:
    """G = w_0 I + w_1 A + ... + w_K A^K for a symmetric A; G is symmetric, so it is also its own gradient."""

    adjacency: sp.csr_array
    weights: tuple[float, ...]
    """Polynomial coefficients w_0 .. w_K."""

    def __post_init__(self) -> None:
        """Refuse an empty polynomial."""
        if not self.weights or not np.isfinite(self.weights).all():
            raise ConfigError(f"propagation needs at least one finite weight, got {self.weights}")

    @property
    def n_nodes(self) -> int:
        """Number of users and items together."""
        return int(self.adjacency.shape[0])

    @property
    def n_layers(self) -> int:
        """Degree K of the polynomial: the number of sparse products that one application costs."""
        return len(self.weights) - 1

    def apply(self, vectors: npt.NDArray[np.float32]) -> Float32Array:
        """Compute G @ vectors by Horner's rule: K sparse products."""
        result: Float32Array = np.float32(self.weights[-1]) * vectors
        for weight in reversed(self.weights[:-1]):
            result = sparse_product(self.adjacency, result, plus=vectors, scale=weight)
        return result

    def variances(self, variances: npt.NDArray[np.float32], *, rng: np.random.Generator) -> Float32Array:
        """Compute Var(e_i) = sum_j g_ij^2 s_j^2, shape (nodes, d), for independent nodes with variances s^2.

        Exact for graphs of up to `EXACT_NODES` nodes; above, the mean square of propagated random signs, whose
        relative error is at most sqrt(2 / N_PROBES).
        """
        if self.n_layers == 0:
            return np.float32(self.weights[0] ** 2) * variances
        if self.n_nodes <= EXACT_NODES:
            return self._exact_variances(variances)
        probe = np.sqrt(variances)
        total = np.zeros_like(variances)
        for _ in range(N_PROBES):
            turned = rng.integers(0, 2, variances.shape, dtype=np.bool_)
            np.negative(probe, out=probe, where=turned)  # random signs times random signs are random signs
            total += self.apply(probe) ** 2
        total /= N_PROBES
        return total

    def _exact_variances(self, variances: npt.NDArray[np.float32]) -> Float32Array:
        total = np.zeros_like(variances)
        for start in range(0, self.n_nodes, COLUMN_BLOCK):
            width = min(COLUMN_BLOCK, self.n_nodes - start)
            columns = np.zeros((self.n_nodes, width), dtype=np.float32)
            columns[np.arange(start, start + width), np.arange(width)] = 1.0
            columns = self.apply(columns)
            total += (columns * columns) @ variances[start : start + width]
        return total


def lightgcn_weights(layers: int, alphas: Sequence[float] | None = None) -> tuple[float, ...]:
    """Return alpha_0 .. alpha_K; equal weights 1 / (K + 1) unless given."""
    if alphas is None:
        return (1.0 / (layers + 1),) * (layers + 1)
    if len(alphas) != layers + 1:
        raise ConfigError(f"layer_weights has {len(alphas)} entries, {layers} layers need {layers + 1}")
    return tuple(float(alpha) for alpha in alphas)


def sgc_weights(layers: int) -> tuple[float, ...]:
    """Return the coefficients of A^K alone; SGC takes the adjacency with self-loops."""
    return (0.0,) * layers + (1.0,)


def appnp_weights(teleport: float, layers: int) -> tuple[float, ...]:
    """Return beta (1 - beta)^k and, last, (1 - beta)^K: they sum to 1 (the paper's last weight is a misprint)."""
    return (*(teleport * (1 - teleport) ** k for k in range(layers)), (1 - teleport) ** layers)


def build_propagation(
    config: GraphConfig, n_users: int, n_items: int, user_idx: IntArray, item_idx: IntArray
) -> Propagation:
    """Build the propagation that `config` names over the given edges; warn when they make it degenerate."""
    layers = 0 if config.graph == "none" else config.layers
    if layers:
        warn_if_degenerate(n_items, user_idx, item_idx)
    adjacency = normalised_adjacency(n_users, n_items, user_idx, item_idx, self_loops=config.graph == "sgc")
    if config.graph == "sgc":
        return Propagation(adjacency, sgc_weights(layers))
    if config.graph == "appnp":
        return Propagation(adjacency, appnp_weights(config.teleport, layers))
    return Propagation(adjacency, lightgcn_weights(layers, config.layer_weights if layers else None))
