"""How many threads the numeric libraries use: limited for a block of code, restored after it whatever happens in it."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Literal

Library = Literal["blas", "openmp", "numba", "torch"]
ALL_LIBRARIES: tuple[Library, ...] = ("blas", "openmp", "numba", "torch")
VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""Environment variables that a numeric library reads once, when it is loaded."""


@contextmanager
def at_most_threads(number: int, libraries: Sequence[Library] = ALL_LIBRARIES) -> Iterator[None]:
    """Let the libraries use at most `number` threads each inside the block.

    Libraries that are not loaded yet are left alone; `one_thread_for_new_libraries` is for those.
    """
    with ExitStack() as restore:
        for name in ("numba", "torch"):  # numba first: starting its threads sets the number that torch uses
            module = sys.modules.get(name)
            if module is not None and name in libraries:
                before = module.get_num_threads()
                restore.callback(module.set_num_threads, before)
                module.set_num_threads(min(before, number))
        if pools := [name for name in ("blas", "openmp") if name in libraries]:
            from threadpoolctl import ThreadpoolController

            controller = ThreadpoolController()
            for pool in pools:
                most = max([1, *(each.num_threads for each in controller.select(user_api=pool).lib_controllers)])
                if most > number:
                    restore.enter_context(controller.limit(limits=number, user_api=pool))
        yield


def blas_threads() -> int:
    """Return how many threads linear algebra uses now."""
    from threadpoolctl import threadpool_info

    return max([1, *(int(pool["num_threads"]) for pool in threadpool_info() if pool["user_api"] == "blas")])


@contextmanager
def one_thread_for_new_libraries() -> Iterator[None]:
    """Let libraries that are first loaded inside the block, here or in a child process, start with one thread."""
    before = {name: os.environ.get(name) for name in VARIABLES}
    os.environ.update(dict.fromkeys(VARIABLES, "1"))
    if "numba" not in sys.modules:  # numba reads it once and sets the threads of everybody; it must not change later
        os.environ.setdefault("NUMBA_NUM_THREADS", "1")
    try:
        yield
    finally:
        for name in VARIABLES:
            os.environ.pop(name)
        os.environ.update({name: value for name, value in before.items() if value is not None})


def prefer_one_thread() -> None:
    """Start numeric libraries with one thread in this process unless the environment says otherwise.

    It has an effect on libraries that are not loaded yet, so it comes before the import of NumPy.
    """
    for name in VARIABLES:
        os.environ.setdefault(name, "1")
