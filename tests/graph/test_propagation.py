from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from igcf.arrays import Float32Array, IntArray
from igcf.config import GraphConfig
from igcf.errors import ConfigError
from igcf.graph import Polynomial, Propagation, appnp_weights, build_propagation, lightgcn_weights, normalised_adjacency
from igcf.graph import propagation as module

M, N = 13, 9
HERE = "tests.graph.test_propagation"


def coefficients(adjacency: sp.csr_array, config: GraphConfig) -> tuple[float, ...]:
    """A high-pass filter: a node without its neighbours' mean."""
    return (1.0, -0.5)


def one_way(adjacency: sp.csr_array, config: GraphConfig) -> sp.csr_array:
    """Items hear from users, users keep what they have: not symmetric."""
    return sp.csr_array(sp.eye_array(M + N) + sp.tril(adjacency))


def nothing(adjacency: sp.csr_array, config: GraphConfig) -> str:
    return "nothing"


def too_small(adjacency: sp.csr_array, config: GraphConfig) -> Any:
    return np.eye(3)


def toy_edges(seed: int = 0) -> tuple[IntArray, IntArray]:
    users, items = np.nonzero(np.random.default_rng(seed).random((M, N)) < 0.3)
    return users.astype(np.int32), items.astype(np.int32)


def toy_vectors(d: int = 5) -> Float32Array:
    return np.random.default_rng(1).normal(size=(M + N, d)).astype(np.float32)


def toy(graph: str, layers: int) -> Propagation:
    return build_propagation(GraphConfig(graph=graph, layers=layers, teleport=0.2), M, N, *toy_edges())


@pytest.mark.parametrize("layers", [0, 1, 2, 3])
def test_lightgcn_is_the_mean_of_the_matrix_powers(layers: int) -> None:
    A = normalised_adjacency(M, N, *toy_edges()).toarray()
    G = sum(np.linalg.matrix_power(A, k) for k in range(layers + 1)) / (layers + 1)
    np.testing.assert_allclose(toy("lightgcn", layers).apply(toy_vectors()), G @ toy_vectors(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("layers", [0, 1, 2, 3])
def test_sgc_is_a_power_of_the_looped_adjacency(layers: int) -> None:
    A = normalised_adjacency(M, N, *toy_edges(), self_loops=True).toarray()
    expected = np.linalg.matrix_power(A, layers) @ toy_vectors()
    np.testing.assert_allclose(toy("sgc", layers).apply(toy_vectors()), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("layers", [0, 1, 2, 3])
def test_appnp_is_the_teleporting_iteration(layers: int) -> None:
    """Z <- (1 - beta) A Z + beta H, started at H, K times: the definition that the corrected weights must give."""
    A = normalised_adjacency(M, N, *toy_edges()).toarray()
    expected = start = toy_vectors()
    for _ in range(layers):
        expected = 0.8 * A @ expected + 0.2 * start
    np.testing.assert_allclose(toy("appnp", layers).apply(start), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("layers", [0, 1, 4])
def test_appnp_weights_sum_to_one(layers: int) -> None:
    assert sum(appnp_weights(0.1, layers)) == pytest.approx(1.0)


def test_free_weights_are_used_as_given() -> None:
    A = normalised_adjacency(M, N, *toy_edges())
    G = 2 * np.eye(M + N) - 0.5 * np.linalg.matrix_power(A.toarray(), 2)
    found = Polynomial(A, (2.0, 0.0, -0.5)).apply(toy_vectors())
    np.testing.assert_allclose(found, G @ toy_vectors(), rtol=1e-4, atol=1e-5)


def test_propagation_is_its_own_transpose() -> None:
    """<G x, y> = <x, G y>: the backward pass may use the same operator."""
    G, x, y = toy("lightgcn", 3), toy_vectors(), toy_vectors()[::-1]
    assert np.vdot(G.apply(x), y) == pytest.approx(np.vdot(x, G.apply(np.ascontiguousarray(y))), rel=1e-4)


@pytest.mark.parametrize("graph", ["lightgcn", "sgc", "appnp"])
def test_variances_use_the_squared_entries_of_the_operator(graph: str) -> None:
    G = toy(graph, 2)
    dense = G.apply(np.eye(M + N, dtype=np.float32))
    s2 = toy_vectors() ** 2
    np.testing.assert_allclose(G.variances(s2, rng=np.random.default_rng(0)), dense**2 @ s2, rtol=1e-4)


def test_probed_variances_agree_with_the_exact_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EXACT_NODES", 0)
    monkeypatch.setattr(module, "N_PROBES", 1000)
    G = toy("lightgcn", 2)
    exact = G.apply(np.eye(M + N, dtype=np.float32)) ** 2 @ (toy_vectors() ** 2)
    np.testing.assert_allclose(G.variances(toy_vectors() ** 2, rng=np.random.default_rng(0)), exact, rtol=0.25)


def test_a_function_of_one_s_own_gives_the_coefficients_of_the_polynomial() -> None:
    A = normalised_adjacency(M, N, *toy_edges()).toarray()
    expected = toy_vectors() - 0.5 * A @ toy_vectors()
    np.testing.assert_allclose(toy(f"{HERE}:coefficients", 1).apply(toy_vectors()), expected, rtol=1e-4, atol=1e-6)


def test_a_function_of_one_s_own_gives_any_linear_map_with_its_adjoint() -> None:
    G, x, y = toy(f"{HERE}:one_way", 1), toy_vectors(), np.ascontiguousarray(toy_vectors()[::-1])
    dense = G.apply(np.eye(M + N, dtype=np.float32))
    assert not np.allclose(dense, dense.T)
    assert np.vdot(G.apply(x), y) == pytest.approx(np.vdot(x, G.adjoint(y)), rel=1e-4)
    np.testing.assert_allclose(G.variances(x**2, rng=np.random.default_rng(0)), dense**2 @ x**2, rtol=1e-4)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing", "nothing returned str"),
        ("too_small", r"returned a map of shape \(3, 3\)"),
        ("missing", "cannot import .*has no attribute 'missing'"),
    ],
)
def test_what_is_no_graph_is_refused(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        toy(f"{HERE}:{name}", 1)


def test_matrix_factorisation_leaves_vectors_as_they_are() -> None:
    np.testing.assert_array_equal(toy("none", 3).apply(toy_vectors()), toy_vectors())
    np.testing.assert_array_equal(toy("lightgcn", 0).apply(toy_vectors()), toy_vectors())


def test_wrong_number_of_layer_weights_is_refused() -> None:
    with pytest.raises(ConfigError, match="2 entries, 2 layers need 3"):
        lightgcn_weights(2, (0.5, 0.5))
