"""Load on a real server over loopback: `python -m igcf.service.load`; bounded, ends by itself, prints one table.

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
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

from igcf.model import Model, Reward
from igcf.service.catalogue import Served
from igcf.service.settings import ServiceSettings

Request = Callable[[int], bytes]
"""The bytes of the n-th request."""


@dataclass(frozen=True)
class Phase:
    """What one phase measured; times in milliseconds."""

    name: str
    requests: int
    failures: int
    seconds: float
    p50: float
    p99: float

    @property
    def per_second(self) -> float:
        """Throughput."""
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
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(content)}"
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
            before = time.perf_counter()
            writer.write(make(number))
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length:")[1].split(b"\r\n", 1)[0])
            await reader.readexactly(length)
            latencies.append(time.perf_counter() - before)
            failures += not head.startswith(b"HTTP/1.1 200")
        writer.close()

    await asyncio.gather(*(one_connection() for _ in range(connections)))
    return latencies, failures


def measure(
    name: str, port: int, make: Request, *, connections: int, seconds: float, total: int | None = None
) -> Phase:
    """One phase."""
    started = time.perf_counter()
    latencies, failures = asyncio.run(drive(port, make, connections=connections, total=total, seconds=seconds))
    spent = time.perf_counter() - started
    p50, p99 = np.quantile(latencies, [0.5, 0.99]) * 1e3
    return Phase(name, len(latencies), failures, spent, float(p50), float(p99))


@contextmanager
def server(folder: Path, store: str, workers: int) -> Iterator[tuple[int, list[int]]]:
    """A running server: its port and the ids of its worker processes."""
    command = [sys.executable, "-m", "igcf", "serve", str(folder), "--port", "0", "--store", store, "--json"]
    command += ["--workers", str(workers), "--log-level", "warning"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)  # noqa: S603
    try:
        assert process.stdout is not None  # noqa: S101
        text = ""
        while not text.rstrip().endswith("}"):
            line = process.stdout.readline()
            if not line:
                raise click.ClickException("the server did not start; run `igcf serve` by hand to see why")
            text += line
        port = int(json.loads(text)["url"].rsplit(":", 1)[1])
        wait_until_ready(port)
        yield port, worker_ids(process.pid, workers)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def wait_until_ready(port: int, seconds: float = 30.0) -> None:
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


def worker_ids(parent: int, workers: int) -> list[int]:
    """The processes that answer."""
    if workers == 1:
        return [parent]
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [int(child) for child in children]


def resident_mb(pids: list[int]) -> float:
    """Resident memory of some processes."""
    pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def reactions_of(users: int, each: int) -> list[dict[str, Any]]:
    """Some history for every user."""
    rng = np.random.default_rng(1)
    return [
        {"user": f"u{user}", "item": str(item), "value": float(rng.integers(1, 6)), "event_id": f"{user}-{item}"}
        for user in range(users)
        for item in rng.choice(3706, each, replace=False)
    ]


def phases(port: int, *, connections: int, seconds: float, users: int) -> list[Phase]:
    """Health, cold and warm recommendations, feedback, and a mixture."""
    history = reactions_of(users, 10)
    batches = [history[start : start + 1000] for start in range(0, len(history), 1000)]
    fill = measure(
        "feedback, batches of 1,000",
        port,
        lambda n: request("POST", "/v1/feedback", {"feedback": batches[n]}),
        connections=1,
        seconds=600,
        total=len(batches),
    )
    ask = {"k": 5}
    both = {"connections": connections, "seconds": seconds}

    def recommend(n: int) -> bytes:
        return request("POST", f"/v1/users/u{n % users}/recommendations", ask)

    def react(n: int) -> bytes:
        return request("POST", f"/v1/users/u{n % users}/feedback", {"item": str(n * 7 % 3706), "value": 4.0})

    health = [request("GET", "/healthz")]
    measure("warm up", port, recommend, connections=connections, seconds=60, total=2 * users)
    return [
        measure("/healthz", port, lambda _: health[0], **both),  # type: ignore[arg-type]
        measure(f"recommend, {users} known users", port, recommend, **both),  # type: ignore[arg-type]
        measure(
            "recommend, new users",
            port,
            lambda n: request("POST", f"/v1/users/new{n}/recommendations", ask),
            **both,  # type: ignore[arg-type]
        ),
        measure("feedback", port, react, **both),  # type: ignore[arg-type]
        measure("3 recommend : 1 feedback", port, lambda n: (recommend if n % 4 else react)(n), **both),  # type: ignore[arg-type]
        fill,
    ]


def memory(port: int, pids: list[int], *, connections: int, requests: int, users: int) -> list[tuple[int, float]]:
    """Resident memory after each tenth of `requests` for `users` users, one in four a reaction."""
    step, readings = requests // 10, []

    def make(n: int) -> bytes:
        user = n * 7919 % users
        if n % 4 == 0:
            return request("POST", f"/v1/users/m{user}/feedback", {"item": str(n % 3706), "value": 5.0})
        return request("POST", f"/v1/users/m{user}/recommendations", {"k": 5})

    for first in range(0, 10 * step, step):
        part = partial(_shifted, make, first)
        measure("memory", port, part, connections=connections, seconds=600, total=step)
        readings.append((first + step, resident_mb(pids)))
    return readings


def _shifted(make: Request, first: int, n: int) -> bytes:
    return make(first + n)


def table(found: list[Phase]) -> str:
    """The phases as Markdown, with ratios to `/healthz`."""
    base = found[0].p50
    lines = ["| phase | requests | failed | per second | p50 ms | p99 ms | p50 / healthz | p99 / p50 |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    lines += [
        f"| {each.name} | {each.requests} | {each.failures} | {each.per_second:.0f} | {each.p50:.1f} | {each.p99:.1f} "
        f"| {each.p50 / base:.2f} | {each.p99 / each.p50:.1f} |"
        for each in found
    ]
    return "\n".join(lines)


@click.command()
@click.option("--store", help="Database URL; default: a throw-away SQLite file.")
@click.option("--workers", default=2, show_default=True)
@click.option("--connections", default=32, show_default=True)
@click.option("--seconds", default=60.0, show_default=True, help="Of each phase.")
@click.option("--users", default=1000, show_default=True, help="Known users in the latency phases.")
@click.option("--memory-requests", default=100_000, show_default=True, help="0: leave the memory phase out.")
@click.option("--memory-users", default=10_000, show_default=True)
def main(
    store: str | None,
    workers: int,
    connections: int,
    seconds: float,
    users: int,
    memory_requests: int,
    memory_users: int,
) -> None:
    """Measure a server of this machine."""
    with tempfile.TemporaryDirectory(prefix="igcf-load-") as temporary:
        folder = Path(temporary) / "model"
        random_model().save(folder)
        per_user = Served.from_folder(folder, ServiceSettings()).bytes_per_user()
        click.echo(
            f"{workers} workers, {connections} connections, {per_user / 1e3:.0f} kB per user in memory", err=True
        )
        with server(folder, store or str(Path(temporary) / "load.db"), workers) as (port, pids):
            click.echo(table(phases(port, connections=connections, seconds=seconds, users=users)))
            if memory_requests:
                for n, size in memory(
                    port, pids, connections=connections, requests=memory_requests, users=memory_users
                ):
                    click.echo(f"after {n} requests: {size:.0f} MB resident in {workers} workers")


if __name__ == "__main__":
    main()
