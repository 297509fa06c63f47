import numpy as np
import pytest
import scipy.sparse as sp

from igcf.errors import ConfigError
from igcf.graph import normalised_adjacency
from igcf.graph.filter import FilterSettings, fit_graph_filter, leading_vectors


def successes(n_users: int = 60, n_items: int = 14) -> sp.csr_array:
    return sp.csr_array((np.random.default_rng(4).random((n_users, n_items)) < 0.3).astype(np.float32))


@pytest.mark.parametrize(("p", "q"), [(0.5, 0.5), (0.3, 0.4)])
def test_scores_are_the_dense_formula(p: float, q: float) -> None:
    """f(x) = [x P + b x D^-q V V' D^q] (I - c P) D^g, written with dense matrices and an exact decomposition."""
    edges, b, c, g = successes(), 0.3, 0.7, 0.1
    settings = FilterSettings(user_exponent=p, item_exponent=q, rank=3, low_pass=b, sharpening=c, popularity=g)
    fitted = fit_graph_filter(edges, settings, rng=np.random.default_rng(0))
    dense = edges.toarray().astype(np.float64)
    d_user, d_item = np.maximum(dense.sum(1), 1), np.maximum(dense.sum(0), 1)
    normalised = dense / d_user[:, None] ** p / d_item**q
    _, size, axes = np.linalg.svd(normalised)
    P = normalised.T @ normalised / size[0] ** 2
    V = axes[:3].T
    x = dense[:7]
    low = (x / d_item**q) @ V @ V.T * d_item**q
    expected = (x @ P + b * low) @ (np.eye(len(P)) - c * P) * d_item**g
    np.testing.assert_allclose(fitted.scores(sp.csr_array(x.astype(np.float32))), expected, rtol=1e-3, atol=1e-4)


def test_with_symmetric_normalisation_two_hops_are_the_item_block_of_the_squared_adjacency() -> None:
    edges = successes()
    users, items = edges.nonzero()
    adjacency = normalised_adjacency(edges.shape[0], edges.shape[1], users, items).toarray()
    settings = FilterSettings(low_pass=0.0, sharpening=0.0, popularity=0.0, rank=1)
    fitted = fit_graph_filter(edges, settings, rng=np.random.default_rng(0))
    block = (adjacency @ adjacency)[edges.shape[0] :, edges.shape[0] :]
    np.testing.assert_allclose(fitted.scores(sp.csr_array(np.eye(edges.shape[1], dtype=np.float32))), block, atol=1e-5)


def test_an_edge_counts_by_its_weight_and_an_isolated_item_scores_nothing() -> None:
    edges = sp.csr_array(np.array([[1, 1, 0], [1, 1, 0], [0, 1, 0]], dtype=np.float32))
    record = sp.csr_array(np.array([[1.0, 0.0, 0.0]], dtype=np.float32))
    found = fit_graph_filter(edges, rng=np.random.default_rng(0)).scores(record)
    weak = edges.copy()
    weak.data[0] = 0.5
    assert not np.allclose(fit_graph_filter(weak, rng=np.random.default_rng(0)).scores(record), found)
    assert found[0, 1] > found[0, 2] == pytest.approx(0.0, abs=1e-6)


def test_the_rank_is_cut_to_what_the_graph_has() -> None:
    _, vectors = leading_vectors(sp.csr_array(np.eye(4, dtype=np.float32)), 50, rng=np.random.default_rng(0))
    assert vectors.shape == (4, 4)


@pytest.mark.parametrize(("name", "value"), [("rank", 0), ("sharpening", -0.1), ("low_pass", np.nan)])
def test_settings_outside_their_range_are_refused(name: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"{name} of a graph filter must be .*, got {value}"):
        FilterSettings(**{name: value})  # type: ignore[arg-type]
