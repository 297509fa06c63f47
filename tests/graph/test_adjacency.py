import numpy as np
import pytest

from igcf.config import GraphConfig
from igcf.errors import DataError
from igcf.graph import GraphWarning, build_propagation, normalised_adjacency
from igcf.graph.adjacency import warn_if_degenerate

USERS = np.array([0, 0, 1, 3], dtype=np.int32)
ITEMS = np.array([0, 1, 1, 2], dtype=np.int32)


def test_entries_are_one_over_the_root_of_both_degrees() -> None:
    """User 0 has items 0 and 1; item 1 has users 0 and 1: the entry of (user 0, item 1) is 1 / sqrt(2 * 2)."""
    dense = normalised_adjacency(4, 3, USERS, ITEMS).toarray()
    assert dense[0, 4 + 1] == pytest.approx(1 / 2)
    assert dense[0, 4 + 0] == pytest.approx(1 / np.sqrt(2))
    assert dense[3, 4 + 2] == pytest.approx(1.0)


def test_matrix_is_symmetric_and_bipartite() -> None:
    dense = normalised_adjacency(4, 3, USERS, ITEMS).toarray()
    np.testing.assert_array_equal(dense, dense.T)
    assert not dense[:4, :4].any()
    assert not dense[4:, 4:].any()


def test_node_without_edges_has_a_zero_row_and_no_nan() -> None:
    dense = normalised_adjacency(4, 3, USERS, ITEMS).toarray()
    assert not dense[2].any()
    assert np.isfinite(dense).all()


def test_repeated_edges_count_once() -> None:
    twice = normalised_adjacency(4, 3, np.repeat(USERS, 2), np.repeat(ITEMS, 2))
    np.testing.assert_array_equal(twice.toarray(), normalised_adjacency(4, 3, USERS, ITEMS).toarray())


def test_self_loops_give_the_matrix_of_sgc() -> None:
    plain = (normalised_adjacency(4, 3, USERS, ITEMS).toarray() > 0).astype(float) + np.eye(7)
    scale = np.diag(1 / np.sqrt(plain.sum(axis=1)))
    looped = normalised_adjacency(4, 3, USERS, ITEMS, self_loops=True)
    np.testing.assert_allclose(looped.toarray(), scale @ plain @ scale, rtol=1e-6)


def test_graph_without_any_edge_is_all_zero() -> None:
    none = np.array([], dtype=np.int32)
    assert normalised_adjacency(2, 3, none, none).toarray().tolist() == np.zeros((5, 5)).tolist()


def test_eigenvalues_lie_between_minus_one_and_one() -> None:
    values = np.linalg.eigvalsh(normalised_adjacency(4, 3, USERS, ITEMS).toarray())
    assert np.abs(values).max() == pytest.approx(1.0, abs=1e-6)


def test_unequal_columns_are_refused() -> None:
    with pytest.raises(DataError, match="one user and one item each"):
        normalised_adjacency(4, 3, USERS, ITEMS[:2])


def test_complete_graph_warns_and_names_the_way_out() -> None:
    users, items = (each.ravel() for each in np.indices((4, 3)))
    with pytest.warns(GraphWarning, match="edges=satisfied or layers=0"):
        build_propagation(GraphConfig(layers=2), 4, 3, users, items)


def test_complete_graph_without_layers_does_not_warn() -> None:
    users, items = (each.ravel() for each in np.indices((4, 3)))
    build_propagation(GraphConfig(layers=0), 4, 3, users, items)


def test_isolated_items_do_not_hide_a_complete_graph() -> None:
    users, items = (each.ravel() for each in np.indices((4, 3)))
    with pytest.warns(GraphWarning, match="100%"):
        warn_if_degenerate(30, users, items)


def test_sparse_graph_does_not_warn() -> None:
    warn_if_degenerate(3, USERS, ITEMS)
