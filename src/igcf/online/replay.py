"""A model as a learner, and many users in lock-step against what they are known to like."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from igcf.arrays import BoolArray, Float32Array, IntArray
from igcf.model import Model
from igcf.online.attributes import encode_attributes, personal_model
from igcf.online.engine import ScoringEngine
from igcf.online.environment import Environment, Learner, Shown
from igcf.online.learning import prior_belief
from igcf.online.policies import Policy
from igcf.online.selection import select_items


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
    """Let a learner recommend to users with known reactions, and return what it showed.

    Args:
        learner: Selects items and learns from the reactions to them.
        truth: Reactions of each user to every item, shape (users, items); NaN draws no reaction. A sequence of such
            arrays divides the rounds into equal phases.
        rounds: Number of slates per user.
        slate: Number of items per slate.
        rng: Breaks ties.
        available: Items that may be shown to each user, shape (users, items); None: all.
        begun: Called with the rows of the users before the first round.
    """
    environment = Environment(truth, rounds=rounds, slate=slate, available=available)
    return environment.play(learner, rng=rng, begun=begun)
