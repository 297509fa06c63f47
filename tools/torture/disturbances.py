"""Clocks that jump, answers that get lost, memory that runs out, and a stop in the middle of a model swap."""

import resource
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from igcf.model.files import model_id
from tools.torture import calls
from tools.torture.ledger import Reaction
from tools.torture.load import clients
from tools.torture.places import Place
from tools.torture.results import Trial
from tools.torture.servers import Forked, Launcher, Served, wait_until_ready
from tools.torture.writes import faulty

HOUR, DAY, YEAR = 3600, 86_400, 31_536_000
FOLLOW_S = 20.0
"""Within this time all servers serve what was announced; the machine may be busy."""


def clock_jumps(place: Place, jumps: int = 20) -> Iterator[Trial]:
    """Set the clock of two servers ahead and back under load, five jumps at a time."""
    rng, each = place.rng, 5
    with faulty(place) as (faults, launcher):
        servers = [launcher.start(place.models[0], place.url) for _ in range(2)]
        ports = [server.port for server in servers]
        try:
            for port in ports:
                wait_until_ready(port)
            for number in range(jumps // each):
                with clients(place.ledger, ports, f"j{number}", rng, with_skips=False):
                    for _ in range(each):
                        faults.set_clock(rng.choice((-1, 1)) * rng.choice((1, 90, HOUR, DAY, 10 * YEAR)))
                        time.sleep(rng.uniform(0.02, 0.3))
                faults.set_clock(0)
                yield Trial("the clock jumps", place.name, problems=place.check(*ports), tried=each)
        finally:
            for server in servers:
                server.stop()


def lost_answers(place: Place, launcher: Launcher, n: int = 60) -> Iterator[Trial]:
    """Clients go away before their answer and send the same reaction again, at once and to another server."""
    rng, ledger = place.rng, place.ledger
    servers = [launcher.start(place.models[0], place.url) for _ in range(2)]
    ports = [server.port for server in servers]
    try:
        for port in ports:
            wait_until_ready(port)
        for number in range(n):
            reaction = Reaction(f"lost-{number % 4}", f"lost-e{number}", f"item-{number}", 1.0 + number % 5)
            ledger.add(reaction)
            path, wait = f"/v1/users/{reaction.user}/feedback", rng.uniform(0.0, 0.05)
            calls.send_and_leave(rng.choice(ports), path, reaction.body(), after_s=wait)
            if rng.random() < 0.5:
                calls.react(ledger, rng.choice(ports), reaction)
        yield Trial("answers that nobody waits for, and retries", place.name, problems=place.check(*ports), tried=n)
    finally:
        for server in servers:
            server.stop()


def out_of_memory(place: Place, launcher: Launcher, n: int = 6) -> Iterator[Trial]:
    """Leave a server little memory during large requests, or kill it in the middle of one, as the kernel does."""
    rng = place.rng
    place.ledger.allowed |= {500}
    server = launcher.start(place.models[0], place.url)
    try:
        for number in range(n):
            wait_until_ready(server.port)
            sender = threading.Thread(target=_large_request, args=(place, server.port, number))
            is_kill = rng.random() < 0.5
            if is_kill:
                sender.start()
                time.sleep(rng.uniform(0.0, 0.3))
                server.kill()
                sender.join()
            else:
                unlimited = resource.prlimit(server.pid, resource.RLIMIT_AS)
                size = int(Path(f"/proc/{server.pid}/statm").read_text().split()[0]) * resource.getpagesize()
                room = rng.randrange(100_000, 12_000_000)
                resource.prlimit(server.pid, resource.RLIMIT_AS, (size + room, unlimited[1]))
                sender.start()
                sender.join()
                if server.is_alive():
                    resource.prlimit(server.pid, resource.RLIMIT_AS, unlimited)
            if not server.is_alive():
                server = launcher.start(place.models[0], place.url)
            wait_until_ready(server.port)
            name = "killed in a large request, as for lack of memory" if is_kill else "no memory in a large request"
            yield Trial(name, place.name, problems=place.check(server.port))
    finally:
        server.stop()


def _large_request(place: Place, port: int, number: int) -> None:
    reactions = [
        Reaction(
            f"big{number}-{n % 15}", f"big{number}-e{n}", f"item-{n}", 1.0 + n % 5, "logged" if n > 195 else "shown"
        )
        for n in range(210)
    ]
    for reaction in reactions:
        place.ledger.add(reaction)
    calls.react_batch(place.ledger, port, [each for each in reactions if each.evidence == "shown"])
    for reaction in reactions[196:]:
        calls.react(place.ledger, port, reaction)


def stop_in_swap(place: Place, launcher: Launcher, n: int = 5) -> Iterator[Trial]:
    """Two forked servers: one swaps its model while one or both receive SIGTERM."""
    servers = [launcher.start(place.models[0], place.url) for _ in range(2)]
    try:
        for number in range(n):
            for server in servers:
                wait_until_ready(server.port)
            yield _stop_once(place, launcher, servers, number)
    finally:
        for server in servers:
            server.stop()


def _stop_once(place: Place, launcher: Launcher, servers: list[Forked], number: int) -> Trial:
    rng, told = place.rng, list[str]()
    wanted = place.models[(number + 1) % 2]
    with clients(place.ledger, [server.port for server in servers], f"w{number}", rng, n=3):
        swap = threading.Thread(target=_swap, args=(servers[0].port, wanted, told))
        swap.start()
        time.sleep(rng.uniform(0.0, 0.15))
        victims = rng.choice(([0], [1], [0, 1]))
        for victim in victims:
            servers[victim].stop()
        swap.join()
    for victim in victims:
        servers[victim] = launcher.start(place.models[0], place.url)
    ports = [server.port for server in servers]
    for port in ports:
        wait_until_ready(port)
    problems = _agreement(ports, model_id(wanted) if told == ["200"] else None)
    return Trial("SIGTERM during a model swap", place.name, problems=problems + place.check(*ports))


def stop_served_in_swap(place: Place, n: int = 2) -> Iterator[Trial]:
    """`igcf serve --workers 2` receives SIGTERM during a model swap."""
    log = place.folder / "served.log"
    server = Served(place.models[0], place.url, log)
    try:
        for number in range(n):
            wait_until_ready(server.port)
            wanted, told = place.models[(number + 1) % 2], list[str]()
            with clients(place.ledger, [server.port], f"t{number}", place.rng, n=3):
                swap = threading.Thread(target=_swap, args=(server.port, wanted, told))
                swap.start()
                time.sleep(place.rng.uniform(0.0, 0.3))
                started = time.monotonic()
                code = server.stop()
                swap.join()
            server = Served(place.models[0], place.url, log)
            recovered = wait_until_ready(server.port) - started
            problems = [] if code == 0 else [f"the server ended with code {code}"]
            problems += _agreement([server.port] * 4, model_id(wanted) if told == ["200"] else None)
            problems += place.check(server.port)
            yield Trial("SIGTERM of igcf serve during a swap", place.name, problems=problems, recovery_s=recovered)
    finally:
        server.stop()


def _swap(port: int, folder: Path, told: list[str]) -> None:
    try:
        told.append(str(calls.call(port, "POST", "/v1/model", {"folder": str(folder)}).status))
    except calls.Lost as lost:
        told.append(str(lost))


def _agreement(ports: list[int], wanted: str | None) -> list[str]:
    """Check that all servers serve one model within a while: the one with the acknowledged swap, where it was."""
    deadline = time.monotonic() + FOLLOW_S
    while True:
        found = {calls.call(port, "GET", "/v1/model").body["model"] for port in ports}
        if len(found) == 1 and (wanted is None or found == {wanted}):
            return []
        if time.monotonic() > deadline:
            return [f"models {found} are served, {wanted or 'one of them'} was announced"]
        time.sleep(0.05)
