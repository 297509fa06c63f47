from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp

from igcf.arrays import Float32Array
from igcf.errors import DataError
from igcf.graph import sampled_products, sparse_product
from igcf.graph import sparse_products as products

SHAPES = [(1, 1, 1), (7, 1, 3), (1, 9, 5), (23, 17, 1), (130, 61, 33), (64, 200, 64), (301, 5, 7)]


def random_csr(rows: int, columns: int, *, density: float = 0.3, seed: int = 0) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    matrix = sp.random_array((rows, columns), density=density, rng=rng, dtype=np.float32, format="csr")
    return sp.csr_array(matrix)


def random_vectors(rows: int, d: int, seed: int = 1) -> Float32Array:
    return np.random.default_rng(seed).normal(size=(rows, d)).astype(np.float32)


@pytest.fixture(params=["threaded", "tiled", "one thread", "without numba"])
def _kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "SMALL", 0 if request.param in ("threaded", "tiled") else 1 << 40)
    monkeypatch.setattr(products, "LARGE_BYTES", 0 if request.param == "tiled" else 1 << 40)
    monkeypatch.setattr(products, "TILE_BYTES", 200)
    monkeypatch.setattr(products, "MOST_VISITS", float("inf"))
    if request.param == "without numba":
        monkeypatch.setattr(products, "compiled", lambda: None)


@pytest.mark.usefixtures("_kernel")
@pytest.mark.parametrize(("rows", "columns", "d"), SHAPES)
def test_product_equals_the_dense_product(rows: int, columns: int, d: int) -> None:
    matrix, dense = random_csr(rows, columns), random_vectors(columns, d)
    np.testing.assert_allclose(sparse_product(matrix, dense), matrix.toarray() @ dense, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("_kernel")
def test_second_term_is_added_with_its_scale() -> None:
    matrix, dense, plus = random_csr(30, 30), random_vectors(30, 5), random_vectors(30, 5, seed=2)
    expected = matrix.toarray() @ dense + 0.25 * plus
    np.testing.assert_allclose(sparse_product(matrix, dense, plus=plus, scale=0.25), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("_kernel")
@pytest.mark.parametrize(("rows", "columns", "d"), SHAPES)
def test_sampled_products_equal_the_entries_of_the_full_product(rows: int, columns: int, d: int) -> None:
    pattern, left, right = random_csr(rows, columns), random_vectors(rows, d), random_vectors(columns, d, seed=2)
    row_of, column_of = pattern.tocoo().coords
    found = sampled_products(pattern.indptr, pattern.indices, left, right)
    np.testing.assert_allclose(found, (left @ right.T)[row_of, column_of], rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("_kernel")
def test_empty_rows_give_zero_rows() -> None:
    matrix = sp.csr_array((np.ones(1, np.float32), ([3], [2])), shape=(6, 4))
    product = sparse_product(matrix, np.ones((4, 3), dtype=np.float32))
    assert product.sum(axis=1).tolist() == [0, 0, 0, 3, 0, 0]


@pytest.mark.usefixtures("_kernel")
def test_matrix_without_entries_gives_zeros() -> None:
    matrix = sp.csr_array((4, 4), dtype=np.float32)
    assert not sparse_product(matrix, np.ones((4, 3), dtype=np.float32)).any()
    assert sampled_products(matrix.indptr, matrix.indices, random_vectors(4, 3), random_vectors(4, 3)).shape == (0,)


def test_inputs_that_are_not_contiguous_give_the_same_product() -> None:
    matrix, dense = random_csr(40, 30), random_vectors(30, 12)
    np.testing.assert_array_equal(sparse_product(matrix, np.asfortranarray(dense)), sparse_product(matrix, dense))


def test_result_does_not_depend_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    import numba

    monkeypatch.setattr(products, "SMALL", 0)
    matrix, dense = random_csr(500, 300), random_vectors(300, 16)
    threads = numba.get_num_threads()
    both = sparse_product(matrix, dense)
    try:
        numba.set_num_threads(1)
        np.testing.assert_array_equal(sparse_product(matrix, dense), both)
    finally:
        numba.set_num_threads(threads)


def test_chunks_cover_all_rows_once() -> None:
    matrix = random_csr(1000, 50)
    bounds = products.chunks(matrix.indptr)
    assert bounds[0] == 0
    assert bounds[-1] == 1000
    assert (np.diff(bounds) >= 0).all()


def test_few_entries_in_many_rows_are_not_visited_tile_by_tile(monkeypatch: pytest.MonkeyPatch) -> None:
    """The visits would grow with the square of the rows."""
    monkeypatch.setattr(products, "SMALL", 0)
    monkeypatch.setattr(products, "LARGE_BYTES", 0)
    monkeypatch.setattr(products, "TILE_BYTES", 200)
    module = products.compiled()
    assert module is not None
    monkeypatch.setattr(module, "add_tiled_product", None)
    matrix, dense = random_csr(300, 300, density=0.01), random_vectors(300, 5)
    np.testing.assert_allclose(sparse_product(matrix, dense), matrix.toarray() @ dense, rtol=1e-4, atol=1e-5)


def test_vectors_of_another_size_are_refused() -> None:
    with pytest.raises(DataError, match=r"30 nodes, the vectors have shape \(29, 4\)"):
        sparse_product(random_csr(30, 30), random_vectors(29, 4))


def test_several_threads_may_multiply_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "SMALL", 0)
    matrix, dense = random_csr(500, 300), random_vectors(300, 16)
    expected = sparse_product(matrix, dense)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: sparse_product(matrix, dense), range(40)))
    assert all(np.array_equal(result, expected) for result in results)
