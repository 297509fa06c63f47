"""Training of the graph model beside the products it consists of."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from igcf.config import GraphConfig
from igcf.graph import Polynomial, csr_product, normalised_adjacency, sampled_products, sparse_product
from igcf.graph.sparse_products import compiled
from igcf.lab.bench.measure import Clock, Row, Sizes, compared, interleaved, one_thread
from igcf.lab.bench.worlds import STARS, random_log, random_pairs
from igcf.training.variational.run import GraphTrainingData
from igcf.training.variational.train import Trainer, step_threads

STEP_LIMIT = 1.5


def pretraining_rows(sizes: Sizes) -> dict[str, Any]:
    """Measure the sparse product on all cores, and the whole step in one thread and on all."""
    compiled()  # loads numba, so that its threads are counted
    with one_thread():
        alone = step_row(sizes, "cpu")
    return {"rows": [row.as_dict() for row in (alone, *sparse_rows(sizes), step_row(sizes, "wall"))]}


def sparse_rows(sizes: Sizes) -> list[Row]:
    """Measure the sparse product beside that of torch or SciPy, the faster one, over the adjacency of a random log."""
    n_users, n_items, n_pairs = sizes.log
    adjacency = normalised_adjacency(n_users, n_items, *random_pairs(n_users, n_items, n_pairs))
    in_torch = torch_csr(adjacency)
    rows = []
    for dim in sizes.dims:
        dense = np.random.default_rng(dim).standard_normal((n_users + n_items, dim), dtype=np.float32)
        jobs = product_jobs(adjacency, in_torch, dense)
        seconds = interleaved(jobs, repeats=sizes.repeats, clock="wall")
        best = min(("torch.sparse CSR", "SciPy CSR"), key=lambda name: float(seconds[name].min()))
        limit = 1 / 1.5 if dim == 128 else 1.0
        job = f"sparse product, {adjacency.nnz:,} non-zeros, d={dim}"
        rows.append(compared("pretraining", job, best, seconds["ours"], seconds[best], at_most=limit, clock="wall"))
    return rows


def torch_csr(matrix: sp.csr_array) -> torch.Tensor:
    """Convert a sparse matrix to torch."""
    indptr, indices = (torch.from_numpy(each.astype(np.int64)) for each in (matrix.indptr, matrix.indices))
    values = torch.from_numpy(matrix.data)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(indptr, indices, values, size=matrix.shape, check_invariants=False)


def product_jobs(
    adjacency: sp.csr_array, in_torch: torch.Tensor, dense: np.ndarray[Any, np.dtype[np.float32]]
) -> dict[str, Callable[[], object]]:
    """Return jobs that compute the product `adjacency @ dense` in three ways."""
    dense_torch = torch.from_numpy(dense)
    return {
        "ours": lambda: sparse_product(adjacency, dense),
        "torch.sparse CSR": lambda: in_torch @ dense_torch,
        "SciPy CSR": lambda: adjacency @ dense,
    }


def step_row(sizes: Sizes, clock: Clock) -> Row:
    """A whole training step (sample, propagate, score, likelihood, KL, gradients, Adam) beside its products."""
    config = GraphConfig(dim=sizes.dim)
    world = GraphTrainingData.from_log(random_log(*sizes.log), config, STARS)
    jobs = {"products": bare_products(world), "ours": whole_step(world)}
    seconds = interleaved(jobs, repeats=sizes.step_repeats, clock=clock)
    job = f"training step, {len(world.data):,} interactions, d={config.dim}, {config.layers} layers"
    against = ("its sparse and dense products", seconds["ours"], seconds["products"])
    return compared("pretraining", job, *against, at_most=STEP_LIMIT, clock=clock)


def whole_step(world: GraphTrainingData) -> Callable[[], object]:
    """Return a step on all pairs; its parameters carry over from call to call."""
    trainer, pairs = Trainer(world.training_pairs, world.config), world.training_pairs.all_pairs

    def step() -> object:
        with step_threads(world.training_pairs, world.config):  # as `Trainer.epoch` does it
            return trainer.step(pairs, 0)

    return step


def bare_products(world: GraphTrainingData) -> Callable[[], object]:
    """The products of such a step: 2 K with the adjacency, 3 at the pairs, 4 dense ones; the same kernels."""
    pairs, graph = world.training_pairs.all_pairs, world.training_pairs.propagation
    assert isinstance(graph, Polynomial)  # noqa: S101
    nodes = np.random.default_rng(0).standard_normal((graph.n_nodes, world.config.dim), dtype=np.float32)
    U, V = nodes[: world.data.n_users], nodes[world.data.n_users :]
    values = pairs.targets
    by_item = values[pairs.by_item]

    def products() -> None:
        for _ in range(2 * (len(graph.weights) - 1)):
            sparse_product(graph.adjacency, nodes)
        sampled_products(pairs.indptr, pairs.items, U, V)
        csr_product(pairs.indptr, pairs.items, values, V)
        csr_product(pairs.item_indptr, pairs.item_users, by_item, U)
        users, items = (torch.from_numpy(side) for side in (U, V))
        with step_threads(world.training_pairs, world.config):  # torch's threads would slow down the next product
            of_users, of_items = users.T @ users, items.T @ items
            users @ of_items
            items @ of_users

    return products
