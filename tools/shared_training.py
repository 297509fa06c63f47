"""Measures the training of the default model on workers: time of each process, memory, bytes exchanged.

    python -m tools.shared_training --log /tmp/log --shards 1 --shards 2 --set iterations=3

Wall time depends on the neighbours of a shared machine. The critical path does not: processor time of the leading
process, plus that of the slowest worker in every call, which is what a machine with a free core for each would take.
"""

import json
import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from igcf.config import ExpertsConfig, configured, parse_settings
from igcf.data.log_files import LogFiles
from igcf.training.checkpoint import Checkpoint
from igcf.training.cluster.executors import Workers, open_workers
from igcf.training.cluster.sharing import shared_log
from igcf.training.experts import fit_experts
from igcf.training.experts.executor import Executor, Worker
from igcf.training.progress import watching


class Timed(Executor):
    """Workers of another executor, with their processor time by the name of the function."""

    def __init__(self, inner: Executor) -> None:
        self._inner, self.size = inner, inner.size
        self.slowest: dict[str, float] = {}
        self.all = 0.0
        self.exchanged = self.peak = 0

    def call(
        self, function: Callable[..., Any], *shared: Any, each: Sequence[tuple[Any, ...]] | None = None
    ) -> list[Any]:
        """Call the function on every worker and note how long each computed."""
        own = [()] * self.size if each is None else each
        found = self._inner.call(timed, function, shared, each=[(one,) for one in own])
        self.exchanged = self._inner.exchanged
        name = function.__name__
        self.slowest[name] = self.slowest.get(name, 0.0) + max(seconds for _, seconds, _ in found)
        self.all += sum(seconds for _, seconds, _ in found)
        self.peak = max(self.peak, *(peak for _, _, peak in found))
        return [result for result, _, _ in found]


def timed(
    worker: Worker, function: Callable[..., Any], shared: tuple[Any, ...], own: tuple[Any, ...]
) -> tuple[Any, float, int]:
    """Call a function; return its result, its processor time and the largest memory of the process so far."""
    begun = time.process_time()
    result = function(worker, *shared, *own)
    return result, time.process_time() - begun, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@click.command()
@click.option("--log", "path", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--shards", type=int, multiple=True, required=True)
@click.option("--engine", default="local")
@click.option("--set", "others", multiple=True, metavar="NAME=VALUE")
@click.option("--state", type=click.Path(path_type=Path), help="Folder of the state, which is kept and gone on from.")
def main(path: Path, shards: tuple[int, ...], engine: Any, others: tuple[str, ...], state: Path | None) -> None:
    """Train once for each number of workers and print one JSON document each."""
    config = configured(ExpertsConfig(), parse_settings(others))
    assert isinstance(config, ExpertsConfig)
    for number in shards:
        with tempfile.TemporaryDirectory() as folder:
            click.echo(json.dumps(measured(path, Workers(number, engine), config, state or Path(folder))))


def measured(path: Path, workers: Workers, config: ExpertsConfig, folder: Path) -> dict[str, Any]:
    """Train once."""
    begun, driver = time.perf_counter(), time.process_time()
    with open_workers(workers) as started, watching(True) as watch:
        executor = Timed(started)
        log = shared_log(LogFiles(path), executor, folder)
        read = sum(executor.slowest.values())
        model = fit_experts(log, config, progress=watch, checkpoint=Checkpoint(folder))
        own = time.process_time() - driver
        return {
            "workers": executor.size,
            "reactions": log.n_reactions,
            "wall_s": round(time.perf_counter() - begun, 1),
            "leading_process_cpu_s": round(own, 1),
            "workers_cpu_s": round(executor.all, 1),
            "critical_path_s": round(own + sum(executor.slowest.values()), 1),
            "of_it_reading_s": round(read, 1),
            "slowest_worker_cpu_s": {name: round(each, 1) for name, each in executor.slowest.items() if each > 0.5},
            "worker_peak_mb": executor.peak >> 20,
            "leading_process_peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
            "exchanged_mb": executor.exchanged >> 20,
            "chosen": model.metadata["chosen"],
            "precision": model.metadata["metrics"]["validation_precision"],
        }


if __name__ == "__main__":
    main()
