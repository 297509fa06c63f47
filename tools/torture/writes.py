"""A fault or a crash at every write call of every request that changes something (SQLite), and at random under load."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tools.torture.faults import MODES, Faults
from tools.torture.load import clients
from tools.torture.operations import OPERATIONS
from tools.torture.places import Place, check_whole_store
from tools.torture.results import WHOLE, Trial
from tools.torture.servers import Forked, Launcher, wait_for_end, wait_until_ready

MOST_CALLS = 200
"""No request makes so many write calls: the end of a loop that should end before."""


@contextmanager
def faulty(place: Place) -> Iterator[tuple[Faults, Launcher]]:
    """Provide a launcher of servers with faults."""
    faults = Faults(place.folder)
    launcher = faults.launcher(place.folder)
    try:
        yield faults, launcher
    finally:
        launcher.close()


def every_write(
    place: Place, operations: Sequence[str] = tuple(OPERATIONS), modes: Sequence[str] = tuple(MODES), *, step: int = 1
) -> Iterator[Trial]:
    """Let each write call of each request fail in each way, one at a time; with a `step`, only some of the calls."""
    with faulty(place) as (faults, launcher):
        server = launcher.start(place.models[0], place.url)
        try:
            for operation in operations:
                for mode in modes:
                    for at in range(1, MOST_CALLS, step):
                        server = _revived(place, launcher, server)
                        trial = _one_fault(place, faults, server, (operation, mode, at), launcher)
                        if trial is None:
                            break
                        yield trial
        finally:
            server.stop()
    yield from _whole_store(place)


def _one_fault(
    place: Place, faults: Faults, server: Forked, what: tuple[str, str, int], launcher: Launcher
) -> Trial | None:
    """Hit one call; None where the request makes fewer calls."""
    operation, mode, at = what
    send = OPERATIONS[operation](place.ledger, server.port, f"{operation} {mode} {at}".replace(" ", "-"))
    faults.arm(mode, at)
    send()
    if not faults.disarm():
        return None
    _wait_if_killed(server, mode)
    revived = _revived(place, launcher, server)
    problems = place.check(revived.port)
    if revived is not server:
        revived.stop()
    problems = [f"{operation}, {mode} at call {at}: {problem}" for problem in problems]
    return Trial(f"{mode} at every write call", place.name, problems=problems)


def _wait_if_killed(server: Forked, mode: str) -> None:
    """Wait for the end of a server that a fault kills: its connections end a moment before."""
    if mode.startswith("kill"):
        wait_for_end(server.pid)


def _revived(place: Place, launcher: Launcher, server: Forked) -> Forked:
    if not server.is_alive():
        server = launcher.start(place.models[0], place.url)
        wait_until_ready(server.port)
    return server


def random_writes(place: Place, faults_each: int = 20) -> Iterator[Trial]:
    """Let some calls fail while many clients write, checkpoints of the write-ahead log among them."""
    rng = place.rng
    with faulty(place) as (faults, launcher):
        server = launcher.start(place.models[0], place.url)
        try:
            wait_until_ready(server.port)
            for number in range(faults_each):
                server = _revived(place, launcher, server)
                mode = rng.choice(list(MODES))
                with clients(place.ledger, [server.port], f"f{number}", rng):
                    faults.arm(mode, rng.randint(1, 300), n=rng.choice((1, 1, 3, 100)))
                    time.sleep(rng.uniform(0.1, 0.6))
                is_fired = faults.disarm()
                if is_fired:
                    _wait_if_killed(server, mode)
                server = _revived(place, launcher, server)
                problems = place.check(server.port)
                yield Trial(f"{mode} under load", place.name, problems=problems, tried=int(is_fired))
        finally:
            server.stop()
    yield from _whole_store(place)


def _whole_store(place: Place) -> Iterator[Trial]:
    yield Trial(WHOLE, place.name, problems=check_whole_store(place.url))
