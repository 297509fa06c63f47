"""Measurements: jobs timed in turn, the ratio of two of them, and how much is measured."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from igcf.arrays import FloatArray
from igcf.threads import at_most_threads

Job = Callable[[], object]
Clock = Literal["cpu", "wall"]
"""Kind of time: `cpu` is processor time, for jobs in one thread; `wall` is for jobs that use several."""
one_thread = partial(at_most_threads, 1)
"""Context manager that keeps BLAS, torch and numba in one thread."""
PAUSE = 0.005
"""Seconds of rest before a job that is timed by the wall: the threads of the one before stop spinning."""


@dataclass(frozen=True)
class Row:
    """Comparison of our time with a reference; `ratio` is our time divided by the reference's."""

    group: str
    job: str
    against: str
    ours_ms: float
    reference_ms: float
    ratio: float
    at_most: float | None  # largest ratio that meets the target; None without a target
    clock: Clock
    repeats: int

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, and whether the target is met."""
        return {**asdict(self), "met": None if self.at_most is None else self.ratio <= self.at_most}


def interleaved(jobs: Mapping[str, Job], *, repeats: int, run: int = 1, clock: Clock = "cpu") -> dict[str, FloatArray]:
    """Time every job `repeats` times, in seconds, the jobs taking turns so that a busy moment strikes all alike.

    A turn is the mean of `run` executions in a row: with more than one, a job finds its data where it left them.
    """
    now = time.process_time if clock == "cpu" else time.perf_counter
    pause = 0.0 if clock == "cpu" else PAUSE
    seconds = {name: np.empty(repeats) for name in jobs}
    for job in jobs.values():  # the first run compiles, touches memory, wakes threads
        job()
    for turn in range(repeats):
        for name, job in jobs.items():
            time.sleep(pause)
            begun = now()
            for _ in range(run):
                job()
            seconds[name][turn] = (now() - begun) / run
    return seconds


def compared(
    group: str,
    job: str,
    against: str,
    ours: FloatArray,
    reference: FloatArray,
    *,
    at_most: float | None = None,
    clock: Clock = "cpu",
) -> Row:
    """Compare our seconds with the reference's, turn by turn.

    Processor time: the median of the ratios of neighbouring turns, and the median times. Wall time: the shortest of
    each, because other programs on the machine can only lengthen it.
    """
    typical = np.median if clock == "cpu" else np.min
    own, other = float(typical(ours)), float(typical(reference))
    ratio = float(np.median(ours / reference)) if clock == "cpu" else own / other
    return Row(group, job, against, own * 1e3, other * 1e3, ratio, at_most, clock, len(ours))


def exponent(sizes: Sequence[int], values: Sequence[float]) -> float:
    """Return the slope of log value over log size, least squares."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Sizes and repetitions of all parts."""

    dim: int = 64
    items: tuple[tuple[int, int, int], ...] = ((3_706, 12, 100), (100_000, 6, 10), (1_000_000, 4, 4))
    """Catalogue sizes of the single user, each with turns and rounds in a row per turn."""
    textbook_items: int = 100_000  # largest catalogue that the textbook way is measured on
    indexed: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    history: int = 100  # stored reactions that a belief is rebuilt from
    logged: tuple[int, int, int] = (500, 40, 100_000)
    """Logged reactions of a known user, directions of the graph, items of the largest catalogue they are tried on."""
    users: int = 200
    rounds: int = 120
    log: tuple[int, int, int] = (3_020, 3_706, 500_000)  # users, items, interactions of the graph: 10^6 non-zeros
    dims: tuple[int, ...] = (32, 64, 128, 256)
    repeats: int = 15  # of the sparse products
    step_repeats: int = 10
    expert_dims: tuple[int, int] = (49, 33)  # of the default model
    starts: int = 7  # processes for each start-up time
    peer_items: int = 3_706
    peer_repeats: int = 4


FULL = Sizes()
QUICK = Sizes(
    dim=8, items=((200, 3, 2), (1_000, 2, 2)), textbook_items=1_000, indexed=(300, 1_200), history=10,
    logged=(10, 3, 1_000), users=6, rounds=4, log=(60, 40, 300), dims=(4, 8), repeats=2, step_repeats=2,
    expert_dims=(4, 3), starts=1, peer_items=50, peer_repeats=1,
)  # fmt: skip
