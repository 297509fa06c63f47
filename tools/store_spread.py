"""What the audit in files, requests, moving users and reading their log cost.

python -m tools.store_spread audit|request|move|learn
"""

import hashlib
import os
import tempfile
import time
from pathlib import Path

import click

from igcf.lab.bench.memory import PeakMemory
from igcf.service.context import ServiceContext
from igcf.service.models.requests import Feedback, RecommendationRequest
from igcf.service.serving.reacting import react
from igcf.service.serving.recommending import recommend
from igcf.service.settings import ServiceSettings
from igcf.service.store import NewEvent, Store, read_store
from igcf.service.store.audit_files import HOUR_S, AuditFolder
from igcf.service.store.export import write_reactions
from igcf.service.store.moving import rebalance
from tools.load import random_model


@click.group()
def main() -> None:
    """Measure on this machine."""


@main.command()
@click.option("--answers", default=10_000, show_default=True)
def audit(answers: int) -> None:
    """Bytes and processor time of answers of five items in files, and of the deletion of one user."""
    with tempfile.TemporaryDirectory() as name:
        random_model().save(Path(name) / "model")
        context = ServiceContext.open(Path(name) / "model", ServiceSettings(store=f"{name}/store.db"))
        lines = []
        for number in range(answers):  # everybody reacts before being asked again: no two answers are alike
            user = f"{number % 500:032x}"
            react(context, user, Feedback(item=str(number * 7 % 3706), value=float(number % 5 + 1)))
            given = recommend(context, user, RecommendationRequest(k=5))
            lines.append(_line(given.model_dump(), time.time() - 2 * HOUR_S))
            if number % 5_000 == 0:
                context.audit.flush()
        context.close()
        folder = AuditFolder(Path(name) / "audit")
        cpu = time.process_time()
        for start in range(0, answers, 50):  # what a busy process writes in 0.5 s
            folder.append(lines[start : start + 50])
        appended = time.process_time() - cpu
        journal = sum(path.stat().st_size for path in folder.folder.glob("hour=*/*.jsonl"))
        cpu = time.process_time()
        folder.finish()
        finished = time.process_time() - cpu
        size = sum(path.stat().st_size for path in folder.folder.glob("hour=*/*.parquet"))
        started = time.perf_counter()
        folder.delete_user(f"{7:032x}")
        deleted = time.perf_counter() - started
    click.echo(
        f"{answers:,} answers: {size / answers:.0f} bytes each in Parquet, {journal / answers:.0f} in a journal; CPU "
        f"{1e6 * appended / answers:.0f} us to append and {1e6 * finished / answers:.0f} us to finish; one user's "
        f"deletion from one file {1e3 * deleted:.0f} ms"
    )


def _line(given: dict[str, object], when: float) -> dict[str, object]:
    names = ("item", "score", "mean", "std", "chance", "mean_rank", "reason", "propensity")
    items = given["items"]
    assert isinstance(items, list)
    return {
        "recommendation_id": given["recommendation_id"],
        "user_id": given["user"],
        "model": given["model"],
        "revision": given["revision"],
        "policy": '{"name":"greedy"}',
        "propensity": given["propensity"],
        "items": [{each: item[each] for each in names} for item in items],
        "time": when,
    }


@main.command()
@click.option("--rounds", default=2_000, show_default=True)
@click.option("--store", "stores", multiple=True, help="Default: a throw-away SQLite file.")
def request(rounds: int, stores: tuple[str, ...]) -> None:
    """Processor time of an answer to a user in memory and of a reaction, in one process, without HTTP."""
    with tempfile.TemporaryDirectory() as name:
        random_model().save(Path(name) / "model")
        settings = ServiceSettings(store=stores or (f"{name}/store.db",))
        context = ServiceContext.open(Path(name) / "model", settings)
        users = [f"user-{number}" for number in range(20)]
        for user in users:
            react(context, user, Feedback(item="1", value=4.0))
            recommend(context, user, RecommendationRequest(k=5))
        found = []
        for ask in (False, True):
            cpu = time.process_time()
            for number in range(rounds):
                user = users[number % len(users)]
                if ask:
                    recommend(context, user, RecommendationRequest(k=5))
                else:
                    react(context, user, Feedback(item=str(number), value=4.0))
            found.append(1e6 * (time.process_time() - cpu) / rounds)
        context.close()
    click.echo(f"CPU {found[1]:.0f} us per answer, {found[0]:.0f} us per reaction")


@main.command()
@click.option("--users", default=20_000, show_default=True)
@click.argument("stores", nargs=-1)
def move(users: int, stores: tuple[str, ...]) -> None:
    """Time of spreading users of ten reactions from the first of two databases over both."""
    with tempfile.TemporaryDirectory() as name:
        urls = stores or (f"{name}/one.db", f"{name}/two.db")
        _fill(urls[0], users)
        started, cpu = time.perf_counter(), time.process_time()
        moved = rebalance(urls, noticed_s=0.0).users
        seconds, spent = time.perf_counter() - started, time.process_time() - cpu
    click.echo(f"{moved:,} of {users:,} users moved in {seconds:.1f} s ({spent:.1f} s CPU): {moved / seconds:,.0f}/s")


@main.command()
@click.option("--users", default=20_000, show_default=True)
@click.argument("store", required=False)
def learn(users: int, store: str | None) -> None:
    """Cost of getting the log of users of ten reactions out of a database: into memory, and into files for workers."""
    with tempfile.TemporaryDirectory() as name:
        url = store or f"{name}/one.db"
        _fill(url, users)
        for what, work in (
            ("files for workers", lambda: write_reactions(Path(name) / "reactions", url)),
            ("the whole log in memory", lambda: read_store(url).interactions()),
        ):
            peak, cpu = PeakMemory(), time.process_time()
            work()
            cost = f"{1e6 * (time.process_time() - cpu) / users / 10:.1f} us CPU"
            click.echo(f"{what}: {cost} per reaction, {(peak.bytes() or 0) / 1e6:.0f} MB of memory")


def _fill(url: str, users: int) -> None:
    """Let users react ten times each."""
    store = Store(url)
    for start in range(0, users, 200):
        names = [hashlib.md5(str(n).encode()).hexdigest() for n in range(start, start + 200)]
        store.append_all({user: [NewEvent(f"e{n}", f"i{n}", 4.0) for n in range(10)] for user in names}, "m")
    store.close()


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    main()
