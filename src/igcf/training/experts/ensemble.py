"""Both experts as one model, and what is chosen on validation users."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from igcf.arrays import Float32Array, FloatArray
from igcf.config import ExpertsConfig
from igcf.data.interactions import Interactions
from igcf.model import Channel, Model, Reward, Term
from igcf.training.experts.blocks import in_threads, one_thread_each
from igcf.training.experts.grades import grade_thresholds
from igcf.training.experts.item_age import age_corrected_linear, age_corrected_logistic, growth_since_appearance
from igcf.training.experts.linear import LinearExpert, fit_linear
from igcf.training.experts.logistic import LogisticExpert, fit_logistic
from igcf.training.experts.prior import prior_from_users
from igcf.training.graph.train import Progress
from igcf.training.selection import held_out_users, interactive_precision, validation_table

RESIDUAL_FLOOR = 0.02
"""Added to a column's residual variance: nothing is observed more exactly than this."""
OTHER_NOISE = 3.0
"""How much noisier an exposure, or more than a success, counts than a success: they are the weaker signs of taste."""
ACTIVITY_VARIANCE = 3.0
"""Of the factor by which a user has more successes than the population: a log says little about those to come."""
WIDE_ACTIVITY_VARIANCE = 30.0
"""The same where validation users will tell what it is (`prior_from_users`)."""
LOGIT_ACTIVITY_VARIANCE = 1.0
"""The same for exposures, added to the logit."""
TEMPERATURES = (0.7, 1.0, 2.0, 4.0, 8.0)
ACTIVITIES = (0.0, 0.5, -0.5)
LINEAR_DIMS = (48, 24)
ITEM_AGE_CORRECTIONS = (False, True)
MOST_ITEMS = 100_000
"""Beyond this many items the logistic expert's statistics would not fit in memory; the linear one stands alone."""


@dataclass(frozen=True)
class Choice:
    """What validation users decide."""

    dim: int
    """Components of the linear expert."""
    activity: float
    """How much more the active users count in it."""
    likelihood_temperature: float
    """Divides the evidence of every reaction: above 1 the belief moves more slowly than the likelihood says."""
    item_age_correction: bool = False
    """Whether an item that appeared late is judged by the users since then."""


def fit_experts(
    data: Interactions,
    config: ExpertsConfig,
    *,
    validation: Interactions | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Model:
    """Learn both experts; what is left open is chosen on validation users, or on the most active users held out."""
    begun = time.perf_counter()
    reward = Reward.from_log(data.values, "satisfied", config.satisfied)

    def say(what: str, done: int, total: int) -> None:
        if progress is not None:
            progress(Progress(done, total, None, None, None, time.perf_counter() - begun, what))

    level = config.activity_offset * (ACTIVITY_VARIANCE if validation is None else WIDE_ACTIVITY_VARIANCE)
    fits = Fits(data, config, reward, say, level)
    held_out = held_out_users(data, config.holdout)
    choice, precision = first_choice(config), float("nan")
    with one_thread_each():
        if validation is not None:
            truth = validation_table(validation, data)
            choice, precision = fits.chosen(truth)
        elif len(held_out):
            rest = Fits(data.subset(~np.isin(data.user_idx, held_out)), config, reward, say, level)
            choice, precision = rest.chosen(data.only_users(held_out).dense())
            fits.earlier = rest.logistic()
        model = fits.model(choice, None if np.isnan(precision) else precision, time.perf_counter() - begun)
        return (
            prior_from_users(model, truth, config.validate_rounds)
            if config.prior_from_validation and validation is not None
            else model
        )


class Fits:
    """The experts of one log, each fitted when it is first needed."""

    def __init__(
        self,
        data: Interactions,
        config: ExpertsConfig,
        reward: Reward,
        say: Callable[[str, int, int], None],
        level: float = ACTIVITY_VARIANCE,
    ) -> None:
        self.earlier: LogisticExpert | None = None
        """Of most of the same users: a few more iterations are enough."""
        self.data, self.config, self.reward, self._say, self._level = data, config, reward, say, level
        self.above, self.below = grade_thresholds(data.values, reward.threshold) if config.grades else ((), ())
        self.exposures = self._table(-np.inf)
        self.successes = self._table(reward.threshold)
        self.better = [self._table(threshold) for threshold in self.above]
        self.growth = None if config.item_age_correction is False else growth_since_appearance(data)
        self._linear: dict[tuple[int, float], LinearExpert] = {}
        self._logistic: LogisticExpert | None = None

    def _table(self, threshold: float) -> sp.csr_array:
        """(users, items) ones where a reaction has at least this value; users without any reaction are left out."""
        rows = np.unique(self.data.user_idx)
        table = sp.csr_array(self.data.matrix((self.data.values >= threshold).astype(np.float32))[rows])
        table.eliminate_zeros()
        return table

    def linear(self, dim: int, activity: float) -> LinearExpert:
        """The linear expert of these settings."""
        if (dim, activity) not in self._linear:
            tables = [self.successes, self.exposures, *self.better]
            self._linear[dim, activity] = fit_linear(tables, dim, activity=activity, seed=self.config.seed)
        return self._linear[dim, activity]

    def logistic(self) -> LogisticExpert | None:
        """The logistic expert, or None for a catalogue that is too large for it."""
        if self._logistic is None and self.data.n_items <= MOST_ITEMS:
            config = self.config
            self._logistic = fit_logistic(
                self.exposures,
                [self.successes, *self.better, *(self._table(threshold) for threshold in self.below)],
                self.earlier or self.linear(max(config.logistic_dim, LINEAR_DIMS[0]), 0.0),
                dim=config.logistic_dim,
                iterations=config.iterations if self.earlier is None else -(-config.iterations // 3),
                penalty=config.penalty,
                seed=config.seed,
                progress=lambda done, total: self._say("logistic expert", done, total),
            )
        return self._logistic

    def built(self, choice: Choice, metadata: dict[str, Any] | None = None) -> Model:
        """The model of one choice."""
        linear, logistic = self.linear(choice.dim, choice.activity), self.logistic()
        if choice.item_age_correction and self.growth is not None:
            linear = age_corrected_linear(linear, self.growth)
            if logistic is not None:
                logistic = age_corrected_logistic(logistic, self.growth, self.exposures.mean(axis=0))
        return ensemble_model(
            self.data,
            self.reward,
            linear,
            logistic,
            choice.likelihood_temperature,
            above=self.above,
            below=self.below,
            level=self._level,
            metadata=metadata,
        )

    def chosen(self, truth: Float32Array) -> tuple[Choice, float]:
        """The best choice on validation users, one setting after the other; ties keep the earlier candidate."""
        best, scores = first_choice(self.config), dict[Choice, float]()
        temperatures = _open(self.config.likelihood_temperature, TEMPERATURES)
        activities = _open(self.config.activity, ACTIVITIES)
        dims = _open(self.config.linear_dim, LINEAR_DIMS)
        ages = (
            _open(self.config.item_age_correction, ITEM_AGE_CORRECTIONS)
            if self.growth is not None
            else (best.item_age_correction,)
        )
        total = len(temperatures) + len(activities) + len(dims) + len(ages) - 3

        def score(model: Model) -> float:
            return interactive_precision(model, truth, self.config.validate_rounds)

        def best_of(choices: list[Choice]) -> Choice:
            new = [choice for choice in dict.fromkeys(choices) if choice not in scores]
            scores.update(zip(new, in_threads(score, [self.built(choice) for choice in new]), strict=True))
            self._say("choosing on validation users", len(scores), max(total, len(scores)))
            return max(choices, key=scores.__getitem__)

        best = best_of(
            [replace(best, likelihood_temperature=likelihood_temperature) for likelihood_temperature in temperatures]
        )
        best = best_of([best, *(replace(best, activity=activity) for activity in activities)])
        best = best_of([best, *(replace(best, dim=dim) for dim in dims)])
        # the best likelihood_temperature of other components need not be the best of these
        best = best_of(
            [
                best,
                *(
                    replace(best, likelihood_temperature=likelihood_temperature)
                    for likelihood_temperature in _beside(best.likelihood_temperature, temperatures)
                ),
            ]
        )
        best = best_of([best, *(replace(best, item_age_correction=age) for age in ages)])
        return best, scores[best]

    def model(self, choice: Choice, precision: float | None, seconds: float) -> Model:
        """The artifact, with the record of how it came about."""
        return self.built(
            choice,
            {
                "settings": self.config.as_dict(),
                "chosen": {
                    "dim": choice.dim,
                    "activity": choice.activity,
                    "likelihood_temperature": choice.likelihood_temperature,
                    "item_age_correction": choice.item_age_correction and self.growth is not None,
                },
                "data": {
                    "name": self.data.name,
                    "fingerprint": self.data.fingerprint(),
                    "users": self.data.n_users,
                    "items": self.data.n_items,
                    "reactions": len(self.data),
                },
                "metrics": {"validation_precision": precision, "validation_rounds": self.config.validate_rounds},
                "seconds": round(seconds, 3),
            },
        )


def ensemble_model(
    data: Interactions,
    reward: Reward,
    linear: LinearExpert,
    logistic: LogisticExpert | None,
    likelihood_temperature: float,
    *,
    above: Sequence[float] = (),
    below: Sequence[float] = (),
    level: float = ACTIVITY_VARIANCE,
    metadata: dict[str, Any] | None = None,
) -> Model:
    """Score = (linear expectation + P(seen) * P(liked | seen)) / 2, each expert with a block of the user's vector.

    `above` and `below` are the thresholds of the further gradings: they are learned from, and not scored. How much a
    user sees and likes of everything is a dimension of its own: the linear expert's constant, of variance `level`, and
    a 1 in the logistic one; with 0 both are known.
    """
    n = data.n_items
    factors = np.column_stack([linear.means, linear.loadings]).astype(np.float32)
    noise = likelihood_temperature * (linear.residuals + RESIDUAL_FLOOR)
    shown = [reward, replace(reward, kind="exposed"), *(replace(reward, threshold=grade) for grade in above)]
    channels = []
    for number, revealed in enumerate(shown):
        rows = slice(number * n, (number + 1) * n)
        channels.append(Channel(factors[rows], noise[rows] * (OTHER_NOISE if number else 1.0), revealed))
    means, variances = [_constant_first(linear.loadings.shape[1])], [np.ones(factors.shape[1])]
    variances[0][0] = level
    terms = [Term(1.0, (0,))]
    if logistic is not None:
        first, start, flat = len(channels), factors.shape[1], np.full(n, likelihood_temperature)
        liked = [replace(reward, kind="liked", threshold=grade) for grade in (reward.threshold, *above, *below)]
        for vectors, revealed in zip(logistic.vectors, [replace(reward, kind="exposed"), *liked], strict=True):
            is_seen = np.full(n, 1.0 if revealed.kind == "exposed" else 0.0)
            parts = np.column_stack([vectors[:, -1], is_seen, vectors[:, :-1]]).astype(np.float32)
            channels.append(Channel(parts, flat, revealed, "logit", start))
        width = logistic.vectors.shape[2] + 1
        means.append(_constant_first(width - 1))
        variances.append(np.r_[0.0, LOGIT_ACTIVITY_VARIANCE if level else 0.0, np.ones(width - 2)])
        terms = [Term(0.5, (0,)), Term(0.5, (first, first + 1))]
    return Model(
        channels=channels,
        terms=terms,
        item_ids=data.item_ids,
        titles=data.titles,
        categories=data.categories,
        prior_mean=np.concatenate(means),
        prior_cov=np.diag(np.concatenate(variances)),
        reward=reward,
        metadata=metadata,
    )


def first_choice(config: ExpertsConfig) -> Choice:
    """Where the search begins, and what is taken when there is nobody to choose on."""
    return Choice(
        dim=LINEAR_DIMS[0] if config.linear_dim is None else config.linear_dim,
        activity=ACTIVITIES[0] if config.activity is None else config.activity,
        likelihood_temperature=1.0 if config.likelihood_temperature is None else config.likelihood_temperature,
        item_age_correction=bool(config.item_age_correction),
    )


def _constant_first(dim: int) -> FloatArray:
    """The user's vector in the population's mean: a constant 1, then zeros."""
    return np.asarray(np.eye(1, dim + 1)[0])


def _beside(likelihood_temperature: float, temperatures: Sequence[float]) -> list[float]:
    """The next smaller and the next larger candidate."""
    place = temperatures.index(likelihood_temperature)
    return [*temperatures[max(place - 1, 0) : place], *temperatures[place + 1 : place + 2]]


def _open(fixed: Any, candidates: tuple[Any, ...]) -> tuple[Any, ...]:
    return candidates if fixed is None else (fixed,)
