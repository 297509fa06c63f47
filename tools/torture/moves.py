"""`igcf store rebalance` killed at random moments, then started again: nobody is lost, nothing is there twice."""

import multiprocessing
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import sqlalchemy as sa

from igcf.errors import StoreError
from igcf.item import Item
from igcf.service.store import NewEvent, Store, moving
from igcf.service.store.items import ItemStore
from igcf.service.store.maintenance import check_store
from igcf.service.store.placement import identity, place_of_user, read_record
from igcf.service.store.records import LearnedState, SavedBelief
from igcf.service.store.spread import open_store
from igcf.service.store.tables import merges, recommendations, shown, users
from tools.torture.results import Trial

USERS = 300
AT_ONCE = 5
"""Users in one transaction, so that there are many moments between two."""
LONGEST_S = 1.5
"""From the beginning of a moving to its kill, at most."""
Contents = dict[str, "Counter[tuple[Any, ...]]"]


def kill_moves(urls: Sequence[str], name: str, rng: random.Random, kills: int = 8) -> Iterator[Trial]:
    """Spread a store over a second and a third database and take the first one out, each with so many kills."""
    first, second, third = urls
    fill(first)
    expected = contents(first)
    for stay, leave in (((first, second), ()), ((first, second, third), ()), ((second, third), (first,))):
        yield from _killed(stay, leave, expected, name, rng, kills)
        problems = [*_differences(expected, contents(*stay, *leave), is_whole=True), *check_store(*stay)]
        problems += _misplaced(stay, leave)
        yield Trial("users moved, in spite of the kills", name, problems)


def _killed(
    stay: Sequence[str], leave: Sequence[str], expected: Contents, name: str, rng: random.Random, kills: int
) -> Iterator[Trial]:
    """Kill a moving again and again until it ends before the next kill, or until so many are over."""
    for _ in range(kills):
        process = _started(stay, leave)
        process.join(rng.uniform(0, LONGEST_S))
        if not process.is_alive():
            break
        process.kill()
        process.join()
        problems = _differences(expected, contents(*stay, *leave), is_whole=False)
        if "moving" in _states(*stay, *leave) and _is_served(stay):
            problems.append("a server starts though the moving has not ended")
        yield Trial("kill of a moving", name, problems)
    else:
        process = _started(stay, leave)
        process.join()
    if process.exitcode:
        yield Trial("kill of a moving", name, [f"the last moving ended with exit code {process.exitcode}"])


def _started(stay: Sequence[str], leave: Sequence[str]) -> BaseProcess:
    """Start a moving in a process of its own, and wait until it begins."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tools.torture.moves"])
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_move, args=(tuple(stay), tuple(leave), there))
    process.start()
    there.close()
    with here:
        here.recv()
    return process


def _move(stay: Sequence[str], leave: Sequence[str], begun: Connection) -> None:
    moving.AT_ONCE = AT_ONCE
    begun.send(None)
    moving.rebalance(stay, leave, noticed_s=0.0)


def fill(url: str) -> None:
    """Fill a store with users, reactions, some of them taken back, beliefs, answers, items, counts and merges."""
    store = Store(url)
    names = [f"user-{number}" for number in range(USERS)]
    events = {
        user: [NewEvent(f"e{n}", f"i{n}", 1.0 + n) for n in range(1 + number % 5)] for number, user in enumerate(names)
    }
    store.append_all(events, "m")
    for user in names[::7]:
        store.retract(user, "e0", "m")
    states = {}
    for user in names[::2]:
        row = store.user(user)
        states[user] = LearnedState(user, row.born, 1.0, SavedBelief("m", row.revision, 1.0, user.encode()))
    store.save(states)
    ItemStore(store.database).put([Item("new")], is_known=lambda _: False)
    store.announce("folder", "m")
    answers = [
        {"recommendation_id": f"r-{user}", "user_id": user, "model": "m", "revision": 0, "policy": "{}"}
        | {"propensity": "exact", "items": '[{"item": "i1", "reason": "best"}]', "time": 1.0}
        for user in names
    ]
    counts = {"item_id": "i1", "times": USERS, "explored": 0}
    promised = [{"visitor_hash": f"{n:032x}", "user_hash": f"{n + 1:032x}", "time": 1.0} for n in range(20)]
    store.database.write(lambda connection: connection.execute(sa.insert(recommendations), answers))
    store.database.write(lambda connection: connection.execute(sa.insert(shown).values(counts)))
    store.database.write(lambda connection: connection.execute(sa.insert(merges), promised))
    store.close()


def contents(*urls: str) -> Contents:
    """Read all rows of all databases together, and how many of them have each; of counts only the sums."""
    found: Contents = {}
    for url in urls:
        store = Store(url)
        for table in (*moving.OF_USERS, *moving.COMMON, merges, shown):
            rows = store.database.read(lambda c, t=table: c.execute(sa.select(t)).all())  # type: ignore[misc]
            own = found.setdefault(table.name, Counter())
            if table is shown:
                for item, times, explored in rows:
                    own["times", item] += times
                    own["explored", item] += explored
            else:
                own.update(map(tuple, rows))
        store.close()
    return found


def _differences(expected: Contents, found: Contents, *, is_whole: bool) -> list[str]:
    """Compare; before the moving has ended a row may be in two databases."""
    problems = []
    for table, rows in expected.items():
        own = found[table]
        if table == shown.name:
            is_right = own == rows if is_whole else all(n <= own[key] <= 2 * n for key, n in rows.items())
        else:
            is_right = own == rows if is_whole else own.keys() == rows.keys() and max(own.values(), default=0) <= 2
        if not is_right:
            lost, more = len(rows - own), len(own - rows)
            problems.append(f"{table}: {lost} rows are missing, {more} are there that should not be")
    return problems


def _misplaced(stay: Sequence[str], leave: Sequence[str]) -> list[str]:
    """Find users who are in a database that they do not belong to."""
    stores = [Store(url) for url in (*stay, *leave)]
    ids = [identity(store.database) for store in stores]
    found = []
    for store, own in zip(stores, ids, strict=True):
        names = store.database.read(lambda c: c.execute(sa.select(users.c.user_id)).scalars().all())
        found += [f"{user} is in the wrong database" for user in names if place_of_user(user, ids[: len(stay)]) != own]
        store.close()
    return found


def _states(*urls: str) -> set[str]:
    """Read how the databases are marked."""
    found: set[str] = set()
    for url in urls:
        store = Store(url)
        record = read_record(store.database)
        found.add("" if record is None else record.state)
        store.close()
    return found


def _is_served(stay: Sequence[str]) -> bool:
    try:
        open_store(stay).close()
    except StoreError:
        return False
    return True
