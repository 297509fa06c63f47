"""Which items a policy shows: the one way from a policy's scores to the selected items."""

from dataclasses import dataclass

import numpy as np

from igcf.arrays import AnyFloatArray, BoolArray, Float32Array, IntArray
from igcf.errors import ConfigError
from igcf.online import backend
from igcf.online.backend.types import MakeRng, Selection
from igcf.online.engine import ScoringEngine
from igcf.online.exploration import AMONG, Explorer
from igcf.online.index import IndexedEngine
from igcf.online.policies import Policy


def select_items(
    policy: Policy, engine: ScoringEngine, available: BoolArray, k: int, *, make_rng: MakeRng
) -> tuple[IntArray, AnyFloatArray]:
    """Select the `k` best available items of each user, best first: rows and scores, both of shape (users, k).

    Ties are broken at random; `available` (users, items) has at least `k` items of every user.
    """
    return backend.loops.select_users(policy_scores(policy, engine, available, make_rng), available, k, make_rng)


@dataclass(frozen=True, eq=False)
class Query:
    """What is asked for the only user of an engine."""

    policy: Policy
    engine: ScoringEngine
    available: BoolArray  # what may be shown, (1, items): at least `k` items
    k: int
    make_rng: MakeRng
    weights: Float32Array | None = None  # what scores are multiplied with, (items,)
    boosts: Float32Array | None = None  # what is added to them then, (items,)
    explorer: Explorer | None = None  # draws some of the best items

    def select(self) -> Selection:
        """Select as `select_items` does, and return what is believed of the selected items."""
        n_left = int(np.count_nonzero(self.available))
        size = self.k if self.explorer is None else min(self.k + AMONG - 1, n_left)
        among, scores = self.scored(size)
        is_open = self.available if among is None else np.ones((1, len(among)), dtype=np.bool_)
        places, best = (each[0] for each in backend.loops.select_users(scores[None], is_open, size, self.make_rng))
        if self.explorer is not None:
            chosen = self.explorer.places(size, self.k)
            places, best = places[chosen], best[chosen]
        return self.engine.describe(places if among is None else among[places], best, self.available[0], among)

    def scored(self, k: int, also: IntArray | None = None) -> tuple[IntArray | None, AnyFloatArray]:
        """Return the scores of all items, (items,); with an index those of candidates for the `k` best, and of `also`.

        Under `weights` all items are scored: an index does not know them. The first result are the rows that were
        scored, in order, or None for all.
        """
        policy, engine, boosts = self.policy, self.engine, self.boosts
        if self.weights is None and isinstance(engine, IndexedEngine) and is_searchable(policy):
            draw = policy.draw(engine, self.make_rng())[0, 0] if policy.propensity == "sampled" else None
            nu = policy.optimism or 0.0
            return engine.candidate_scores(self.available[0], nu, k, draw=draw, boosts=boosts, also=also)
        scores = policy_scores(policy, engine, self.available, self.make_rng)[0]
        scores = scores if self.weights is None else scores * self.weights
        return None, scores if boosts is None else scores + boosts


def top_k(scores: AnyFloatArray, available: BoolArray, k: int, *, rng: np.random.Generator) -> IntArray:
    """Select the `k` best available items of each user, best first, (users, k); ties are broken at random.

    Args:
        scores: one per user and item, (users, items).
        available: which items may be selected; every row needs at least `k`.
        k: number of items per user.
        rng: breaks ties.
    """
    return backend.loops.select_users(scores, available, k, lambda: rng)[0]


def is_searchable(policy: Policy) -> bool:
    """Whether an index of the items can be asked for the best ones: by a bound, or by one vector of the user."""
    return policy.optimism is not None or policy.propensity == "sampled"


def policy_scores(policy: Policy, engine: ScoringEngine, available: BoolArray, make_rng: MakeRng) -> AnyFloatArray:
    """Return the scores of a policy, (users, items), or refuse scores that cannot be ranked."""
    nu = policy.optimism
    if nu is not None:
        return engine.means if nu == 0 else engine.means + nu * np.sqrt(engine.variances)
    return _checked(type(policy).__name__, policy.scores(engine, available, rng=make_rng()), available)


def _checked(name: str, scores: AnyFloatArray, available: BoolArray) -> AnyFloatArray:
    """Refuse scores that cannot be ranked; what is not available may have any score."""
    found = np.asarray(scores)
    if found.shape != available.shape:
        raise ConfigError(
            f"policy {name} returned scores of shape {found.shape}, expected {available.shape}: "
            "one per user and item of the engine"
        )
    if found.dtype.kind not in "fiu":
        raise ConfigError(f"policy {name} returned scores of type {found.dtype}, expected real numbers")
    if found.dtype not in (np.float32, np.float64):
        found = found.astype(np.float64)
    is_bad = ~np.isfinite(found)
    if not is_bad.any():
        return found
    wrong = is_bad & available
    if wrong.any():
        user, row = (int(place[0]) for place in wrong.nonzero())
        raise ConfigError(
            f"policy {name} returned the score {found[user, row]} for item row {row} of user {user} "
            f"({int(wrong.sum())} such scores in all), expected finite numbers for every available item"
        )
    return np.where(is_bad, found.dtype.type(0), found)
