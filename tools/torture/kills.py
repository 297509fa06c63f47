"""Hard kills at random moments under mixed load."""

import time
from collections.abc import Iterator

from tools.torture.load import clients
from tools.torture.places import Place, check_whole_store
from tools.torture.results import WHOLE, Trial
from tools.torture.servers import READY_S, Forked, Launcher, Served, wait_until_ready

LONGEST_S = 0.5
"""Load before a kill, at most."""
SERVERS = 3


def kill_forked(place: Place, launcher: Launcher, turns: int = 8) -> Iterator[Trial]:
    """Three servers on one store, forked: one after the other is killed while clients continue with the others.

    Sometimes it is the database that is killed instead.
    """
    servers = [launcher.start(place.models[0], place.url) for _ in range(SERVERS)]
    try:
        for number in range(turns):
            for server in servers:
                wait_until_ready(server.port)
            yield _kill_in_turn(place, launcher, servers, number)
        problems = place.check(*(server.port for server in servers), is_whole=True)
        problems += check_whole_store(place.url)
        yield Trial(WHOLE, place.name, problems=problems)
    finally:
        for server in servers:
            server.stop()


def _kill_in_turn(place: Place, launcher: Launcher, servers: list[Forked], number: int) -> Trial:
    rng, cluster = place.rng, place.cluster
    victims = rng.sample(range(SERVERS), SERVERS)
    is_database = cluster is not None and rng.random() < 0.15
    with clients(place.ledger, [server.port for server in servers], f"k{number}", rng):
        time.sleep(rng.uniform(0.02, LONGEST_S))
        started = time.monotonic()
        if is_database and cluster is not None:
            cluster.stop()
            cluster.start()
        else:
            for victim in victims:
                servers[victim].kill()
                time.sleep(rng.uniform(0, 0.02 if victim == victims[-1] else LONGEST_S / 2))
    if not is_database:
        for victim in victims:
            servers[victim] = launcher.start(place.models[0], place.url)
    recovered = max(wait_until_ready(server.port) for server in servers) - started
    ports = [server.port for server in servers]
    problems = place.check(*ports)
    if is_database:
        return Trial("kill of the database", place.name, problems=problems, recovery_s=recovered)
    return Trial("kill of a forked server", place.name, problems=problems, tried=SERVERS)


def kill_served(place: Place, kills: int = 4) -> Iterator[Trial]:
    """`igcf serve --workers 2`: a worker, the supervisor or the whole group is killed; what ended is started again."""
    log = place.folder / "served.log"
    server = Served(place.models[0], place.url, log)
    try:
        wait_until_ready(server.port)
        for number in range(kills):
            kind = place.rng.choice(("worker", "supervisor", "group"))
            workers = server.workers()
            with clients(place.ledger, [server.port], f"s{number}", place.rng):
                time.sleep(place.rng.uniform(0.02, LONGEST_S))
                started = time.monotonic()
                if kind == "worker":
                    server.kill(place.rng.choice(workers))
                elif kind == "supervisor":
                    server.kill(server.process.pid)
                else:
                    server.kill(server.process.pid, *workers)
                time.sleep(place.rng.uniform(0, 0.05))
            if kind == "worker":
                recovered = _wait_for_restart(server, workers) - started
            else:
                server.wait(workers)
                server = Served(place.models[0], place.url, log)
                recovered = wait_until_ready(server.port) - started
            problems = place.check(server.port)
            yield Trial(f"kill of the {kind}", place.name, problems=problems, recovery_s=recovered)
    finally:
        server.stop()
    yield Trial(WHOLE, place.name, problems=check_whole_store(place.url))


def _wait_for_restart(server: Served, before: list[int], seconds: float = 2 * READY_S) -> float:
    deadline = time.monotonic() + seconds
    while len(server.workers()) < len(before) or set(server.workers()) <= set(before):
        if time.monotonic() > deadline:
            raise TimeoutError("the worker was not started again")
        time.sleep(0.02)
    return wait_until_ready(server.port)
