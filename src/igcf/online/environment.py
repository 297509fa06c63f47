"""Users with known reactions, in lock-step: what every experiment and `igcf.lab.environments` play on."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from igcf.arrays import BoolArray, Float32Array, FloatArray, IntArray
from igcf.errors import ConfigError
from igcf.model import Model
from igcf.online.attributes import encode_attributes, personal_model
from igcf.online.engine import ScoringEngine
from igcf.online.learning import prior_belief
from igcf.online.policies import Policy
from igcf.online.selection import select_items

BLOCK = 512
"""Users in lock-step at a time, so that thousands of users fit in memory."""


class Learner(Protocol):
    """Anything that recommends to many users in lock-step and learns from their reactions.

    Example:
        With the model of the example of `igcf.Model`:

        >>> import numpy as np
        >>> learner: igcf.online.Learner = igcf.online.ModelLearner(model, igcf.Greedy())
        >>> learner.begin(1, rng=np.random.default_rng(0))
        >>> rows = learner.select(np.ones((1, 3), dtype=bool), k=2)
        >>> learner.observe(rows, np.array([[1.0, np.nan]], dtype=np.float32))
        >>> rows.tolist()
        [[0, 2]]
    """

    def begin(self, n_users: int, *, rng: np.random.Generator) -> None:
        """Start with `n_users` new users."""
        ...

    def select(self, available: BoolArray, k: int) -> IntArray:
        """Return the next `k` items of each user, best first, (users, k), out of `available` (users, items)."""
        ...

    def observe(self, rows: IntArray, values: Float32Array) -> None:
        """Learn from the reactions to what was selected, both (users, k); NaN: no reaction."""
        ...


@dataclass(frozen=True, eq=False)
class Shown:
    """What was shown in every round and how the user reacted.

    Example:
        >>> import igcf, numpy as np
        >>> values = np.array([[[4.0], [np.nan]]], dtype=np.float32)
        >>> shown = igcf.online.Shown(rows=np.array([[[2], [0]]]), values=values)
        >>> (shown.values >= 4).sum(axis=(1, 2)).tolist()
        [1]
    """

    rows: IntArray  # of items, shape (users, rounds, slate)
    values: Float32Array  # in the units of the log, shape (users, rounds, slate); NaN: no reaction


def rewards(satisfied: BoolArray) -> FloatArray:
    """Return the reward of each slate, (..., slate) -> (...): nDCG, which is 1 or 0 for a single item."""
    discount = 1.0 / np.log2(2.0 + np.arange(satisfied.shape[-1]))
    return np.asarray(satisfied @ discount / discount.sum())


class Environment:
    """Users with known reactions; no user is shown an item twice.

    Example:
        >>> import igcf, numpy as np
        >>> users = igcf.online.Environment(np.array([[5.0, np.nan, 3.0]], dtype=np.float32), rounds=2)
        >>> users.reset(np.array([0]))
        >>> users.step(np.array([[2]])).tolist(), users.available.tolist()
        ([[3.0]], [[True, True, False]])
    """

    users: IntArray  # rows of the users of the current block
    available: BoolArray  # items that may be shown to each of them, (users, items)
    rows: IntArray  # items shown so far, (users, rounds, slate); -1 in rounds to come
    values: Float32Array  # reactions to them, in the units of the log; NaN: no reaction
    round: int  # number of rounds so far

    def __init__(
        self,
        truth: Float32Array | Sequence[Float32Array],
        *,
        rounds: int,
        slate: int = 1,
        available: BoolArray | None = None,
    ) -> None:
        """Know the reactions `truth`, (users, items), NaN without a reaction, and what may be shown, by default all.

        A sequence of such tables splits the rounds evenly among them: the tastes change from one to the next, unknown
        to the learner.
        """
        self.truth = (truth,) if isinstance(truth, np.ndarray) else tuple(truth)
        self.rounds, self.slate, self.limit = rounds, slate, available
        self.n_users, self.n_items = self.truth[0].shape

    def reset(self, users: IntArray) -> None:
        """Start with the users at these rows of the truth."""
        shape = (len(users), self.rounds, self.slate)
        self.users, self.round = users, 0
        self.rows, self.values = np.full(shape, -1, dtype=np.int32), np.full(shape, np.nan, dtype=np.float32)
        everything = np.ones((len(users), self.n_items), dtype=np.bool_)
        self.available = everything if self.limit is None else self.limit[users]

    def step(self, rows: IntArray) -> Float32Array:
        """Show each user the items at `rows`, (users, slate), and return their reactions.

        An item that is not available, or that appears twice in a slate, gets no reaction.
        """
        if rows.shape != self.rows[:, 0].shape or rows.min() < 0 or rows.max() >= self.n_items:
            raise ConfigError(
                f"items of shape {rows.shape}, {rows.min()} to {rows.max()}; expected shape {self.rows[:, 0].shape} "
                f"(users, slate), rows 0 to {self.n_items - 1} of the catalogue"
            )
        table, every = self.truth[self.round * len(self.truth) // self.rounds], np.arange(len(rows))
        seen = self.values[:, self.round]
        for slot, chosen in enumerate(rows.T):
            seen[:, slot] = np.where(self.available[every, chosen], table[self.users, chosen], np.nan)
            self.available[every, chosen] = False
        self.rows[:, self.round] = rows
        self.round += 1
        return seen.copy()

    def observation(self) -> dict[str, Any]:
        """Return a copy of all reactions so far: `rows`, `values` (0 without a reaction) and `reacted`."""
        reacted = ~np.isnan(self.values)
        return {"rows": self.rows.copy(), "values": np.where(reacted, self.values, np.float32(0)), "reacted": reacted}

    def info(self, satisfied: float) -> dict[str, Any]:
        """Return what is `available`, whether the last items `satisfied`, and the number of the `round`."""
        last = self.values[:, self.round - 1] if self.round else np.full_like(self.values[:, 0], np.nan)
        rounds = np.full(len(self.users), self.round)
        return {"available": self.available.copy(), "satisfied": last >= satisfied, "round": rounds}

    def play(
        self, learner: Learner, *, rng: np.random.Generator, begun: Callable[[IntArray], None] | None = None
    ) -> Shown:
        """Let `learner` recommend to all users, a block of them in lock-step at a time.

        A learner with a method `attach` is given the environment before each block; `begun` is called with the rows of
        its users then.
        """
        attach: Callable[[Environment], None] | None = getattr(learner, "attach", None)
        shape = (self.n_users, self.rounds, self.slate)
        shown = Shown(np.empty(shape, dtype=np.int32), np.empty(shape, dtype=np.float32))
        for start in range(0, self.n_users, BLOCK):
            users = np.arange(start, min(start + BLOCK, self.n_users))
            self.reset(users)
            if attach is not None:
                attach(self)
            learner.begin(len(users), rng=rng)
            if begun is not None:
                begun(users)
            for _ in range(self.rounds):
                chosen = learner.select(self.available, self.slate)
                learner.observe(chosen, self.step(chosen))
            shown.rows[users], shown.values[users] = self.rows, self.values
        return shown


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
    """Let a learner recommend to users with known reactions, as `Environment.play` does; return what it showed.

    Args: those of `Environment` and of its `play`.
    """
    return Environment(truth, rounds=rounds, slate=slate, available=available).play(learner, rng=rng, begun=begun)


class ModelLearner:
    """A model and a policy as a `Learner`.

    Example:
        With the model of the example of `igcf.Model`:

        >>> import numpy as np
        >>> truth = np.array([[0.0, 1.0, np.nan]], dtype=np.float32)
        >>> learner = igcf.online.ModelLearner(model, igcf.Greedy())
        >>> igcf.online.replay(learner, truth, rounds=3, rng=np.random.default_rng(0)).values[0, :, 0].tolist()
        [0.0, 1.0, nan]
    """

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
