"""The audit of a store as a log for off-policy evaluation: each answer beside that of a candidate at the time."""

import json
from collections.abc import Callable
from typing import NamedTuple

import polars as pl

from igcf.online import Policy
from igcf.online.candidates import CandidateLog, LoggedAnswer
from igcf.progress import Report, silent
from igcf.service.context import ServiceContext
from igcf.service.serving.learning import load_user, skipped
from igcf.service.store.export import shown_items


class AuditRead(NamedTuple):
    """What came out of an audit."""

    log: CandidateLog
    n_shaped: int
    """Answers left out since their request had rules, exclusions, candidates, attributes or a context of its own."""
    n_unknown: int  # answers left out since their propensities are not known


def candidate_on_audit(
    context: ServiceContext, policy: Policy, report: Report = silent, counts: Callable[[str], bool] = lambda _: True
) -> AuditRead:
    """Let the candidate, the model of `context` with `policy`, look at every answer with what was known by then.

    `counts` says whether the answers to a user count.
    """
    served = context.current_model.served
    context.items_from_log.look(served)
    reward = served.model.reward
    log, n_shaped, n_unknown, done = CandidateLog(served.model, policy), 0, 0, 0
    for frame in shown_items(context.store):
        for (_, user, revision, text), rows in frame.group_by(
            "recommendation_id", "user_id", "revision", "policy", maintain_order=True
        ):
            if not counts(str(user)):
                continue
            done += 1
            report("answers", done, None)
            if json.loads(str(text)).get("shaped"):
                n_shaped += 1
                continue
            if rows["propensity"].null_count():
                n_unknown += 1
                continue
            events = context.store.events(str(user), until=int(revision))
            session = load_user(served, events)
            session.contributes, session.policy = False, policy
            values = rows["value"].to_list()
            answer = LoggedAnswer(
                str(user),
                rows["item"].to_list(),
                rows["propensity"].to_list(),
                rows["slot_propensity"].cast(pl.Float64).fill_null(float("nan")).to_list(),
                [0.0 if value is None else float(reward.is_satisfied(value)) for value in values],
            )
            first = int(revision) - context.settings.skip_rounds
            aside = [item for item, (at, _) in skipped(events).items() if at > first]
            log.add(session, answer, aside)
    return AuditRead(log, n_shaped, n_unknown)
