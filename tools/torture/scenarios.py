"""The scenarios by name, how often each is to be tried, and how one round of it is run."""

import random
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.service.postgres import Cluster
from tools.torture.cuts import cut_connections
from tools.torture.disturbances import clock_jumps, lost_answers, out_of_memory, stop_in_swap, stop_served_in_swap
from tools.torture.interleaving import interleavings
from tools.torture.kills import kill_forked, kill_served
from tools.torture.operations import OPERATIONS
from tools.torture.places import Place, place
from tools.torture.power import can_mount, power_cuts
from tools.torture.results import Trial
from tools.torture.servers import Launcher
from tools.torture.writes import every_write, random_writes


class Tools:
    """What rounds share, made when it is first needed: a launcher and a database."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="igcf-torture-tools-"))
        self._launcher: Launcher | None = None
        self._cluster: Cluster | None = None

    @property
    def launcher(self) -> Launcher:
        """The process that forks servers."""
        self._launcher = self._launcher or Launcher(self.folder)
        return self._launcher

    @property
    def cluster(self) -> Cluster:
        """A PostgreSQL of our own, which may be stopped."""
        self._cluster = self._cluster or Cluster()
        return self._cluster

    def close(self) -> None:
        """End what was started."""
        if self._launcher is not None:
            self._launcher.close()
        if self._cluster is not None:
            self._cluster.close()


Round = Callable[[Tools, int], Iterator[Trial]]


@dataclass(frozen=True)
class Scenario:
    """A scenario and how many trials of it a whole run has."""

    run: Round
    """Runs one round from a seed."""
    goal: int
    is_possible: Callable[[], bool] = lambda: True
    """Whether this machine lets us; asked where nobody names scenarios."""


def _kill_sqlite(tools: Tools, seed: int) -> Iterator[Trial]:
    with place(seed) as here:
        yield from kill_forked(here, tools.launcher)


def _kill_postgres(tools: Tools, seed: int) -> Iterator[Trial]:
    with place(seed, tools.cluster) as here:
        yield from kill_forked(here, tools.launcher)


def _serve_sqlite(_: Tools, seed: int) -> Iterator[Trial]:
    with place(seed) as here:
        yield from kill_served(here)


def _serve_postgres(tools: Tools, seed: int) -> Iterator[Trial]:
    with place(seed, tools.cluster) as here:
        yield from kill_served(here)


def _every_write(_: Tools, seed: int) -> Iterator[Trial]:
    operation = list(OPERATIONS)[seed % len(OPERATIONS)]
    with place(seed) as here:
        yield from every_write(here, [operation])


def _random_writes(_: Tools, seed: int) -> Iterator[Trial]:
    with place(seed) as here:
        yield from random_writes(here)


def _cut_connections(tools: Tools, seed: int) -> Iterator[Trial]:
    operation = list(OPERATIONS)[seed % len(OPERATIONS)]
    with place(seed, tools.cluster) as here:
        yield from cut_connections(here, tools.launcher, operation)


def _interleave(_: Tools, seed: int) -> Iterator[Trial]:
    yield from interleavings(seed)


def _clock_jumps(_: Tools, seed: int) -> Iterator[Trial]:
    with place(seed) as here:
        yield from clock_jumps(here)


def _power_cut(_: Tools, seed: int) -> Iterator[Trial]:
    yield from power_cuts(random.Random(seed))


def _on_either(run: Callable[[Place, Launcher], Iterator[Trial]]) -> Round:
    """Run a scenario on SQLite for even seeds and on PostgreSQL for odd ones."""

    def round_of(tools: Tools, seed: int) -> Iterator[Trial]:
        with place(seed, tools.cluster if seed % 2 else None) as here:
            yield from run(here, tools.launcher)

    return round_of


SCENARIOS = {
    "kill-sqlite": Scenario(_kill_sqlite, 900),
    "kill-postgres": Scenario(_kill_postgres, 180),
    "serve-sqlite": Scenario(_serve_sqlite, 100),
    "serve-postgres": Scenario(_serve_postgres, 40),
    "power-cut": Scenario(_power_cut, 200, can_mount),
    "every-write": Scenario(_every_write, 700),
    "random-writes": Scenario(_random_writes, 100),
    "cut-connections": Scenario(_cut_connections, 300),
    "interleave": Scenario(_interleave, 100_000),
    "clock-jumps": Scenario(_clock_jumps, 200),
    "lost-answers": Scenario(_on_either(lost_answers), 600),
    "out-of-memory": Scenario(_on_either(out_of_memory), 60),
    "stop-in-swap": Scenario(_on_either(stop_in_swap), 60),
    "stop-served-in-swap": Scenario(_on_either(lambda here, _: stop_served_in_swap(here)), 8),
}
