"""Load on a real server over loopback: `python -m tools.load`; bounded, ends by itself, prints one table.

A server is started with a random model (3,706 items, 64 dimensions) on a throw-away SQLite file, or on --store URL.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
import psycopg

from igcf.model import Model, Reward

TURN_S = 2.0
Request = Callable[[int], bytes]
"""The bytes of the n-th request."""
SETTLE_S = 1.2
"""Pause after a turn, so that what it leaves to be written in the background is counted with it."""
COLUMNS = "phase|requests|failed|per second|p50 ms|p99 ms|rate / healthz|p99 / p50|CPU ms|CPU / healthz|written kB"
BATCH = 1_000
WARM_UP_ROUNDS = 20
HEALTH, KNOWN = "/healthz", "recommend, known users"
HEALTH_AGAIN, SINGLE, MIXED = "/healthz beside writing", "feedback", "3 recommend : 1 feedback"
SINGLE_AGAIN, MANY = "feedback beside batches", f"batches of {BATCH:,} users"


@dataclass(frozen=True)
class Running:
    """A server under load."""

    port: int
    workers: tuple[int, ...]
    """Ids of the processes that answer."""
    store: str

    def cpu_s(self) -> float:
        """Processor time that the workers have used."""
        fields = [Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split() for pid in self.workers]
        return sum(int(each[11]) + int(each[12]) for each in fields) / os.sysconf("SC_CLK_TCK")

    def written(self) -> int:
        """Bytes that the workers have had written to disk, or, on PostgreSQL, that went to its write-ahead log."""
        if self.store.startswith("postgresql"):
            with psycopg.connect(self.store, autocommit=True) as connection:
                found = connection.execute("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')").fetchone()
                return int(found[0]) if found else 0
        rows = [line for pid in self.workers for line in Path(f"/proc/{pid}/io").read_text().splitlines()]
        return sum(int(row.split()[1]) for row in rows if row.startswith("write_bytes"))

    def resident_mb(self) -> float:
        """Memory of the workers."""
        pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in self.workers)
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@dataclass(frozen=True)
class Phase:
    """What one phase measured; times in milliseconds."""

    name: str
    requests: int
    failures: int
    seconds: float
    p50: float
    p99: float
    cpu: float
    """Processor time of the server per request; unlike the latencies it hardly depends on what else is running."""
    written: float
    """Bytes written per request."""

    @property
    def rate(self) -> float:
        """Requests per second."""
        return self.requests / self.seconds


def random_model(n_items: int = 3706, dim: int = 64) -> Model:
    """A model of ML-1M's size."""
    rng = np.random.default_rng(0)
    return Model(
        item_vectors=rng.normal(size=(n_items, dim)) / np.sqrt(dim),
        prior_mean=rng.normal(size=dim) * 0.3,
        prior_cov=np.diag(rng.uniform(0.5, 1.5, dim)),
        noise_var=0.2,
        item_ids=[str(i) for i in range(n_items)],
        titles=[f"Item {i}" for i in range(n_items)],
        reward=Reward("satisfied", threshold=4.0, low=1.0, high=5.0),
    )


def request(method: str, path: str, body: object = None) -> bytes:
    """One HTTP/1.1 request that keeps the connection."""
    content = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(content)}"
    return head.encode() + b"\r\n\r\n" + content


async def drive(
    port: int, make: Request, *, connections: int, total: int | None, seconds: float
) -> tuple[list[float], int]:
    """Keep `connections` busy until `total` requests or `seconds` are over; latencies and number of failures."""
    latencies: list[float] = []
    failures, started, deadline = 0, 0, time.perf_counter() + seconds

    async def one_connection() -> None:
        nonlocal failures, started
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.perf_counter() < deadline and (total is None or started < total):
            number, started = started, started + 1
            content = make(number)
            before = time.perf_counter()
            writer.write(content)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length:")[1].split(b"\r\n", 1)[0])
            await reader.readexactly(length)
            latencies.append(time.perf_counter() - before)
            failures += not head.startswith(b"HTTP/1.1 200")
        writer.close()
        await writer.wait_closed()

    await asyncio.gather(*(one_connection() for _ in range(connections)))
    return latencies, failures


@dataclass
class Turns:
    """What the turns of one phase have measured so far."""

    latencies: list[float] = field(default_factory=list)
    failures: int = 0
    seconds: float = 0.0
    cpu_s: float = 0.0
    written: int = 0

    def take(self, running: Running, make: Request, *, connections: int, total: int | None, seconds: float) -> None:
        """Take one turn, of so many requests or seconds, and let what it leaves behind be written.

        What the server does when nobody asks (looking for models, say) is measured first and not counted.
        """
        started, cpu = time.perf_counter(), running.cpu_s()
        time.sleep(SETTLE_S)
        idle = (running.cpu_s() - cpu) / (time.perf_counter() - started)
        started, cpu, written = time.perf_counter(), running.cpu_s(), running.written()
        part = partial(_shifted, make, len(self.latencies))  # every turn meets the next users
        found, failed = asyncio.run(drive(running.port, part, connections=connections, total=total, seconds=seconds))
        self.seconds += time.perf_counter() - started
        time.sleep(SETTLE_S)
        self.latencies += found
        self.failures += failed
        self.cpu_s += running.cpu_s() - cpu - idle * (time.perf_counter() - started)
        self.written += running.written() - written

    def phase(self, name: str) -> Phase:
        """Counts and quantiles."""
        n = len(self.latencies)
        p50, p99 = (np.quantile(self.latencies, [0.5, 0.99]) * 1e3).tolist()
        return Phase(name, n, self.failures, self.seconds, p50, p99, self.cpu_s / n * 1e3, self.written / n)


def measure(name: str, running: Running, make: Request, *, connections: int, total: int) -> Phase:
    """One phase by itself, of `total` requests."""
    turns = Turns()
    turns.take(running, make, connections=connections, total=total, seconds=600)
    return turns.phase(name)


def measure_in_turns(
    running: Running, makes: dict[str, Request], *, connections: dict[str, int], seconds: float
) -> list[Phase]:
    """Several phases in turns of two seconds, so that whatever else the machine does meets all of them alike."""
    turns = {name: Turns() for name in makes}
    for _ in range(max(1, round(seconds / TURN_S))):
        for name, make in makes.items():
            turns[name].take(running, make, connections=connections[name], total=None, seconds=TURN_S)
    return [each.phase(name) for name, each in turns.items()]


def _shifted(make: Request, first: int, n: int) -> bytes:
    return make(first + n)


@contextmanager
def server(folder: Path, store: str, workers: int, source: Path | None = None) -> Iterator[Running]:
    """A server that runs until the end of the block; `source` is the folder of another version's packages."""
    command = [sys.executable, "-m", "igcf", "serve", str(folder), "--port", "0", "--store", store, "--json"]
    command += ["--workers", str(workers), "--log-level", "warning"]
    environment = os.environ | ({} if source is None else {"PYTHONPATH": str(source)})
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment, cwd=folder.parent
    )
    try:
        assert process.stdout is not None
        text = ""
        while not text.rstrip().endswith("}"):
            line = process.stdout.readline()
            if not line:
                raise click.ClickException("the server did not start; run `igcf serve` by hand to see why")
            text += line
        port = int(json.loads(text)["url"].rsplit(":", 1)[1])
        wait_until_ready(port)
        yield Running(port, worker_ids(process.pid, workers), store)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)


def wait_until_ready(port: int, seconds: float = 600.0) -> None:
    """Wait for `/readyz`."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5):
                return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def worker_ids(parent: int, workers: int) -> tuple[int, ...]:
    """The processes that answer."""
    if workers == 1:
        return (parent,)
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    names = {int(child): Path(f"/proc/{child}/cmdline").read_text() for child in children}
    return tuple(child for child, name in names.items() if "resource_tracker" not in name)


def reactions_of(users: range, each: int) -> list[dict[str, Any]]:
    """Some history for every user."""
    rng = np.random.default_rng(users.start)
    return [
        {"user": f"u{user}", "item": str(item), "value": float(rng.integers(1, 6)), "event_id": f"{user}-{item}"}
        for user in users
        for item in rng.choice(3706, each, replace=False)
    ]


def phases(running: Running, *, connections: int, seconds: float, users: int) -> list[Phase]:
    """Phases that are compared take turns: those that read, then those that write, then batches."""
    recommend, react = prepared(running, connections=connections, users=users)

    def recommend_new(n: int) -> bytes:
        return request("POST", f"/v1/users/new{n}/recommendations", {"k": 5})

    def batch(first: int) -> bytes:
        entries = [{"user": f"u{n % users}", "item": str((first + n) * 7 % 3706), "value": 4.0} for n in range(BATCH)]
        return request("POST", "/v1/feedback", {"feedback": entries})

    health, batches = request("GET", "/healthz"), [batch(first) for first in range(8)]
    reading: dict[str, Request] = {HEALTH: lambda _: health, KNOWN: recommend, "recommend, new users": recommend_new}
    writing: dict[str, Request] = {
        HEALTH_AGAIN: lambda _: health,
        SINGLE: react,
        MIXED: lambda n: (recommend if n % 4 else react)(n),
    }
    many: dict[str, Request] = {SINGLE_AGAIN: react, MANY: lambda n: batches[n % len(batches)]}
    widths = dict.fromkeys([*reading, *writing, *many], connections) | {MANY: len(running.workers)}
    found = [measure_in_turns(running, each, connections=widths, seconds=seconds) for each in (reading, writing, many)]
    return [phase for each in found for phase in each]


def prepared(running: Running, *, connections: int, users: int) -> tuple[Request, Request]:
    """Give every user a history, load all of them into memory, and return requests to recommend and to react."""
    histories = [reactions_of(range(start, start + 100), 10) for start in range(0, users, 100)]

    def history(n: int) -> bytes:
        return request("POST", "/v1/feedback", {"feedback": histories[n]})

    def recommend(n: int) -> bytes:
        return request("POST", f"/v1/users/u{n % users}/recommendations", {"k": 5})

    def react(n: int) -> bytes:
        return request("POST", f"/v1/users/u{n % users}/feedback", {"item": str(n * 7 % 3706), "value": 4.0})

    measure("histories", running, history, connections=1, total=len(histories))
    warm_up(running, recommend, connections=connections, users=users)
    return recommend, react


def compared(before: Running, after: Running, *, connections: int, seconds: float, users: int) -> str:
    """Rates of two servers that take turns, second by second, and their ratios."""
    both = (before, after)
    makes = [prepared(running, connections=connections, users=users) for running in both]
    turns = [{KNOWN: Turns(), SINGLE: Turns()} for _ in both]
    for _ in range(max(1, round(seconds / TURN_S))):
        for place, name in enumerate((KNOWN, SINGLE)):
            for running, make, own in zip(both, makes, turns, strict=True):
                own[name].take(running, make[place], connections=connections, total=None, seconds=TURN_S)
    lines = [
        "| phase | before, per second | after | after / before | CPU ms before | after | failed |",
        "|---" * 7 + "|",
    ]
    for name in (KNOWN, SINGLE):
        old, new = (own[name].phase(name) for own in turns)
        failed = old.failures + new.failures
        rates = f"{old.rate:,.0f} | {new.rate:,.0f} | {new.rate / old.rate:.2f}"
        lines.append(f"| {name} | {rates} | {old.cpu:.2f} | {new.cpu:.2f} | {failed} |")
    return "\n".join(lines)


def warm_up(running: Running, recommend: Request, *, connections: int, users: int) -> None:
    """Ask for every user until every worker has loaded all of them: new connections go to any of the workers."""
    for _ in range(WARM_UP_ROUNDS):
        measure("warm up", running, recommend, connections=connections, total=2 * users)
        if sessions_loaded(running.port) >= users * len(running.workers):
            return
    click.echo("not every worker has loaded all users; answers to known users include loading some", err=True)


def sessions_loaded(port: int) -> float:
    """Count the sessions that the workers have read from the store."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.split()[1]) for line in lines if line.startswith('igcf_sessions_total{cache="miss"}'))


def memory(running: Running, *, connections: int, requests: int, users: int) -> list[tuple[int, float]]:
    """Resident memory after each tenth of `requests` for `users` users, one in four a reaction."""
    step, readings = requests // 10, []

    def make(n: int) -> bytes:
        user = n * 7919 % users
        if n % 4 == 0:
            return request("POST", f"/v1/users/m{user}/feedback", {"item": str(n % 3706), "value": 5.0})
        return request("POST", f"/v1/users/m{user}/recommendations", {"k": 5})

    for first in range(0, 10 * step, step):
        measure("memory", running, partial(_shifted, make, first), connections=connections, total=step)
        readings.append((first + step, running.resident_mb()))
    return readings


def table(found: list[Phase]) -> str:
    """The phases as Markdown, with ratios to `/healthz`."""
    base = found[0]
    lines = [f"| {COLUMNS.replace('|', ' | ')} |", "|---" * len(COLUMNS.split("|")) + "|"]
    lines += [
        f"| {each.name} | {each.requests:,} | {each.failures} | {each.rate:,.0f} | {each.p50:.1f} "
        f"| {each.p99:.1f} | {each.rate / base.rate:.2f} | {each.p99 / each.p50:.1f} | {each.cpu:.2f} "
        f"| {each.cpu / base.cpu:.2f} | {each.written / 1e3:.1f} |"
        for each in found
    ]
    return "\n".join(lines)


def goals(found: list[Phase]) -> str:
    """The ratios that matter, each beside what it is to be."""
    by_name = {each.name: each for each in found}
    health, single = by_name[HEALTH_AGAIN], by_name[SINGLE]
    many = BATCH * by_name[MANY].rate / by_name[SINGLE_AGAIN].rate
    rows = [
        ("reactions a second / health requests a second", single.rate / health.rate, ">= 0.5"),
        ("processor time, reaction / health", single.cpu / health.cpu, "<= 3"),
        ("processor time, recommend (known users) / health", by_name[KNOWN].cpu / by_name[HEALTH].cpu, "<= 2.2"),
        (f"reactions a second, batches of {BATCH:,} users / single", many, ">= 10"),
        ("p99 / p50 of the mixture", by_name[MIXED].p99 / by_name[MIXED].p50, "<= 10"),
        ("kB written per reaction", single.written / 1e3, "<= 5 (PostgreSQL)"),
    ]
    lines = ["| ratio | found | goal |", "|---|--:|--:|"]
    return "\n".join([*lines, *(f"| {name} | {value:.2f} | {goal} |" for name, value, goal in rows)])


@click.command()
@click.option("--model", type=click.Path(path_type=Path), help="Serve it; has items 0 to 3705. Default: a random one.")
@click.option("--store", help="Database URL; default: a throw-away SQLite file.")
@click.option("--workers", default=2, show_default=True)
@click.option("--connections", default=32, show_default=True)
@click.option("--seconds", default=60.0, show_default=True, help="Of each phase.")
@click.option("--users", default=1000, show_default=True, help="Known users in the latency phases.")
@click.option("--memory-requests", default=100_000, show_default=True, help="0: leave the memory phase out.")
@click.option("--memory-users", default=10_000, show_default=True)
@click.option("--before", type=click.Path(path_type=Path), help="Compare with the version in this `src` folder.")
@click.option(
    "--older", type=click.Path(path_type=Path), help="Model that the older version serves. Default: as above."
)
def main(  # noqa: PLR0913
    model: Path | None,
    store: str | None,
    workers: int,
    connections: int,
    seconds: float,
    users: int,
    memory_requests: int,
    memory_users: int,
    before: Path | None,
    older: Path | None,
) -> None:
    """Measure a server of this machine."""
    with tempfile.TemporaryDirectory(prefix="igcf-load-") as temporary:
        folder = Path(temporary) / "model" if model is None else model
        if model is None:
            random_model().save(folder)
        click.echo(f"{workers} workers, {connections} connections", err=True)
        if before is not None:
            if older is None:
                older = Path(temporary) / "older"  # in its own format
                code = f"import pathlib, tools.load as load; load.random_model().save(pathlib.Path({str(older)!r}))"
                own = os.environ | {"PYTHONPATH": f"{before}:{before.parent}"}
                subprocess.run([sys.executable, "-c", code], env=own, check=True)
            with (
                server(older, str(Path(temporary) / "before.db"), workers, before) as old,
                server(folder, str(Path(temporary) / "after.db"), workers) as new,
            ):
                click.echo(compared(old, new, connections=connections, seconds=seconds, users=users))
            return
        with server(folder, store or str(Path(temporary) / "load.db"), workers) as running:
            found = phases(running, connections=connections, seconds=seconds, users=users)
            click.echo(f"{table(found)}\n\n{goals(found)}")
            click.echo(f"\n{running.resident_mb():.0f} MB resident in {workers} workers")
            if memory_requests:
                asked = {"requests": memory_requests, "users": memory_users}
                for n, size in memory(running, connections=connections, **asked):
                    click.echo(f"after {n:,} requests: {size:.0f} MB resident in {workers} workers")


if __name__ == "__main__":
    main()
