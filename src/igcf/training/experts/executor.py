"""Run a function on every worker; a worker holds some of the users and runs threads of its own.

The caller sums the results. A single process runs the same code with one worker (`Executor`); those of
`igcf.training.cluster.executors` are processes of this machine or actors of a Ray cluster. The pieces of a worker are
the same whatever the number of threads, so that the result does not depend on it.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from igcf.arrays import Float32Array
from igcf.threads import at_most_threads, blas_threads

if TYPE_CHECKING:
    from igcf.training.experts.linear import LinearRows
    from igcf.training.experts.logistic_steps import Sample
    from igcf.training.experts.shared_log import Part

BLOCK = 256  # number of rows per thread that are dense at the same time
Piece = TypeVar("Piece")
Done = TypeVar("Done")
_THREADS: ContextVar[int] = ContextVar("threads", default=1)


class Worker:
    """What one worker holds: its part of the log, and what the current stage of training needs."""

    def __init__(self, part: "Part | None" = None) -> None:
        self._part = part
        self.linear: LinearRows | None = None
        self.sample: Sample | None = None
        self.truth: Float32Array | None = None

    def hold(self, part: "Part") -> None:
        """Take other users."""
        self._part, self.linear = part, None

    @property
    def part(self) -> "Part":
        """The users of this worker."""
        assert self._part is not None, "this worker holds no users"  # noqa: S101
        return self._part


class Executor:
    """Workers that each hold a part of the users: one, in this process; others override `call`."""

    size = 1  # number of workers
    exchanged = 0  # number of bytes of arrays that were sent to workers and came back so far
    held: object = None  # whose rows the workers hold at present (`Fits`)

    def __init__(self, worker: Worker | None = None) -> None:
        self._worker = worker or Worker()

    def call(
        self, function: Callable[..., Any], *shared: Any, each: Sequence[tuple[Any, ...]] | None = None
    ) -> list[Any]:
        """Return `function(worker, *shared, *each[number])` of every worker, in their order.

        `function` is one of a module, so that workers elsewhere find it by its name.
        """
        return [function(self._worker, *shared, *(each[0] if each is not None else ()))]


def array_bytes(value: Any) -> int:
    """Count the bytes of all arrays in nested tuples, lists, dictionaries and objects with fields."""
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if isinstance(value, (tuple, list)):
        return sum(array_bytes(each) for each in value)
    if isinstance(value, dict):
        return sum(array_bytes(each) for each in value.values())
    return array_bytes(vars(value)) if hasattr(value, "__dict__") and not callable(value) else 0


def ranges(n_rows: int, n_workers: int, block: int) -> list[tuple[slice]]:
    """Divide rows among the workers: equal numbers of whole blocks, so that the blocks are those of one worker."""
    n_blocks = -(-n_rows // block)
    bounds = [min(n_blocks * worker // n_workers * block, n_rows) for worker in range(n_workers + 1)]
    return [(slice(start, stop),) for start, stop in pairwise(bounds)]


@contextmanager
def one_thread_each() -> Iterator[None]:
    """Let pieces run in as many threads as linear algebra had, and linear algebra in one.

    BLAS splits products only, which are half of the work here, and its threads spin while they wait for the rest.
    """
    token = _THREADS.set(blas_threads())
    try:
        with at_most_threads(1, ("blas",)):
            yield
    finally:
        _THREADS.reset(token)


def in_blocks(work: Callable[[slice], None], n_rows: int) -> None:
    """Call `work` on every block of rows; it must write to its own rows only."""
    in_threads(work, [slice(start, min(start + BLOCK, n_rows)) for start in range(0, n_rows, BLOCK)])


def in_threads(work: Callable[[Piece], Done], pieces: Sequence[Piece]) -> list[Done]:
    """Return the results of `work` on every piece, in the order of the pieces."""
    n_threads = min(_THREADS.get(), len(pieces))
    if n_threads <= 1:
        return [work(piece) for piece in pieces]
    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(work, pieces))
