"""Two writers on one user, interleaved statement by statement, against the serial model."""

import random
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from igcf.errors import IgcfError
from igcf.service.context import ServiceContext
from igcf.service.errors import EventConflictError, UnknownEventError
from igcf.service.models.requests import Feedback, UserFeedback
from igcf.service.serving import reacting
from igcf.service.settings import ServiceSettings
from tests.service.conftest import react
from tools.torture.check import SCORE_TOLERANCE, TOLERANCE
from tools.torture.results import Trial
from tools.torture.serial import Ask, Outcome, SerialUser
from tools.torture.turns import Turns
from tools.torture.worlds import save_models

SHARED_MEMORY = Path("/dev/shm")
PER_STORE = 1_000
"""Interleavings after which a new file is begun."""
PER_USER = 8
"""Interleavings after which another user comes."""
EVENTS = 16
"""Different event ids of one user."""


def interleavings(seed: int, n: int = PER_STORE) -> Iterator[Trial]:
    """Play `n` of them, on two servers of one store or in two threads of one server."""
    folder = Path(tempfile.mkdtemp(prefix="igcf-torture-", dir=SHARED_MEMORY if SHARED_MEMORY.is_dir() else None))
    turns, rng, problems = Turns(), random.Random(seed), list[str]()
    user, serial = "", SerialUser()
    try:
        model = save_models(folder)[0]
        settings = ServiceSettings(store=str(folder / "store.db"), hot_users=50)
        with ExitStack() as stack:
            contexts = [ServiceContext.open(model, settings) for _ in range(2)]
            for context in contexts:
                stack.callback(context.close)
                stack.enter_context(turns.watch(context.store.database))
            for number in range(n):
                if number % PER_USER == 0:
                    user, serial = f"u{number}", SerialUser()
                chosen = contexts if rng.random() < 0.7 else [contexts[0]] * 2
                problems += [f"number {number}: {each}" for each in _play(turns, chosen, user, serial, rng)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    yield Trial("two writers on one user, interleaved", "SQLite", problems=problems, tried=n)


def _play(
    turns: Turns, contexts: Sequence[ServiceContext], user: str, serial: SerialUser, rng: random.Random
) -> list[str]:
    told: tuple[list[list[Outcome]], list[list[Outcome]]] = [], []
    asked = [[_random_ask(rng) for _ in range(rng.choice((1, 1, 1, 2)))] for _ in range(2)]
    first, second = (_party(contexts[n], user, asked[n], told[n]) for n in range(2))
    schedule = turns.play(first, second, rng)
    problems, places = [], [0, 0]
    for party in turns.order:
        ask, found = asked[party][places[party]], told[party][places[party]]
        places[party] += 1
        wanted = serial.ask(ask)
        if found != wanted:
            problems.append(f"{ask} got {found}, sequentially {wanted}; {schedule}")
    if places != [len(each) for each in asked]:
        problems.append(f"{places} transactions for {asked}, told {told}")
    rows = [(row.event_id, row.item_id, row.value, row.retracts) for row in contexts[0].store.events(user)]
    if rows != serial.rows:
        problems.append(f"the log is {rows}, one after the other {serial.rows}; {schedule}")
    for context in contexts:
        if rng.random() < 0.5:  # whether the user is in memory, and how far behind, differs from time to time
            problems += _answer(context, user, serial)
    return problems


def _answer(context: ServiceContext, user: str, serial: SerialUser) -> list[str]:
    """Compare belief and next answer with a session that is opened anew."""
    served = context.current_model.served
    fresh = served.recommender.session(serial.in_force())
    with context.users.open(served, user) as opened:
        if opened.revision != len(serial.rows):
            return [f"{user} is at revision {opened.revision} in memory, {len(serial.rows)} in the log"]
        mine, theirs = opened.session.belief, fresh.belief
        gap = max(float(np.abs(mine.mean - theirs.mean).max()), float(np.abs(mine.cov - theirs.cov).max()))
        picks, wanted = opened.session.recommend(5), fresh.recommend(5)
    if gap > TOLERANCE:
        return [f"{user}: the belief is {gap:.3g} away from the log"]
    if [pick.item_id for pick in picks] != [pick.item_id for pick in wanted]:
        return [f"{user}: the next answer is not that of a fresh session"]
    gap = max(abs(a.score - b.score) for a, b in zip(picks, wanted, strict=True))
    return [] if gap <= SCORE_TOLERANCE else [f"{user}: scores are {gap:.3g} away from a fresh session"]


def _party(context: ServiceContext, user: str, asks: Sequence[Ask], told: list[list[Outcome]]) -> Callable[[], None]:
    def work() -> None:
        told.extend(_ask(context, user, ask) for ask in asks)

    return work


def _ask(context: ServiceContext, user: str, ask: Ask) -> list[Outcome]:
    try:
        if ask.retracts is not None:
            return [("stored", reacting.retract(context, user, ask.retracts))]
        if len(ask.events) == 1:
            receipt = react(context, user, Feedback(**_body(ask.events[0])))
            return [("duplicate" if receipt.duplicate else "stored", receipt.revision)]
        bodies = [UserFeedback(user=user, **_body(event)) for event in ask.events]
        results = reacting.react_batch(context, bodies).results
    except EventConflictError:
        return [("conflict", 0)]
    except UnknownEventError:
        return [("unknown", 0)]
    except IgcfError as error:
        return [(f"{type(error).__name__}: {error}", 0)]
    return [
        ("conflict" if each.error else "duplicate" if each.duplicate else "stored", each.revision or 0)
        for each in results
    ]


def _body(event: tuple[str, str, float]) -> dict[str, Any]:
    event_id, item, value = event
    return {"event_id": event_id, "item": item, "value": value}


def _event(rng: random.Random) -> tuple[str, str, float]:
    """Draw one of few events, so that both writers often mean the same; with the same id they sometimes disagree."""
    number = rng.randrange(EVENTS)
    return f"e{number}", f"item-{number}", float(rng.choice((1, 5)) if number % 4 == 3 else 1 + number % 5)


def _random_ask(rng: random.Random) -> Ask:
    kind = rng.random()
    if kind < 0.2:
        return Ask(retracts=f"e{rng.randrange(EVENTS)}")
    return Ask(tuple(_event(rng) for _ in range(1 if kind < 0.8 else 2)))
