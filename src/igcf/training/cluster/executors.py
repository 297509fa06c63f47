"""Workers that hold parts of a log: processes of this machine or actors of a Ray cluster.

All run the same functions (`igcf.training.experts.executor`), each worker in one thread, and give the same results.
"""

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import Any, Literal, get_args

from igcf.config import Config, GraphConfig
from igcf.errors import ConfigError, ModelError, WorkerLostError
from igcf.graph.sparse_products import compiled
from igcf.threads import at_most_threads, one_thread_for_new_libraries
from igcf.training.cluster.ray_cluster import ray_cluster
from igcf.training.experts.executor import Executor, Worker, array_bytes

Engine = Literal["local", "ray"]
ENGINES: tuple[str, ...] = get_args(Engine)
OBJECT_STORE_BYTES = 1 << 30  # shared memory of a Ray cluster started here; what does not fit is written to disk
START_S = 120.0  # seconds that the workers of a cluster may take to start
SMALL_BYTES = 1 << 20
GO_ON = "the same command with --resume continues from the last finished stage"


@dataclass(frozen=True)
class Workers:
    """Number of workers of a training, and the engine that starts them."""

    shards: int | None = None  # number of workers; None: one, or one per machine of a Ray cluster
    engine: Engine | None = None  # what starts the workers; None: processes of this machine
    address: str | None = None  # address of a running Ray cluster; None: one is started on this machine

    @property
    def are_asked_for(self) -> bool:
        """Whether the caller asked for workers at all."""
        return self != Workers()

    def check(self, config: Config) -> None:
        """Refuse what cannot work before anything is read or started."""
        if isinstance(config, GraphConfig) and self.are_asked_for:
            raise ConfigError("the graph model is trained by one process; leave shards, engine and address out")
        if self.engine is not None and self.engine not in ENGINES:
            raise ConfigError(f"engine must be one of {', '.join(ENGINES)}, got {self.engine!r}")
        if self.address is not None and self.engine != "ray":
            raise ConfigError(f"an address is that of a Ray cluster: it needs engine=ray, got {self.engine or 'local'}")
        if self.shards is not None and self.shards < 1:
            raise ConfigError(f"shards must be at least 1, got {self.shards}")


class PartActor:
    """A worker with what it holds, in a process of its own."""

    def __init__(self) -> None:
        with one_thread_for_new_libraries():
            compiled()
        self._limits = ExitStack()
        self._limits.enter_context(at_most_threads(1))
        self._worker = Worker()

    def process(self) -> int:
        """Return the number of the process, to name the worker by."""
        return os.getpid()

    def run(self, function: Callable[..., Any], shared: tuple[Any, ...], own: tuple[Any, ...]) -> Any:
        """Call a function with the worker as its first argument."""
        try:
            return function(self._worker, *shared, *own)
        except OSError as error:  # told as such: to the one who leads it might look like a lost connection
            hint = (
                "; all machines must see the log and the state folder" if isinstance(error, FileNotFoundError) else ""
            )
            raise ModelError(f"a worker could not read or write a file: {error}{hint}") from None


class Remote(Executor):
    """Workers elsewhere: `start` begins a call at one of them, `results` waits for all."""

    def __init__(
        self,
        size: int,
        start: Callable[[int, tuple[Any, ...]], Any],
        results: Callable[[list[Any]], list[Any]],
        put: Callable[[Any], Any] | None = None,
    ) -> None:
        self.size = size
        self._start, self._results, self._put = start, results, put

    def call(
        self, function: Callable[..., Any], *shared: Any, each: Sequence[tuple[Any, ...]] | None = None
    ) -> list[Any]:
        """Call the function on every worker at the same time."""
        own = [()] * self.size if each is None else each
        common: Any = shared
        n_bytes = array_bytes(shared)
        if self._put is not None and n_bytes > SMALL_BYTES:
            common = self._put(shared)
        found = self._results([self._start(number, (function, common, own[number])) for number in range(self.size)])
        self.exchanged += self.size * n_bytes + array_bytes(list(own)) + array_bytes(found)
        return found


@contextmanager
def open_workers(workers: Workers) -> Iterator[Executor]:
    """Start the workers on the engine that was asked for; they end with the block."""
    start = _ray_workers if workers.engine == "ray" else _local_workers
    with one_thread_for_new_libraries(), start(workers) as executor:
        yield executor


@contextmanager
def _local_workers(workers: Workers) -> Iterator[Executor]:
    context = multiprocessing.get_context("spawn")
    size = workers.shards or 1
    with ExitStack() as stack:
        pools = [ProcessPoolExecutor(1, mp_context=context, initializer=_start_actor) for _ in range(size)]
        for pool in pools:
            stack.callback(pool.shutdown, cancel_futures=True)
        try:
            pids = [pool.submit(os.getpid).result() for pool in pools]
        except BrokenProcessPool as error:
            raise WorkerLostError(f"one of {size} processes ended before it could work ({error})") from error

        def results(calls: list[Any]) -> list[Any]:
            found = []
            for number, call in enumerate(calls):
                try:
                    found.append(call.result())
                except BrokenProcessPool as error:
                    raise _lost(number, size, f"process {pids[number]}") from error
            return found

        yield Remote(size, lambda number, arguments: pools[number].submit(_run, *arguments), results)


_ACTOR: list[PartActor] = []


def _start_actor() -> None:
    """Begin a process of `_local_workers`: it ends with the one that started it, however that ends."""
    parent = multiprocessing.parent_process()
    assert parent is not None  # noqa: S101

    def end_with_parent() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
    _ACTOR.append(PartActor())


def _run(*arguments: Any) -> Any:
    return _ACTOR[0].run(*arguments)


@contextmanager
def _ray_workers(workers: Workers) -> Iterator[Executor]:
    n_cpus = workers.shards or 1
    with ray_cluster(workers.address, n_cpus=n_cpus, object_store_bytes=OBJECT_STORE_BYTES) as ray:
        size = workers.shards or sum(bool(node["Alive"]) for node in ray.nodes())
        kind = ray.remote(num_cpus=1, max_restarts=0, scheduling_strategy="SPREAD")(PartActor)
        actors = [kind.remote() for _ in range(size)]
        names = [actor.process.remote() for actor in actors]
        ready, _ = ray.wait(names, num_returns=size, timeout=START_S)
        if len(ready) < size:
            raise ConfigError(
                f"the Ray cluster has room for {len(ready)} of {size} workers; each needs one CPU, lower shards"
            )
        pids = ray.get(names)

        def results(calls: list[Any]) -> list[Any]:
            found = []
            for number, call in enumerate(calls):
                try:
                    found.append(ray.get(call))
                except ray.exceptions.RayTaskError as error:
                    raise error.cause from None
                except ray.exceptions.RayError as error:
                    raise _lost(number, size, f"process {pids[number]} on the Ray cluster") from error
            return found

        try:
            yield Remote(size, lambda number, arguments: actors[number].run.remote(*arguments), results, ray.put)
        finally:
            for actor in actors:
                ray.kill(actor)


def _lost(number: int, size: int, name: str) -> WorkerLostError:
    return WorkerLostError(f"worker {number + 1} of {size} ({name}) died; {GO_ON}")
