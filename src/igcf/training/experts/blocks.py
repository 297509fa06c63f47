"""Independent pieces of work in a few threads, each with one thread of linear algebra.

The pieces are the same whatever the number of threads, so that the result does not depend on it.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from igcf.threads import at_most_threads, blas_threads

BLOCK = 256
"""Number of rows per thread that are dense at the same time."""
Piece = TypeVar("Piece")
Done = TypeVar("Done")
_THREADS: ContextVar[int] = ContextVar("threads", default=1)


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
