"""Answers: choose items for a user, say why each is shown, and log the answer."""

import json
import time
import uuid
from collections.abc import Sequence
from functools import partial
from typing import Any

import anyio.to_thread
import numpy as np

from igcf.arrays import BoolArray
from igcf.errors import ConfigError
from igcf.online import Belief, Policy, Recommendation, Session, Thompson, named_policy
from igcf.service.audit import Answer
from igcf.service.catalogue import Served
from igcf.service.parts import Parts

QUICK_CATCH_UP = 2
"""Reactions that a session may be behind and still count as warm, where the log is a local file."""

DRAWS = 100
"""Draws from the belief by which the propensity of a sampled answer is estimated."""


def recommend(
    parts: Parts,
    user_id: str,
    *,
    k: int,
    exclude: Sequence[str] = (),
    candidates: Sequence[str] | None = None,
    policy: str | None = None,
    nu: float | None = None,
    reserve: int = 0,
    version: tuple[str, int] | None = None,
) -> dict[str, Any]:
    """The answer to `POST /v1/users/{user}/recommendations`.

    `reserve` asks for up to so many items that would come next. They are neither logged nor counted as shown: a caller
    keeps them for the moment when this server is out of reach.
    """
    _check_limits(parts, k=k, list=max(len(exclude), len(candidates or ())))
    served = parts.slot.current  # once: the whole answer comes from this model
    name, chosen_policy = chosen(parts, policy, nu)
    with parts.sessions.open(served, user_id, version) as user:
        left = int(np.count_nonzero(user.session.available(k, exclude, candidates))) if reserve else k
        picks = user.session.recommend(min(k + reserve, left), exclude, candidates, chosen_policy)
        picks, next_picks = picks[:k], picks[k:]
        revision = user.revision
        propensities = [1.0] * k
        if isinstance(chosen_policy, Thompson):
            available = user.session.available(k, exclude, candidates)
            propensities = thompson_propensities(user.session, picks, available, rng=np.random.default_rng())
    items = [_item(served, pick, k, share) for pick, share in zip(picks, propensities, strict=True)]
    answer = Answer(
        recommendation_id=uuid.uuid4().hex,
        user_id=user_id,
        model=served.model_id,
        revision=revision,
        policy=json.dumps(name),
        propensity="estimated" if isinstance(chosen_policy, Thompson) else "exact",
        items=[{each: item[each] for each in LOGGED} for item in items],
        time=time.time(),
    )
    parts.audit.add(answer)
    learning = sum(item["reason"] == "learn" for item in items)
    parts.metrics.count_shown(pleasing=k - learning, learning=learning)
    return {
        "user": user_id,
        "model": answer.model,
        "revision": answer.revision,
        "recommendation_id": answer.recommendation_id,
        "policy": name,
        "propensity": answer.propensity,
        "items": items,
        "reserve": [_item(served, pick, k, None) for pick in next_picks],
    }


async def recommend_quickly(parts: Parts, user_id: str, **ask: Any) -> dict[str, Any]:
    """The same without a thread when the answer is a matter of microseconds, which is most of the time.

    That is so when the user is in memory and nothing is sampled; handing the work to a thread and back would take
    longer than the work. A local file is read here (its readers never wait), a database across a network is not.
    """
    if parts.store.database.is_postgres:
        version, behind = await parts.versions.version(user_id), 0
    else:
        version, behind = parts.store.version(user_id), QUICK_CATCH_UP
    is_sampled = (ask.get("policy") or parts.settings.policy) == "thompson"
    if not is_sampled and parts.sessions.is_warm(parts.slot.current, user_id, version, behind=behind):
        return recommend(parts, user_id, version=version, **ask)
    return await anyio.to_thread.run_sync(partial(recommend, parts, user_id, version=version, **ask))


LOGGED = ("item", "score", "mean", "std", "mean_rank", "reason", "propensity")


def _check_limits(parts: Parts, **sizes: int) -> None:
    for name, size in sizes.items():
        most = getattr(parts.settings, f"max_{name}")
        if size > most:
            raise ConfigError(f"{name} is {size}; this server allows {most}")


def chosen(parts: Parts, policy: str | None, nu: float | None) -> tuple[dict[str, Any], Policy]:
    """The policy of a request, as it is told and as it works."""
    settings = parts.settings
    name = policy or settings.policy
    if nu is not None and name != "ucb":
        raise ConfigError(f"nu belongs to the policy ucb, the request asks for {name}; leave nu out")
    if nu is not None and not 0 <= nu <= settings.max_nu:
        raise ConfigError(f"nu must lie between 0 and {settings.max_nu:g}, got {nu:g}")
    nu = settings.nu if nu is None else nu
    return {"name": name} | ({"nu": nu} if name == "ucb" else {}), named_policy(name, nu=nu)


def _item(served: Served, pick: Recommendation, k: int, propensity: float | None) -> dict[str, Any]:
    row = served.model.item_row(pick.item_id)
    return {
        "item": pick.item_id,
        "score": pick.score,
        "mean": pick.mean,
        "std": pick.std,
        "rank": pick.rank,
        "mean_rank": pick.mean_rank,
        "reason": "please" if pick.mean_rank <= max(k, pick.rank) else "learn",  # the reserve comes after the first k
        "propensity": propensity,
        "popularity_rank": int(served.popularity[row]),
        "title": served.title(row),
        "categories": served.categories(row),
    }


def thompson_propensities(
    session: Session,
    picks: Sequence[Recommendation],
    available: BoolArray,
    *,
    rng: np.random.Generator,
    draws: int = DRAWS,
) -> list[float]:
    """How often each pick is in the slate when the draw is repeated; the draw that was made counts as one."""
    belief: Belief = session.belief
    size, axes = np.linalg.eigh(belief.cov)
    noise = rng.standard_normal((draws, len(size))) * np.sqrt(np.maximum(size, 0.0))
    scores = session.model.expected(belief.mean + noise @ axes.T)  # (draws, items)
    last_in = np.partition(scores[:, available[0]], -len(picks), axis=1)[:, -len(picks)]  # the lowest in the slate
    rows = [session.model.item_row(pick.item_id) for pick in picks]
    is_in = scores[:, rows] >= last_in[:, None]  # (draws, k)
    return [(count + 1) / (draws + 1) for count in is_in.sum(axis=0).tolist()]
