"""A PostgreSQL standby takes over under load: `python -m tools.failover`. Is all that was acknowledged still there?

Two clusters on loopback, the second a streaming replica of the first. `igcf serve` names both and asks for the one that
can be written; threads send reactions, each until it is acknowledged. Then the first is killed (`pg_ctl -m immediate`)
and the second promoted (`pg_ctl promote`), and the load continues. In the end no acknowledged reaction may be missing.
With `--cut`, the connection between both is lost some time before, as when the first loses its network, then its power.
"""

import itertools
import json
import shutil
import socket
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import click
import psycopg

from igcf.service.store.maintenance import check_store
from tests.service.postgres import Cluster
from tools.load import random_model
from tools.torture.calls import Lost, call
from tools.torture.proxy import Proxy
from tools.torture.servers import Served

Replication = Literal["synchronous", "asynchronous"]
PATIENCE_S = 60.0
"""How long anything may take before the trial has failed."""
CLIENTS = 8
ITEM = "1"


@dataclass(frozen=True)
class Outcome:
    """What became of one failover."""

    replication: Replication
    cut_s: float
    """How long before the death of the first database the second had been cut off."""
    acknowledged_before: int
    """Reactions acknowledged that were sent before the first database was dead."""
    lost: int
    """Acknowledged reactions that the second database does not have."""
    acknowledged_after: int
    refused: int
    """503 responses in between; each request was tried again with the same event id."""
    back_after_s: float
    """From the death of the first database to the first acknowledgement of the second."""
    promotion_s: float
    """How much of that `pg_ctl promote` took."""
    problems: int
    """What `igcf store check` finds in the second database."""


class Node(Cluster):
    """One of the two clusters, on a port of loopback."""

    def __init__(self, copy_of: int | None = None, link: int | None = None) -> None:
        """Make a new cluster, or a standby of the one on port `copy_of`, which it follows through the port `link`."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self._copy_of, self._link = copy_of, link
        super().__init__()

    def _run(self, program: str, *arguments: str) -> None:
        if program == "initdb" and self._copy_of is not None:
            source = f"host=127.0.0.1 port={self._copy_of} user=postgres"
            program, arguments = (
                "pg_basebackup",
                ("-D", str(self.data), "-d", source, "-R", "-X", "stream", "-c", "fast"),
            )
        super()._run(program, *arguments)

    def start(self) -> None:
        """Begin to answer."""
        if self._link is not None:
            followed = f"host=127.0.0.1 port={self._link} user=postgres application_name=second"
            with (self.data / "postgresql.auto.conf").open("a") as settings:
                settings.write(f"primary_conninfo = '{followed}'\n")
        options = f"-k {self.folder} -p {self.port} -c listen_addresses=127.0.0.1 -c max_connections=100"
        self._run("pg_ctl", "-D", str(self.data), "-l", str(self.folder / "log"), "-w", "-o", options, "start")

    def promote(self) -> None:
        """Let the standby take over."""
        self._run("pg_ctl", "-D", str(self.data), "-w", "promote")

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        """Run one statement."""
        with psycopg.connect(f"host=127.0.0.1 port={self.port} user=postgres", autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return list(cursor.fetchall()) if cursor.description else []


class Load:
    """Threads that send reactions, each until it is acknowledged."""

    def __init__(self, port: int) -> None:
        self.acknowledged: list[tuple[float, float, str]] = []
        """When the request was sent, when it was acknowledged, and its event id."""
        self.refused = 0
        self._port, self._numbers, self._stop = port, itertools.count(), threading.Event()
        self._threads = [threading.Thread(target=self._send, args=(n,), daemon=True) for n in range(CLIENTS)]
        for thread in self._threads:
            thread.start()

    def _send(self, client: int) -> None:
        while not self._stop.is_set():
            event_id = f"e{next(self._numbers)}"
            body = {"item": ITEM, "value": 4, "event_id": event_id}
            while not self._stop.is_set():
                sent = time.monotonic()
                try:
                    reply = call(self._port, "POST", f"/v1/users/u{client}/feedback", body)
                except Lost:
                    continue
                if reply.status not in (200, 503):
                    raise RuntimeError(reply.said())
                if reply.status == 200:
                    self.acknowledged.append((sent, time.monotonic(), event_id))
                    break
                self.refused += 1
                self._stop.wait(0.05)

    def close(self) -> None:
        """Stop sending."""
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=PATIENCE_S)


def fail_over(replication: Replication, *, seconds: float, cut_s: float = 0.0) -> Outcome:
    """Run one trial of about twice so many seconds under load."""
    folder = Path(tempfile.mkdtemp(prefix="igcf-failover-"))
    first = Node()
    link = Proxy(f"{first.folder}/.s.PGSQL.{first.port}")
    second = served = load = None
    try:
        second = Node(copy_of=first.port, link=link.port)
        if replication == "synchronous":
            first.ask("ALTER SYSTEM SET synchronous_standby_names = 'second'")
            first.ask("SELECT pg_reload_conf()")
        wanted = "sync" if replication == "synchronous" else "async"
        wait_for(lambda: first.ask("SELECT sync_state FROM pg_stat_replication") == [(wanted,)], "the standby follows")
        hosts = "&".join(f"host=127.0.0.1:{node.port}" for node in (first, second))
        store = f"postgresql://postgres@/postgres?{hosts}&target_session_attrs=read-write"
        random_model(n_items=20, dim=4).save(folder / "model")
        served = Served(folder / "model", store, folder / "log")
        load = Load(served.port)
        wait_for(lambda: len(load.acknowledged) >= CLIENTS, "reactions are acknowledged")
        time.sleep(seconds)
        if cut_s:
            link.close()
            time.sleep(cut_s)
        first.stop()
        killed = time.monotonic()  # what is sent from now on can be stored by the second only
        second.promote()
        promotion_s = time.monotonic() - killed
        wait_for(lambda: any(each[0] > killed for each in load.acknowledged[-CLIENTS:]), "reactions are stored again")
        time.sleep(seconds)
        load.close()
        kept = {row[0] for row in second.ask("SELECT event_id FROM feedback")}
        after = [acknowledged for sent, acknowledged, _ in load.acknowledged if sent > killed]
        return Outcome(
            replication=replication,
            cut_s=cut_s,
            acknowledged_before=len(load.acknowledged) - len(after),
            lost=sum(event_id not in kept for *_, event_id in load.acknowledged),
            acknowledged_after=len(after),
            refused=load.refused,
            back_after_s=round(min(after) - killed, 2),
            promotion_s=round(promotion_s, 2),
            problems=len(check_store(f"postgresql://postgres@127.0.0.1:{second.port}/postgres")),
        )
    finally:
        link.close()
        if load is not None:
            load.close()
        if served is not None:
            served.process.terminate()
            served.process.communicate(timeout=PATIENCE_S)
        if second is not None:
            second.close()
        shutil.rmtree(first.folder, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)


def wait_for(is_so: Any, what: str) -> None:
    """Wait until something is so."""
    until = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > until:
            raise RuntimeError(f"waited {PATIENCE_S:g} s in vain: {what}")
        time.sleep(0.02)


@click.command()
@click.option("--seconds", default=3.0, show_default=True, help="Load before, and again after the failover.")
@click.option("--cut", default=1.0, show_default=True, help="Seconds without replication in the second half.")
@click.option("--out", type=click.Path(path_type=Path), help="Also write the outcomes as JSON.")
def main(seconds: float, cut: float, out: Path | None) -> None:
    """Try synchronous and asynchronous replication, with a connection until the end and with one that is cut before."""
    found = []
    click.echo("| replication | cut before, s | acknowledged | lost | refused | back after, s | of it promotion, s |")
    click.echo("|---|---|---|---|---|---|---|")
    for cut_s in (0.0, cut):
        for replication in ("synchronous", "asynchronous"):
            each = fail_over(replication, seconds=seconds, cut_s=cut_s)
            found.append(each)
            n = each.acknowledged_before + each.acknowledged_after
            numbers = (
                f"{each.cut_s:g} | {n:,} | {each.lost:,} | {each.refused:,} | {each.back_after_s} | {each.promotion_s}"
            )
            click.echo(f"| {each.replication} | {numbers} |")
    if out is not None:
        out.write_text(json.dumps([asdict(each) for each in found], indent=1) + "\n", encoding="utf-8")
    failed = [each for each in found if each.problems or (each.replication == "synchronous" and each.lost)]
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
