"""Answers: choose items for one user or many, say why each is shown, and log the answer."""

import json
import time
from collections.abc import Sequence
from copy import copy
from functools import lru_cache, partial
from math import isfinite
from operator import itemgetter
from os import urandom
from typing import Any

import anyio.to_thread
import numpy as np

from igcf.errors import ConfigError, IgcfError, NoItemsLeftError
from igcf.model.usage import PolicyChoice
from igcf.online import Policy, Recommendation, Rules, Session
from igcf.online.policies import has_nu, named_policy, policy_class
from igcf.online.rules import RulesWithin
from igcf.service.context import ServiceContext
from igcf.service.errors import RequestCancelledError, problem
from igcf.service.lanes import budget_of_request, in_lane
from igcf.service.models import responses
from igcf.service.models.requests import BatchRequest, PolicyName, RecommendationRequest
from igcf.service.serving.served_model import ServedModel
from igcf.service.serving.users import OpenUser
from igcf.service.settings import ServiceSettings
from igcf.service.store.audit import Answer
from igcf.service.store.records import Version


def recommend_to_many(context: ServiceContext, ask: BatchRequest) -> responses.BatchResponse:
    """Answer `POST /v1/recommendations`; an error for one user takes the place of their answer."""
    if len(set(ask.users)) < len(ask.users):
        twice = next(user for user in ask.users if ask.users.count(user) > 1)
        raise ConfigError(f"user {twice!r} is named twice; expected each user once")
    own = RecommendationRequest.model_validate(ask.model_dump(exclude={"users"}, exclude_unset=True))
    check_limits(context.settings, own)
    if context.items.is_stale:
        context.items.look()
    served = context.current_model.served
    # Refuse a bad policy and bad rules once for all users.
    resolve_policy(context.settings, served.policy, context.settings.explore, own.policy, own.nu)
    if (rules := answer_rules(context.rules, own)) is not None:
        rules.compiled(served.catalogue)
    versions = context.store.versions(ask.users) if context.store.database.is_postgres else {}
    results, budget = [], budget_of_request.get()
    for user in ask.users:
        try:
            budget.check()
            results.append(responses.BatchResult(user=user, answer=recommend(context, user, own, versions.get(user))))
        except RequestCancelledError:
            raise
        except IgcfError as error:
            told = problem(error)
            results.append(responses.BatchResult(user=user, error=told["error"], message=told["message"]))
    return responses.BatchResponse(results=results)


QUICK_K = 25  # items that an answer may have to be computed in the event loop; rules never are
QUICK_CATCH_UP = 2  # reactions that a session may be behind and still count as warm, where the log is a local file
DRAWS = 100  # draws from the belief of which one makes a sampled answer, so that its propensity is known
LONGEST_KEPT = 10_000  # characters of rules that are kept parsed; longer ones would fill the memory
PROPENSITIES = ("propensity", "slot_propensity", "propensity_error")
LOGGED = ("item", "score", "mean", "std", "chance", "mean_rank", "reason", *PROPENSITIES)
"""Fields of an item that the audit log keeps."""
_logged_fields = itemgetter(*LOGGED)


async def recommend_quickly(
    context: ServiceContext, user_id: str, ask: RecommendationRequest
) -> responses.RecommendationResponse:
    """Answer without a thread when that is a matter of microseconds, which is most of the time.

    That is so when the user is in memory and nothing is sampled; handing the work to a thread and back would take
    longer than the work. A local file is read here (its readers never wait), a database across a network is not.
    """
    if context.items.is_stale:
        await anyio.to_thread.run_sync(context.items.look)
    if context.store.database.is_postgres:
        version, behind = await context.versions.version(user_id), 0
    else:
        version, behind = context.store.version(user_id), QUICK_CATCH_UP
    place = context.place(user_id)
    is_exact = policy_class(ask.policy or place.policy.name).propensity == "exact"
    is_plain = is_exact and ask.rules is None and not ask.attributes and ask.k + ask.reserve <= QUICK_K
    if is_plain and context.users.is_warm(place.served, user_id, version, behind=behind):
        return recommend(context, user_id, ask, version)
    return await in_lane(partial(recommend, context, user_id, ask, version))


def recommend(
    context: ServiceContext, user_id: str, ask: RecommendationRequest, version: Version | None = None
) -> responses.RecommendationResponse:
    """Choose the items that a user is shown, and log them.

    `ask.reserve` asks for up to so many items that would come next. They are neither logged nor counted as shown: a
    caller keeps them for the moment when this server is out of reach. `version` is what the store says of this user,
    where it was just asked.
    """
    check_limits(context.settings, ask)
    place = context.place(user_id)  # once: the whole answer comes from this model
    served, ask = place.served, place.own_request(ask)
    used, policy = resolve_policy(context.settings, place.policy, place.explore, ask.policy, ask.nu)
    rules = answer_rules(place.rules, ask)
    with context.users.open(served, user_id, version) as user:
        session = user.session
        if ask.attributes:
            session = session.with_attributes({**session.attributes, **ask.attributes})
        exclude = excluded(user, ask, rules)
        asked: dict[str, Any] = {"exclude": exclude, "candidates": ask.candidates, "policy": policy, "rules": rules}
        asked |= {"explore": place.explore, "context": ask.context or None, "draws": DRAWS}
        found = pick_items(session, ask.k, ask.reserve, fewer=ask.fewer, **asked)
        picks, next_picks, revision = found[: ask.k], found[ask.k :], user.revision
    k = len(picks)
    is_shaped = rules is not None and not rules.compiled(served.catalogue).is_filter
    otherwise: responses.Reason = "rule" if is_shaped else "learn"
    kind: responses.PropensityKind = "exact" if policy.propensity == "exact" else "estimated"
    if not any(isfinite(pick.propensity) for pick in picks):
        kind = "unknown"
    answer = responses.RecommendationResponse(
        user=user_id,
        model=served.model_id,
        revision=revision,
        recommendation_id=urandom(16).hex(),
        policy=used,
        propensity=kind,
        items=_items(served, picks, k, otherwise),
        reserve=_items(served, next_picks, k, otherwise),
    )
    if place.arm is not None:
        answer.experiment, answer.arm = place.experiment, place.arm
    if session.ignored:
        answer.ignored = list(session.ignored)
    # The answer to a request that says itself what may be shown can hardly be repeated.
    is_own = ask.exclude or ask.candidates is not None or ask.rules or ask.attributes or ask.context
    context.audit.add(_logged(answer, context.settings.no_reaction_s, is_shaped=bool(is_own)))
    learning = sum(item.reason == "learn" for item in answer.items)
    context.metrics.count_shown(pleasing=k - learning, learning=learning)
    return answer


def answer_rules(server: Rules | None, ask: RecommendationRequest) -> Rules | RulesWithin | None:
    """Find the rules of an answer: those of the request and those of the server."""
    if not ask.rules:
        return None if server is None else Rules().within(server)
    text = json.dumps(ask.rules)
    asked = _parsed(text) if len(text) <= LONGEST_KEPT else Rules.parse(ask.rules)  # the same come again and again
    return asked if server is None else asked.within(server)


@lru_cache(maxsize=1_000)
def _parsed(text: str) -> Rules:
    return Rules.parse(json.loads(text))


def pick_items(session: Session, k: int, reserve: int = 0, *, fewer: bool, **asked: Any) -> list[Recommendation]:
    """Choose `k` items and up to `reserve` that come next; `fewer`: as many as are left."""
    most = k + reserve
    try:
        return session.recommend(most, spare=reserve, **asked)
    except NoItemsLeftError:
        if not (fewer or reserve):
            raise
    probe = copy(session)  # shows nothing, and so tries no new item
    probe.contributes = False
    low, high = 0 if fewer else k, most - 1
    while low < high:  # caps may leave fewer than may be shown
        middle = (low + high + 1) // 2
        try:
            probe.recommend(middle, **asked | {"draws": 0})
            low = middle
        except NoItemsLeftError:
            high = middle - 1
    return session.recommend(low, spare=max(0, low - k), **asked) if low else []


def excluded(user: OpenUser, ask: RecommendationRequest, rules: Rules | RulesWithin | None = None) -> Sequence[str]:
    """Find what is not shown now: what the request says, and what the user skipped lately as far as enough is left.

    Where too little is left without the skipped items, those skipped longest ago may be shown again.
    """
    if not user.aside:
        return tuple(ask.exclude)
    try:
        left = int(np.count_nonzero(user.session.available(ask.k, ask.exclude, ask.candidates, rules)))
    except NoItemsLeftError:
        return ask.exclude
    aside = [item for item in user.aside if user.session.model.known_row(item) is not None]
    return [*ask.exclude, *aside[max(0, len(aside) - (left - ask.k)) :]]


def check_limits(settings: ServiceSettings, ask: RecommendationRequest) -> None:
    """Refuse what this server allows less of than the document of the API does."""
    longest = max(len(ask.exclude), len(ask.candidates or ()))
    for name, size, most in (("k", ask.k, settings.max_k), ("list", longest, settings.max_list)):
        if size > most:
            raise ConfigError(f"{name} is {size}; this server allows {most}")


def resolve_policy(
    settings: ServiceSettings, own: PolicyChoice, explore: float, policy: PolicyName | None, nu: float | None
) -> tuple[responses.PolicyUsed, Policy]:
    """Describe and build the policy of a request: `policy` and `nu` as far as it names them, otherwise `own`."""
    if nu is not None and not 0 <= nu <= settings.max_nu:
        raise ConfigError(f"nu must be between 0 and {settings.max_nu:g}, got {nu:g}")
    return _policy(policy or own.name, nu, own.nu, explore or None)


@lru_cache(maxsize=100)
def _policy(
    name: str, asked: float | None, own: float | None, explore: float | None
) -> tuple[responses.PolicyUsed, Policy]:
    nu = own if asked is None and has_nu(name) else asked
    given = {"name": name, "nu": nu, "explore": explore}
    used = responses.PolicyUsed.model_validate({each: value for each, value in given.items() if value is not None})
    return used, named_policy(name, nu=nu)


def _items(
    served: ServedModel, picks: Sequence[Recommendation], k: int, otherwise: responses.Reason = "learn"
) -> list[responses.RecommendedItem]:
    model, new_items = served.model, served.recommender.new_items
    found = []
    for pick in picks:
        row, fields = model.item_row(pick.item_id), pick._asdict()
        fields |= {"propensity": _known(pick.propensity), "slot_propensity": _known(pick.slot_propensity)}
        if not pick.propensity_error > 0:
            del fields["propensity_error"]
        # the reserve follows the first k
        reason = "please" if pick.mean_rank <= max(k, pick.rank) else otherwise
        item = responses.RecommendedItem(**served.named(row), **fields, reason=reason)
        if new_items is not None and row in new_items and not new_items.is_settled(row):
            item.new = True
        found.append(item)
    return found


def _logged(answer: responses.RecommendationResponse, no_reaction_s: float | None, *, is_shaped: bool) -> Answer:
    now, used = time.time(), answer.policy.model_dump(exclude_none=True)
    return Answer(
        recommendation_id=answer.recommendation_id,
        user_id=answer.user,
        model=answer.model,
        revision=answer.revision,
        policy=json.dumps({**used, "shaped": True} if is_shaped else used, separators=(",", ":")),
        propensity=answer.propensity,
        items=[dict(zip(LOGGED, _logged_fields(vars(item)), strict=True)) for item in answer.items],
        time=now,
        experiment=answer.experiment,
        arm=answer.arm,
        due=None if no_reaction_s is None else now + no_reaction_s,
    )


def _known(propensity: float) -> float | None:
    return propensity if isfinite(propensity) else None
