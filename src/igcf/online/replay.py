"""Many users in lock-step against what they are known to like: the inner loop of every experiment."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from igcf.arrays import BoolArray, Float32Array, IntArray
from igcf.model import Model
from igcf.online.attributes import encode_attributes, personal_model
from igcf.online.engine import ScoringEngine
from igcf.online.learning import prior_belief
from igcf.online.policies import Policy
from igcf.online.selection import select_items

BLOCK = 512
"""Users in lock-step at a time, so that thousands of users fit in memory."""


class Learner(Protocol):
    """Anything that recommends to many users in lock-step and learns from their reactions."""

    def begin(self, n_users: int, *, rng: np.random.Generator) -> None:
        """Forget everybody and meet `n_users` new users."""
        ...

    def select(self, available: BoolArray, k: int) -> IntArray:
        """Return the next `k` items of each user, best first, (users, k), out of `available` (users, items)."""
        ...

    def observe(self, rows: IntArray, values: Float32Array) -> None:
        """Learn from the reactions to what was selected, both (users, k); NaN: no reaction."""
        ...


class ModelLearner:
    """A model and a policy as a `Learner`."""

    def __init__(self, model: Model, policy: Policy, *, forgetting: float = 1.0) -> None:
        self.model, self.policy, self.forgetting = model, policy, forgetting
        self._template = ScoringEngine(model, tracks_variances=policy.uses_variances)

    def begin(self, n_users: int, *, rng: np.random.Generator) -> None:
        """Start `n_users` users from the population."""
        self.engine = self._template.fresh(n_users)
        self._rng = rng

    def set_attributes(self, given: Sequence[Mapping[str, Any]]) -> None:
        """Start each user from the prior of their attributes; values that the model does not know are ignored."""
        prior = self.model.attribute_prior
        known = set() if prior is None else set(prior.encoder.names)
        for user, own in enumerate(given):
            attributes = encode_attributes(self.model, {name: own[name] for name in own if name in known})
            model = personal_model(self.model, attributes)
            if model is not self.model:
                self.engine.set_belief(prior_belief(model), user)

    def select(self, available: BoolArray, k: int) -> IntArray:
        """Return the policy's best available items."""
        return select_items(self.policy, self.engine, available, k, make_rng=lambda: self._rng)[0]

    def observe(self, rows: IntArray, values: Float32Array) -> None:
        """Update all users in closed form."""
        self.engine.forget(self.forgetting)
        self.engine.observe(rows, values)


@dataclass(frozen=True, eq=False)
class Shown:
    """What was shown in every round and how the user reacted."""

    rows: IntArray
    """Item rows, shape (users, rounds, slate)."""
    values: Float32Array
    """Values in the units of the log, shape (users, rounds, slate); NaN: no reaction."""


def replay(
    learner: Learner,
    truth: Float32Array | Sequence[Float32Array],
    *,
    rounds: int,
    slate: int = 1,
    rng: np.random.Generator,
    available: BoolArray | None = None,
    begun: Callable[[IntArray], None] | None = None,
) -> Shown:
    """Let `learner` meet users whose reactions are known, no item twice per user.

    Args:
        learner: recommends and learns.
        truth: (users, items) values, NaN where the user has no reaction. A sequence of such tables splits the rounds
            evenly among them: the tastes change from one to the next and nobody tells the learner.
        rounds: rounds per user.
        slate: items per round; all of them are observed.
        rng: random numbers of draws and ties.
        available: (users, items), which items may be shown to whom; all by default.
        begun: called with the rows of each block's users before their first round.
    """
    phases = [truth] if isinstance(truth, np.ndarray) else list(truth)
    n_users, n_items = phases[0].shape
    rows = np.empty((n_users, rounds, slate), dtype=np.int32)
    values = np.empty((n_users, rounds, slate), dtype=np.float32)
    for start in range(0, n_users, BLOCK):
        users = np.arange(start, min(start + BLOCK, n_users))
        left = np.ones((len(users), n_items), dtype=np.bool_) if available is None else available[users]
        learner.begin(len(users), rng=rng)
        if begun is not None:
            begun(users)
        for t in range(rounds):
            table = phases[t * len(phases) // rounds]
            chosen = learner.select(left, slate)
            seen = table[users[:, None], chosen]
            np.put_along_axis(left, chosen, False, axis=1)
            learner.observe(chosen, seen)
            rows[users, t], values[users, t] = chosen, seen
    return Shown(rows, values)
