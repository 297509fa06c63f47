"""Independent pieces of work in a few threads, each with one thread of linear algebra.

The same pieces whatever the number of threads, so that the result does not depend on it.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

BLOCK = 256
"""Rows that are dense at the same time, per thread."""
Piece = TypeVar("Piece")
Done = TypeVar("Done")
_THREADS: ContextVar[int] = ContextVar("threads", default=1)


@contextmanager
def one_thread_each() -> Iterator[None]:
    """Let pieces run in as many threads as linear algebra had, and linear algebra in one.

    BLAS splits products only, which are half of the work here, and its threads spin while they wait for the rest.
    """
    from threadpoolctl import threadpool_info, threadpool_limits

    token = _THREADS.set(max([1, *(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")]))
    try:
        with threadpool_limits(limits=1, user_api="blas"):
            yield
    finally:
        _THREADS.reset(token)


def in_blocks(work: Callable[[slice], None], n_rows: int) -> None:
    """`work` on every block of rows; it must write to its own rows only."""
    in_threads(work, [slice(start, min(start + BLOCK, n_rows)) for start in range(0, n_rows, BLOCK)])


def in_threads(work: Callable[[Piece], Done], pieces: Sequence[Piece]) -> list[Done]:
    """What `work` makes of every piece, in their order."""
    n_threads = min(_THREADS.get(), len(pieces))
    if n_threads <= 1:
        return [work(piece) for piece in pieces]
    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(work, pieces))
