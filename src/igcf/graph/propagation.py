"""Propagation G: a linear map of the nodes' vectors, never materialised (docs/maths.md, section Graph)."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from igcf.arrays import Float32Array, IntArray
from igcf.config import GraphConfig, imported
from igcf.errors import ConfigError
from igcf.graph.adjacency import normalised_adjacency, warn_if_degenerate
from igcf.graph.sparse_products import sparse_product

EXACT_NODES = 8192  # number of nodes up to which the squared operator is computed exactly; above, by random probes
N_PROBES = 64  # number of random probes
COLUMN_BLOCK = 256  # number of columns of the operator that are in memory at a time


class Propagation(ABC):
    """Linear map G of the vectors of all nodes: E-bar = G E (eq:lightgcn_ma; rows are nodes here)."""

    n_nodes: int  # number of users and items together

    @abstractmethod
    def apply(self, vectors: npt.NDArray[np.float32]) -> Float32Array:
        """Compute G @ vectors."""

    @abstractmethod
    def adjoint(self, vectors: npt.NDArray[np.float32]) -> Float32Array:
        """Compute G' @ vectors: the gradient with respect to E for that with respect to E-bar."""

    def variances(self, variances: npt.NDArray[np.float32], *, rng: np.random.Generator) -> Float32Array:
        """Compute Var(e_i) = sum_j g_ij^2 s_j^2, shape (nodes, d), for independent nodes with variances s^2.

        Exact for graphs of up to `EXACT_NODES` nodes; above, an estimate from the mean square of propagated random
        signs, with a relative error of at most sqrt(2 / N_PROBES).
        """
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


class Polynomial(Propagation):
    """G = w_0 I + w_1 A + ... + w_K A^K for a symmetric A; G is symmetric, so it is its own adjoint."""

    def __init__(self, adjacency: sp.csr_array, weights: Sequence[float]) -> None:
        self.adjacency, self.weights = adjacency, tuple(float(weight) for weight in weights)
        self.n_nodes = int(adjacency.shape[0])
        if not self.weights or not np.isfinite(self.weights).all():
            raise ConfigError(f"propagation needs at least one finite weight, got {self.weights}")

    def apply(self, vectors: npt.NDArray[np.float32]) -> Float32Array:
        """Compute G @ vectors by Horner's rule: K sparse products."""
        result: Float32Array = np.float32(self.weights[-1]) * vectors
        for weight in reversed(self.weights[:-1]):
            result = sparse_product(self.adjacency, result, plus=vectors, scale=weight)
        return result

    def adjoint(self, vectors: npt.NDArray[np.float32]) -> Float32Array:
        """Compute G @ vectors: G is symmetric."""
        return self.apply(vectors)

    def variances(self, variances: npt.NDArray[np.float32], *, rng: np.random.Generator) -> Float32Array:
        """Compute the variances of the propagated vectors; without layers each node keeps its own."""
        if len(self.weights) == 1:
            return np.float32(self.weights[0] ** 2) * variances
        return super().variances(variances, rng=rng)


class Operator(Propagation):
    """G given as a SciPy linear operator, with its adjoint."""

    def __init__(self, operator: LinearOperator) -> None:
        self._operator, self.n_nodes = operator, int(operator.shape[0])

    def apply(self, vectors: npt.NDArray[np.float32]) -> Float32Array:
        """Compute G @ vectors."""
        return np.asarray(self._operator.matmat(vectors), dtype=np.float32)

    def adjoint(self, vectors: npt.NDArray[np.float32]) -> Float32Array:
        """Compute G' @ vectors."""
        return np.asarray(self._operator.rmatmat(vectors), dtype=np.float32)


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
    if ":" in config.graph:
        return own_propagation(config, adjacency)
    if config.graph == "sgc":
        return Polynomial(adjacency, sgc_weights(layers))
    if config.graph == "appnp":
        return Polynomial(adjacency, appnp_weights(config.teleport, layers))
    return Polynomial(adjacency, lightgcn_weights(layers, config.layer_weights if layers else None))


def own_propagation(config: GraphConfig, adjacency: sp.csr_array) -> Propagation:
    """Build G by the function that the import path `config.graph` names.

    It is called with the normalised adjacency (users first, then items) and the settings, and returns the coefficients
    w_0 .. w_K of a polynomial, or G itself: a matrix or `scipy.sparse.linalg.LinearOperator` with its adjoint.
    """
    built = imported(config.graph)(adjacency, config)
    try:
        if np.ndim(built) == 1:
            return Polynomial(adjacency, built)
        operator = aslinearoperator(built)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"{config.graph} returned {type(built).__name__}: {error}; see docs/howto/graph.md"
        ) from error
    if operator.shape != adjacency.shape:
        raise ConfigError(f"{config.graph} returned a map of shape {operator.shape}; the graph has {adjacency.shape}")
    return Operator(operator)
