"""Fits that several experiments share: what is fitted alike on the same log is fitted once."""

import time
from typing import Any

import numpy as np

from igcf.lab.baselines import Method, Task
from igcf.lab.baselines.task import Settings


class Fits:
    """Fits that were made on one log, by everything that they depend on."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[Any, float]] = {}

    def of(self, method: Method, task: Task, settings: Settings, rng: np.random.Generator) -> tuple[Any, float]:
        """Return the fit of a method, and how many seconds it took when it was made."""
        key = fit_key(method, task, settings, rng)
        if key not in self._made:
            started = time.perf_counter()
            fitted = method.fit(task, settings, rng)
            self._made[key] = fitted, time.perf_counter() - started
        return self._made[key]


def fit_key(method: Method, task: Task, settings: Settings, rng: np.random.Generator) -> str:
    """Return a text that is equal for equal fits on the same log."""
    logs = [log.fingerprint() for log in (task.train, *task.validation)]
    given = (logs, task.satisfied, task.reward, task.may_refit, task.seed)
    sessions = method.session_sizes(task.rounds, task.slate)
    return repr((method.name, method.fit_settings(settings), given, sessions, rng.bit_generator.state))
