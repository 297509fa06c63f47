"""What a method is given and what it provides, so that every method can be run, tuned and compared alike."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from igcf.arrays import Float32Array
from igcf.data.interactions import Interactions
from igcf.errors import ConfigError
from igcf.model import Reward
from igcf.online import Learner

Settings = Mapping[str, Any]
"""Names and plain values (numbers, strings, booleans, None); they are written into reports and hashed."""


@dataclass(frozen=True, eq=False)
class Task:
    """Data that a method may learn from, and the sessions that it prepares for. Test users are not in it.

    Example:
        >>> import igcf, numpy as np
        >>> log = igcf.data.synthetic_catalogue(n_users=150, n_items=40)
        >>> task = igcf.lab.baselines.Task(log, satisfied=4.0, rounds=3)
        >>> method = igcf.lab.baselines.method_named("pop")
        >>> learner = method.play(method.fit(task, method.defaults, np.random.default_rng(0)), method.defaults)
        >>> learner.begin(1, rng=np.random.default_rng(0))
        >>> learner.select(np.ones((1, 40), dtype=bool), k=3).shape
        (1, 3)
    """

    train: Interactions
    satisfied: float
    """Smallest value of a reaction that is a success."""
    rounds: int = 120
    slate: int = 1
    validation: tuple[Interactions, ...] = ()
    """Validation users: one log, or one per period of a drifting taste. Choices are made on them."""
    reward: Literal["raw", "satisfied"] = "raw"
    """Reward that the paper gives to a learner on this data: ratings as they are, or whether a user is satisfied."""
    may_refit: bool = True
    """Whether a method may learn from the validation users too once all choices are made: not where they are played."""
    seed: int | None = None
    """Seed of the fit; None: drawn from the random numbers of the job."""

    def reward_of(self, kind: str | None = None) -> Reward:
        """Return how values become rewards; None takes the reward of this data."""
        return Reward.from_log(self.train.values, kind or self.reward, self.satisfied)  # type: ignore[arg-type]

    def validation_truth(self) -> list[Float32Array]:
        """Return validation users x items, one table per period, NaN where there is no reaction."""
        return [log.dense() for log in self.validation]

    def refitted(self) -> "Task":
        """Return the task with all users as training users that may be learned from, validation users included."""
        validation = self.whole_validation()
        if validation is None or not self.may_refit:
            return self
        return replace(self, train=self.train.with_users_of(validation))

    def whole_validation(self) -> Interactions | None:
        """Return the validation users with all periods as one log; None without validation users."""
        periods = self.validation
        if not periods or not periods[0].n_users:
            return None
        times = [period.timestamps for period in periods if period.timestamps is not None]
        return replace(
            periods[0],
            user_idx=np.concatenate([period.user_idx for period in periods]),
            item_idx=np.concatenate([period.item_idx for period in periods]),
            values=np.concatenate([period.values for period in periods]),
            timestamps=np.concatenate(times) if times else None,
        )


@dataclass(frozen=True)
class Method:
    """Method of recommending: `fit` learns from the training users, `play` makes a learner out of what was learned.

    A change of an `online` setting needs no new fit.

    Example:
        >>> import igcf
        >>> method = igcf.lab.baselines.method_named("pop")
        >>> method.name, method.uses_logged
        ('pop', True)
    """

    name: str
    fit: Callable[[Task, Settings, np.random.Generator], Any]
    play: Callable[[Any, Settings], Learner]
    defaults: Settings = field(default_factory=dict)
    online: frozenset[str] = frozenset()
    """Names of the settings that `play` reads and `fit` does not."""
    grid: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Values that tuning tries, by setting."""
    paper_grid: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Values that the paper searched, where those are more; they take hours."""
    variants: Mapping[str, Settings] = field(default_factory=dict)
    """Settings that each ablation changes, by its name."""
    uses_logged: bool = False
    """Whether its learner has `know` and so can start from a log of what the user did before."""
    needs_logged: bool = False
    """Whether it scores by a history alone, so that it has nothing to say to a new user."""
    logged_settings: Settings = field(default_factory=dict)
    """Settings that differ from the defaults where users have a logged history."""
    is_refitted: bool = False
    """Whether its fit chooses nothing on validation users, who are then learned from once its settings are chosen."""
    known_grid: Mapping[str, tuple[Any, ...]] | None = None
    """Values that tuning tries where users are known by a logged history; None: those of `grid`."""
    fits_to: Literal["log", "length", "session"] = "session"
    """What a fit depends on: the log alone, also the number of items that a user is shown, or also the slates."""
    packages: tuple[str, ...] = ()
    """What `fit` imports beyond the packages of a plain installation."""

    def settings(self, changes: Settings | None = None) -> dict[str, Any]:
        """Return the defaults with `changes`; a name that the method does not know is refused."""
        unknown = sorted(set(changes or {}) - set(self.defaults))
        if unknown:
            known = ", ".join(sorted(self.defaults)) or "none"
            raise ConfigError(f"{self.name} has no setting {', '.join(unknown)}; it has: {known}")
        return {**self.defaults, **(changes or {})}

    def fit_settings(self, settings: Settings) -> dict[str, Any]:
        """Return the settings that `fit` reads, in the order of their names."""
        return {name: settings[name] for name in sorted(settings) if name not in self.online}

    def session_sizes(self, rounds: int, slate: int) -> tuple[int, ...]:
        """Return the sizes of a session that a fit depends on."""
        return {"log": (), "length": (rounds * slate,), "session": (rounds, slate)}[self.fits_to]

    def build(self, task: Task, settings: Settings, rng: np.random.Generator) -> Learner:
        """Fit on the task, and return the learner to play."""
        return self.play(self.fit(task, settings, rng), settings)
