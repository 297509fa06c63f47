"""Replays of validation users, shared by the workers: each plays some of the users."""

from collections.abc import Sequence

import numpy as np

from igcf.arrays import Float32Array, FloatArray
from igcf.model import Model
from igcf.training.calibrating import successes, users_to_play
from igcf.training.experts.blocks import in_threads
from igcf.training.experts.executor import Executor
from igcf.training.experts.part import Worker

PIECES = 4
"""Parts of the validation users that are played at the same time; a fixed number, so that cores do not matter."""


class Players:
    """Plays validation users with models on several workers."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._held: Float32Array | None = None
        self._results: dict[tuple[Model, int, float, bool], FloatArray] = {}

    def precisions(self, models: Sequence[Model], truth: Float32Array, rounds: int) -> list[float]:
        """Return the mean number of successes with each of some models of one objective (`igcf.training.selection`).

        With an objective near liking users are played in the manner of `observed`.
        """
        if not models:
            return []
        is_observed = models[0].objective == "liking"
        if is_observed:
            truth, rounds = users_to_play(truth)
        else:
            rounds = min(rounds, max(models[0].n_items // 4, 1))
        if rounds == 0:
            return [0.0] * len(models)
        return [float(each.mean()) for each in self._played(models, truth, rounds, 0.0, is_observed)]

    def successes(self, model: Model, truth: Float32Array, rounds: int, nu: float, *, is_observed: bool) -> FloatArray:
        """Return each user's number of successes, as `igcf.training.calibrating.successes` does."""
        return self._played([model], truth, rounds, nu, is_observed)[0]

    def _played(
        self, models: Sequence[Model], truth: Float32Array, rounds: int, nu: float, is_observed: bool
    ) -> list[FloatArray]:
        executor = self._executor
        if self._held is None or not np.array_equal(self._held, truth, equal_nan=True):
            self._held = truth
            self._results = {}
            shares = np.array_split(truth, executor.size)
            executor.call(hold_truth, each=[(share,) for share in shares])
        for model in models:  # one at a time is sent
            if (model, rounds, nu, is_observed) not in self._results:
                played = executor.call(play, model, rounds, nu, is_observed)
                self._results[model, rounds, nu, is_observed] = np.concatenate(played)
        return [self._results[model, rounds, nu, is_observed] for model in models]


def hold_truth(worker: Worker, truth: Float32Array) -> None:
    """Let a worker hold the reactions of some validation users."""
    worker.truth = truth


def play(worker: Worker, model: Model, rounds: int, nu: float, is_observed: bool) -> FloatArray:
    """Return the number of successes of each of a worker's validation users."""
    truth = worker.truth
    assert truth is not None, "hold_truth comes first"  # noqa: S101
    pieces = [piece for piece in np.array_split(truth, PIECES) if len(piece)]
    played = in_threads(lambda piece: successes(model, piece, rounds, nu, is_observed=is_observed), pieces)
    return np.concatenate(played) if played else np.zeros(0)
