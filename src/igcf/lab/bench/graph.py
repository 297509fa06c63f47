"""Training of the graph model: beside the products it consists of, over growing sizes, and until it has learned."""

import gc
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from igcf.config import GraphConfig
from igcf.data import Interactions, load_dataset
from igcf.graph import Polynomial, csr_product, normalised_adjacency, sampled_products, sparse_product
from igcf.graph.sparse_products import compiled
from igcf.lab.bench.measure import Clock, PeakMemory, Row, compared, exponent, interleaved, one_thread
from igcf.lab.bench.sizes import Sizes
from igcf.lab.bench.worlds import STARS, random_log, random_pairs
from igcf.training import Progress, pretrain
from igcf.training.selection import held_out_users
from igcf.training.variational.run import GraphTrainingData
from igcf.training.variational.train import Trainer, step_threads

STEP_LIMIT = 1.5
LINEAR = 1.1
"""Largest exponent that passes as linear."""
STEPS = 3
MOST_BYTES = 8e9
SHARE, SECONDS = 0.99, 60.0
"""Share of the final precision that counts as learned, and the seconds within which it must be reached."""


def pretraining_rows(sizes: Sizes) -> dict[str, Any]:
    """Measure the sparse product and the whole step, in one thread and in as many as the libraries take."""
    rows: list[Row] = []
    compiled()  # loads numba, whose threads are then counted
    with one_thread():
        rows += [*sparse_rows(sizes, "cpu"), step_row(sizes, "cpu")]
    rows += [*sparse_rows(sizes, "wall"), step_row(sizes, "wall")]
    return {"rows": [row.as_dict() for row in rows]}


def sparse_rows(sizes: Sizes, clock: Clock) -> list[Row]:
    """Measure the sparse product beside those of torch and SciPy, over the adjacency of a random log.

    The targets are for all cores, so they belong to the rows by the wall.
    """
    n_users, n_items, n_pairs = sizes.log
    adjacency = normalised_adjacency(n_users, n_items, *random_pairs(n_users, n_items, n_pairs))
    in_torch = torch_csr(adjacency)
    rows = []
    for dim in sizes.dims:
        dense = np.random.default_rng(dim).standard_normal((n_users + n_items, dim), dtype=np.float32)
        jobs = product_jobs(adjacency, in_torch, dense)
        seconds = interleaved(jobs, repeats=sizes.repeats, clock=clock)
        best = min(("torch.sparse CSR", "SciPy CSR"), key=lambda name: float(seconds[name].min()))
        for name in ("torch.sparse CSR", "SciPy CSR"):
            limit = None if name != best or clock == "cpu" else 1 / 1.5 if dim == 128 else 1.0
            job = f"sparse product, {adjacency.nnz:,} non-zeros, d={dim}"
            rows.append(compared("pretraining", job, name, seconds["ours"], seconds[name], at_most=limit, clock=clock))
    return rows


def torch_csr(matrix: sp.csr_array) -> torch.Tensor:
    """Convert a sparse matrix to torch."""
    indptr, indices = (torch.from_numpy(each.astype(np.int64)) for each in (matrix.indptr, matrix.indices))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(
            indptr, indices, torch.from_numpy(matrix.data), size=matrix.shape, check_invariants=False
        )


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
    seconds = interleaved(
        {"products": bare_products(world), "ours": whole_step(world)}, repeats=sizes.step_repeats, clock=clock
    )
    return compared(
        "pretraining",
        f"training step, {len(world.data):,} interactions, d={config.dim}, {config.layers} layers",
        "its sparse and dense products",
        seconds["ours"],
        seconds["products"],
        at_most=STEP_LIMIT,
        clock=clock,
    )


def whole_step(world: GraphTrainingData) -> Callable[[], object]:
    """A step on all pairs; the parameters go on from call to call."""
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
        with step_threads(
            world.training_pairs, world.config
        ):  # torch's threads would slow down the next sparse product
            of_users, of_items = users.T @ users, items.T @ items
            users @ of_items
            items @ of_users

    return products


def growth_curves(sizes: Sizes) -> dict[str, Any]:
    """Seconds and bytes of one step, in one thread, over growing sizes, with the exponents of both."""
    dim, catalogue, pairs = sizes.growth_dim, sizes.log[1], sizes.interactions[0]
    with one_thread():
        curves = [
            _curve("interactions", [(n, (_users(n), catalogue, n), dim) for n in sizes.interactions]),
            _curve("items", [(n, (_users(pairs), n, pairs), dim) for n in sizes.catalogues]),
            _curve("d", [(d, sizes.log, d) for d in sizes.growth_dims]),
        ]
    return {"curves": curves, "huge": None if sizes.huge is None else read_and_step(sizes.huge, dim)}


def _users(n_pairs: int) -> int:
    """Return a number of users with about as many reactions each as in ML-1M."""
    return max(n_pairs // 165, 10)


def _curve(what: str, cases: Sequence[tuple[int, tuple[int, int, int], int]]) -> dict[str, Any]:
    points = [{"size": size, **one_step(log, dim)} for size, log, dim in cases]
    own_sizes, seconds, memory = ([point[name] for point in points] for name in ("size", "seconds", "peak_bytes"))
    time_exponent, memory_exponent = exponent(own_sizes, seconds), exponent(own_sizes, memory) if all(memory) else None
    is_met = time_exponent <= LINEAR and (memory_exponent is None or memory_exponent <= LINEAR)
    exponents = {"seconds": time_exponent, "peak_bytes": memory_exponent}
    return {"against": what, "points": points, "exponents": exponents, "at_most": LINEAR, "met": is_met}


def one_step(log: tuple[int, int, int], dim: int) -> dict[str, Any]:
    """Measure the processor seconds of the fastest of a few steps, and the peak memory of graph and steps together."""
    data = random_log(*log)
    gc.collect()
    peak = PeakMemory()
    step = whole_step(GraphTrainingData.from_log(data, GraphConfig(dim=dim), STARS))
    step()
    seconds = []
    for _ in range(STEPS):
        begun = time.process_time()
        step()
        seconds.append(time.process_time() - begun)
    size = {"interactions": len(data), "items": data.n_items, "dim": dim}
    return {**size, "seconds": min(seconds), "peak_bytes": peak.bytes()}


def read_and_step(size: tuple[int, int, int], dim: int) -> dict[str, Any]:
    """Read a log from a Parquet file, build the graph, take steps; peak memory of the whole process."""
    import polars as pl

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        log = random_log(*size)
        frame = pl.DataFrame({"user": log.user_idx, "item": log.item_idx, "value": log.values})
        frame.write_parquet(path)
        del log, frame
        gc.collect()
        peak = PeakMemory()
        begun = time.perf_counter()
        data = Interactions.from_parquet(path)
    read = time.perf_counter()
    step = whole_step(GraphTrainingData.from_log(data, GraphConfig(dim=dim), STARS))
    built = time.perf_counter()
    step()
    first = time.perf_counter()
    step()
    done = time.perf_counter()
    total = peak.total()
    return {
        "users": data.n_users,
        "items": data.n_items,
        "interactions": len(data),
        "dim": dim,
        "seconds": {"read": read - begun, "graph": built - read, "first_step": first - built, "step": done - first},
        "peak_bytes": total,
        "at_most_bytes": MOST_BYTES,
        "met": None if total is None else total <= MOST_BYTES,
    }


def learning_part(sizes: Sizes) -> dict[str, Any]:
    """Measure the learning curve of the data set that was asked for; nothing without one."""
    return {} if sizes.dataset is None else learning_curve(sizes.dataset)


def learning_curve(dataset: str, config: GraphConfig | None = None) -> dict[str, Any]:
    """Train on all but the validation users of `dataset`; seconds by the wall, all threads, reading not counted.

    A look at the validation users is part of the time, as is everything else up to it.
    """
    config = GraphConfig() if config is None else config
    data = load_dataset(dataset)
    held_out = np.isin(data.user_idx, held_out_users(data, config.holdout))
    looks: list[dict[str, float]] = []
    begun = time.perf_counter()

    def note(progress: Progress) -> None:
        if progress.validation is not None:
            seconds = time.perf_counter() - begun
            looks.append({"epoch": progress.epoch, "precision": progress.validation, "seconds": seconds})

    pretrain(data.subset(~held_out), config, validation=data.subset(held_out), progress=note)
    final = max(look["precision"] for look in looks)
    reached = next(look for look in looks if look["precision"] >= SHARE * final)
    return {
        "dataset": dataset,
        "interactions": len(data),
        "share": SHARE,
        "final_precision": final,
        "reached": reached,
        "seconds_in_all": looks[-1]["seconds"],
        "looks": looks,
        "at_most": SECONDS,
        "met": reached["seconds"] <= SECONDS,
    }
