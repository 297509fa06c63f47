"""Answers that change nothing: users, beliefs, explanations, the catalogue, the model."""

import math
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np

from igcf.arrays import FloatArray
from igcf.online import Belief
from igcf.service.catalogue import Served
from igcf.service.parts import Parts
from igcf.service.recommending import chosen
from igcf.service.sessions import load_session
from igcf.service.store import in_force


def user_state(parts: Parts, user_id: str, *, with_cov: bool) -> dict[str, Any]:
    """The answer to `GET /v1/users/{user}`."""
    served = parts.slot.current
    user = parts.store.user(user_id)
    events = parts.store.events(user_id, until=user.revision)
    belief = load_session(served, user, events).belief
    return {
        "user": user_id,
        "known": user.revision > 0,
        "model": served.model_id,
        "revision": user.revision,
        "drift": user.drift,
        "history": [
            {
                "event_id": event.event_id,
                "item": event.item_id,
                "value": event.value,
                "time": event.time,
                "title": _title(served, event.item_id or ""),
            }
            for event in in_force(events)
        ],
        "belief": {
            "mean": belief.mean.tolist(),
            "std": np.sqrt(np.maximum(np.diag(belief.cov), 0.0)).tolist(),
            "trace": float(np.trace(belief.cov)),
            "prior_trace": float(np.trace(served.model.prior_cov)),
            "cov": belief.cov.tolist() if with_cov else None,
        },
    }


def beliefs(parts: Parts, user_id: str, *, top: int, with_seen: bool, popular: int = 0) -> dict[str, Any]:
    """The answer to `GET /v1/users/{user}/beliefs`."""
    served = parts.slot.current
    with parts.sessions.open(served, user_id) as user:
        revision = user.revision
        means, stds = user.session.moments()
        belief: Belief = user.session.belief
        seen = {item_id for item_id, _ in user.session.history}
    order = np.argsort(-means, kind="stable")[: top + (0 if with_seen else len(seen))]
    rows = [row for row in order.tolist() if with_seen or served.model.item_ids[row] not in seen][:top]
    centre, cov = served.map.ellipse(belief, served.model.prior_mean)
    return {
        "user": user_id,
        "model": served.model_id,
        "revision": revision,
        "drift": parts.store.user(user_id).drift,
        "top": [
            {
                "item": served.model.item_ids[row],
                "mean": float(means[row]),
                "std": float(stds[row]),
                "popularity_rank": int(served.popularity[row]),
                "title": served.title(row),
                "categories": served.categories(row),
                "seen": served.model.item_ids[row] in seen,
            }
            for row in rows
        ],
        "popular": [
            {"item": item_id, "title": served.title(row), "chance": chance, "seen": item_id in seen}
            for row, item_id, chance in _popular_chances(served, means, stds, popular)
        ],
        "map": {"mean": centre, "cov": cov},
    }


def _popular_chances(
    served: Served, means: FloatArray, stds: FloatArray, count: int
) -> Iterator[tuple[int, str, float]]:
    """Row, id and probability of success of the population's favourites; a normal tail where the reward is a value."""
    reward = served.model.reward
    line = float(reward.of(reward.threshold))
    for row in served.popular_rows[:count].tolist():
        if reward.kind in ("satisfied", "exposed"):
            chance = min(max(float(means[row]), 0.0), 1.0)
        else:
            spread = math.sqrt(stds[row] ** 2 + served.model.item_noise[row])
            chance = 0.5 * math.erfc((line - means[row]) / spread / math.sqrt(2))
        yield row, served.model.item_ids[row], chance


def explanation(parts: Parts, user_id: str, item_id: str) -> dict[str, Any]:
    """The answer to `GET /v1/users/{user}/explanations/{item}`."""
    served = parts.slot.current
    served.model.item_row(item_id)
    with parts.sessions.open(served, user_id) as user:
        revision, found = user.revision, user.session.explain(item_id)
    return {
        "user": user_id,
        "item": item_id,
        "model": served.model_id,
        "revision": revision,
        "title": _title(served, item_id),
        "prior": found.prior,
        "mean": found.mean,
        "std": found.std,
        "contributions": [
            {"item": part.item_id, "value": part.value, "amount": part.amount, "title": _title(served, part.item_id)}
            for part in found.contributions
        ],
    }


def catalogue(parts: Parts, query: str, offset: int, limit: int) -> dict[str, Any]:
    """The answer to `GET /v1/items`."""
    served = parts.slot.current
    rows = served.popular_rows.tolist()
    if query:
        words = query.casefold().split()
        rows = [row for row in rows if all(word in served.search_texts[row] for word in words)]
    return {
        "model": served.model_id,
        "total": len(rows),
        "offset": offset,
        "items": [_catalogue_item(served, row) for row in rows[offset : offset + limit]],
    }


def catalogue_item(parts: Parts, item_id: str) -> dict[str, Any]:
    """The answer to `GET /v1/items/{item}`."""
    served = parts.slot.current
    return _catalogue_item(served, served.model.item_row(item_id))


def catalogue_map(parts: Parts) -> dict[str, Any]:
    """The answer to `GET /v1/map`."""
    served = parts.slot.current
    points = served.map.points.round(4)
    return {
        "model": served.model_id,
        "items": list(served.model.item_ids),
        "x": points[:, 0].tolist(),
        "y": points[:, 1].tolist(),
    }


def model_info(parts: Parts) -> dict[str, Any]:
    """The answer to `GET /v1/model`."""
    served, settings = parts.slot.current, parts.settings
    reward = served.model.reward
    return {
        "model": served.model_id,
        "items": served.model.n_items,
        "dim": served.model.dim,
        "reward": asdict(reward),
        "policy": chosen(parts, None, None)[0],
        "forgetting": settings.forgetting,
        "limits": {name: getattr(settings, name) for name in ("max_k", "max_nu", "max_list", "max_batch", "max_body")},
        "metadata": served.model.metadata,
        "generation": parts.slot.generation,
    }


def _catalogue_item(served: Served, row: int) -> dict[str, Any]:
    x, y = served.map.points[row].tolist()
    return {
        "item": served.model.item_ids[row],
        "title": served.title(row),
        "categories": served.categories(row),
        "popularity_rank": int(served.popularity[row]),
        "x": x,
        "y": y,
    }


def _title(served: Served, item_id: str) -> str | None:
    row = served.model.known_row(item_id)
    return None if row is None else served.title(row)
