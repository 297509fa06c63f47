"""The checker: compares acknowledged requests with the store, the beliefs and the next answers."""

import random
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import sqlalchemy as sa

from igcf.model.files import load_model, model_id
from igcf.online import Recommender, Session, named_policy
from igcf.service.store.records import Event, in_force
from igcf.service.store.store import Store
from tools.torture import calls
from tools.torture.ledger import Ledger, Reaction

TOLERANCE = 1e-8
SCORE_TOLERANCE = 1e-5
"""Scores are kept in single precision."""
SKIP_ROUNDS = 20
ANSWERS = sa.text("SELECT COUNT(*) FROM recommendations WHERE user_id = :user")
FEW, BATCH = 10, 50
"""More unacknowledged reactions than a few are sent again in batches."""


def check(
    ledger: Ledger, store: Store, ports: Sequence[int], models: Sequence[Path], *, is_whole: bool = False
) -> list[str]:
    """Compare, resend unacknowledged requests, compare again; return what is wrong.

    Args:
        ledger: what the clients sent and the responses they got.
        store: the store of the servers.
        ports: servers that are up.
        models: folders of the models that may be in service.
        is_whole: look at everybody, not only at those to whom something was sent since the last check.
    """
    touched = ledger.take_touched()
    users = ledger.users() if is_whole else touched
    rng, problems = random.Random(0), [*ledger.problems]
    ledger.problems.clear()
    for user in users:
        problems += _against_log(user, ledger.of(user), store.events(user), is_final=False)
    problems += repeat(ledger, ports)
    for user in users:
        events = store.events(user)
        problems += _against_log(user, ledger.of(user), events, is_final=True)
        problems += check_answers(user, events, rng.choice(ports), models)
    for user in ledger.deleted:
        answers = store.database.read(partial(_count_answers, user))
        if store.events(user) or store.user(user).revision or answers:
            problems.append(f"{user} was deleted and is there ({answers} answers)")
    return problems


def _count_answers(user: str, connection: sa.Connection) -> int:
    return int(connection.execute(ANSWERS, {"user": user}).scalar_one())


def repeat(ledger: Ledger, ports: Sequence[int]) -> list[str]:
    """Send again, under the same event id, what no answer came to."""
    rng = random.Random(0)
    unsure = list(ledger.unsure())
    shown = [reaction for reaction in unsure if reaction.evidence != "logged"]
    while len(shown) > FEW:
        batch, shown = shown[:BATCH], shown[BATCH:]
        calls.react_batch(ledger, rng.choice(ports), batch)
    problems = []
    for reaction in (reaction for reaction in unsure if not reaction.is_acknowledged):
        problems += _refused(f"{reaction.event_id} sent again", calls.react(ledger, rng.choice(ports), reaction))
    for reaction in [each for user in ledger.users() for each in ledger.of(user) if each.is_taken_back is None]:
        reply = calls.take_back(ledger, rng.choice(ports), reaction)
        also = 404 if reaction.user in ledger.deleted else 200  # an unacknowledged deletion may have been earlier
        problems += _refused(f"{reaction.event_id} taken back again", reply, also)
    for user in [user for user, is_done in ledger.deleted.items() if not is_done]:
        problems += _refused(f"{user} deleted again", calls.delete_user(ledger, rng.choice(ports), user))
    return problems


def _refused(what: str, reply: calls.Reply | None, also: int = 200) -> list[str]:
    is_fine = reply is not None and reply.status in (200, also)
    return [] if is_fine else [f"{what}: {reply.said() if reply else 'no answer'}"]


def _against_log(user: str, sent: list[Reaction], events: list[Event], *, is_final: bool) -> list[str]:
    """Compare what was sent with the log: everything acknowledged once, as it was said, and nothing else."""
    problems = []
    if [event.revision for event in events] != list(range(1, len(events) + 1)):
        problems.append(f"{user}: revisions {[event.revision for event in events]}")
    rows = {event.event_id: event for event in events if event.retracts is None}
    counts = Counter(event.event_id for event in events if event.retracts is None)
    retractions = Counter(event.retracts for event in events if event.retracts is not None)
    known = {reaction.event_id for reaction in sent}
    problems += [f"{user}: {event_id} was sent by nobody" for event_id in counts if event_id not in known]
    for reaction in sent:
        count, row = counts[reaction.event_id], rows.get(reaction.event_id)
        if count > 1 or (count == 0 and (reaction.is_acknowledged or is_final)):
            problems.append(f"{user}: {reaction.event_id} is there {count} times, {reaction}")
        if row is not None and not _agrees(reaction, row):
            problems.append(f"{user}: {reaction} is stored as {row}")
        times = retractions[reaction.event_id]
        is_allowed = times == int(reaction.is_taken_back) if reaction.is_taken_back is not None else times in (0, 1)
        if not is_allowed:
            problems.append(f"{user}: {reaction.event_id} was taken back {times} times, {reaction}")
    return problems


def _agrees(reaction: Reaction, row: Event) -> bool:
    said = (reaction.item, reaction.value, reaction.evidence) == (row.item_id, row.value, row.evidence)
    return said and reaction.revision in (None, row.revision)


def check_answers(user: str, events: list[Event], port: int, models: Sequence[Path]) -> list[str]:
    """Compare belief and next answer of a server with a session that is opened anew from the log."""
    kept = in_force(events)
    try:
        state = calls.call(port, "GET", f"/v1/users/{user}?cov=true")
        answer = calls.call(port, "POST", f"/v1/users/{user}/recommendations", {"k": 5})
    except calls.Lost as lost:
        return [f"{user}: {lost}"]
    if state.status != 200 or answer.status != 200:
        return [f"{user}: {state.said()}, {answer.said()}"]
    problems = []
    if [past["event_id"] for past in state.body["history"]] != [event.event_id for event in kept]:
        problems.append(f"{user}: the history is not the log")
    if answer.body["revision"] != len(events):
        problems.append(f"{user}: answered at revision {answer.body['revision']} of {len(events)}")
    for told, is_belief in ((state.body, True), (answer.body, False)):
        session = _session(told["model"], tuple(map(str, models)), kept)
        problems += _compare_belief(user, session, told) if is_belief else _compare_answer(user, session, told, events)
    return problems


def _compare_belief(user: str, session: Session, told: dict[str, object]) -> list[str]:
    belief = told["belief"]
    assert isinstance(belief, dict)
    gap = max(
        float(np.abs(np.array(belief["mean"]) - session.belief.mean).max()),
        float(np.abs(np.array(belief["cov"]) - session.belief.cov).max()),
    )
    return [] if gap <= TOLERANCE else [f"{user}: the belief is {gap:.3g} away from the log"]


def _compare_answer(user: str, session: Session, told: dict[str, object], events: list[Event]) -> list[str]:
    aside = [
        str(event.item_id)
        for event in in_force(events)
        if event.evidence == "skip" and event.revision > len(events) - SKIP_ROUNDS
    ]
    items = told["items"]
    assert isinstance(items, list)
    wanted = session.recommend(5, exclude=aside)
    if [pick["item"] for pick in items] != [pick.item_id for pick in wanted]:
        return [f"{user}: shown {[pick['item'] for pick in items]}, a fresh session {[p.item_id for p in wanted]}"]
    gap = max(abs(pick["score"] - mine.score) for pick, mine in zip(items, wanted, strict=True))
    return [] if gap <= SCORE_TOLERANCE else [f"{user}: scores are {gap:.3g} away from a fresh session"]


def _session(name: str, models: tuple[str, ...], kept: list[Event]) -> Session:
    shown = [(str(event.item_id), event.value) for event in kept if event.evidence == "shown"]
    latest = {str(event.item_id): event.value for event in kept if event.evidence == "logged"}
    logged = [(item, value) for item, value in latest.items() if value is not None]
    return _recommender(name, models).session(shown, logged=logged)


@lru_cache
def _recommender(name: str, models: tuple[str, ...]) -> Recommender:
    folder = next(Path(each) for each in models if model_id(Path(each)) == name)
    model = load_model(folder)
    return Recommender(model, named_policy(model.policy.name, nu=model.policy.nu))
