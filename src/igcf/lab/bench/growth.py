"""Growth of time and memory of a training step grow with interactions, items and d."""

import gc
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from igcf.config import GraphConfig
from igcf.data.interactions import Interactions
from igcf.lab.bench.memory import PeakMemory
from igcf.lab.bench.sizes import Sizes
from igcf.lab.bench.timing import one_thread
from igcf.lab.bench.training import whole_step
from igcf.lab.bench.worlds import STARS, random_log
from igcf.training.variational.run import GraphTrainingData

LIMIT = 1.1
"""Largest exponent that passes as linear."""
STEPS = 3


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
    own_sizes = [point["size"] for point in points]
    memory = [point["peak_bytes"] for point in points]
    exponents = {
        "seconds": exponent(own_sizes, [point["seconds"] for point in points]),
        "peak_bytes": exponent(own_sizes, memory) if all(memory) else None,
    }
    is_met = all(value is None or value <= LIMIT for value in exponents.values())
    return {
        "against": what,
        "points": points,
        "exponents": exponents,
        "at_most": LIMIT,
        "met": is_met,
    }


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
    return {
        "interactions": len(data),
        "items": data.n_items,
        "dim": dim,
        "seconds": min(seconds),
        "peak_bytes": peak.bytes(),
    }


def exponent(sizes: Sequence[int], values: Sequence[float]) -> float:
    """Return the slope of log value over log size, least squares."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


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
        "at_most_bytes": 8e9,
        "met": None if total is None else total <= 8e9,
    }
