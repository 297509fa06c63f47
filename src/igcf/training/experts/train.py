"""Training of the default model: fit the experts, choose on validation users, build the model."""

import time
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from igcf.arrays import Float32Array, IntArray
from igcf.config import ExpertsConfig
from igcf.data.interactions import Interactions
from igcf.data.success import success_from
from igcf.errors import ConfigError
from igcf.model import Model, Neighbours, Reward
from igcf.training.calibrating import for_use
from igcf.training.experts.assembling import ACTIVITY_VARIANCE, with_ordinary_activity
from igcf.training.experts.blocks import one_thread_each
from igcf.training.experts.choosing import best_choice, first_choice
from igcf.training.experts.fitting import Choice, Fits
from igcf.training.experts.kept import Kept
from igcf.training.experts.neighbour_choice import (
    at_record_temperature,
    best_neighbours,
    best_record_temperature,
    default_neighbours,
    drawn_records,
    hidden_successes,
)
from igcf.training.experts.neighbours import fit_neighbours
from igcf.training.experts.prior import is_prior_from_users_better, prior_from_users
from igcf.training.experts.shared_log import SharedLog
from igcf.training.progress import Progress, Watch
from igcf.training.selection import drawn_of, most_active, validation_table

WIDE_ACTIVITY_VARIANCE = 30.0
"""Prior variance of a user's activity before validation users tell what it is (`prior_from_users`)."""


def fit_experts(
    data: Interactions | SharedLog,
    config: ExpertsConfig,
    *,
    validation: Interactions | None = None,
    progress: Watch | None = None,
    kept: Kept | None = None,
) -> Model:
    """Learn both experts; what is left open is chosen on validation users, or on the most active users held out.

    A log in memory is learned from in this process. One that workers share has no validation users beside it. What
    `kept` has of an earlier run is not computed again.
    """
    begun = time.perf_counter()
    log, kept = data if isinstance(data, SharedLog) else SharedLog.of(data), kept or Kept(None)
    reward = Reward.from_log(log.levels[0], "satisfied", _threshold(log, config))
    may_estimate = validation is not None and config.prior_from_validation is not False

    def say(what: str, done: int, total: int) -> None:
        if progress is not None:
            progress(Progress(done, total, None, None, None, time.perf_counter() - begun, what))

    variance = (WIDE_ACTIVITY_VARIANCE if may_estimate else ACTIVITY_VARIANCE) * config.activity_offset
    whole, rest, truth = _logs(data, log, config, validation)
    fits = Fits(whole, config, reward, say, variance, kept.part("whole"))
    with one_thread_each():
        strangers, choice, precision = _chosen(fits, rest, truth, kept.part("rest"))
        if may_estimate and strangers is not None and truth is not None:
            choice = _with_choice_of_prior(strangers, choice, truth)
        with_prior = partial(_with_prior, choice=choice, truth=truth, rounds=config.validate_rounds)
        fits.logistic()  # before the seconds are counted
        record = _record(fits, log, choice, precision, time.perf_counter() - begun)
        model = with_prior(fits.model(choice, record))
        if not (config.calibrated or config.neighbours):
            return model
        judged = model if strangers is None or strangers is fits else with_prior(strangers.model(choice))
        if config.calibrated:
            say("calibrating the chance", 0, 1)
            model = model.used_as(
                for_use(judged, truth, config.validate_rounds, (strangers or fits).players.successes).usage
            )
        if not config.neighbours or config.objective == "liking":  # neighbours predict hits
            return model
        say("neighbours of items", 0, 1)
        executor = whole.executor
        if strangers is None or truth is None:
            return _with_neighbours(model, default_neighbours(fits.successes(), executor), None)
        records = truth if validation is None else drawn_records(validation, config.seed)
        drawn = hidden_successes(judged, records, config.seed)
        temperature = best_record_temperature(judged, drawn, choice.likelihood_temperature)
        judged, model = (at_record_temperature(each, temperature) for each in (judged, model))
        best, ndcg = best_neighbours(judged, strangers.successes(), drawn, executor)
        if strangers is not fits:
            say("neighbours of items", 1, 2)
            [best] = fit_neighbours(fits.successes(), [best.penalty], mix=best.mix, executor=executor)
        return _with_neighbours(model, best, ndcg)


def _threshold(log: SharedLog, config: ExpertsConfig) -> float:
    """Return the value from which on a reaction is a success."""
    return success_from(log.catalogue, *log.levels, config.satisfied).threshold


def _chosen(
    fits: Fits, rest: SharedLog | None, truth: Float32Array | None, kept: Kept
) -> tuple[Fits | None, Choice, float | None]:
    """Return the experts who have not met the users on whom is chosen, the choice and its precision on these users."""
    if rest is None or truth is None:
        return None, first_choice(fits.config), None
    strangers = fits if rest is fits.log else fits.of(rest, kept)
    choice, precision = best_choice(strangers, truth)
    if strangers is not fits:
        fits.earlier = strangers.logistic()
    return strangers, choice, precision


def _with_choice_of_prior(strangers: Fits, choice: Choice, truth: Float32Array) -> Choice:
    """Return the choice with where the prior comes from: as the caller says, or what is better for validation users."""
    config = strangers.config
    is_better = config.prior_from_validation
    if is_better is None:
        is_better = is_prior_from_users_better(strangers.model(choice), truth, config.validate_rounds)
    return replace(choice, prior_from_validation=is_better)


def _with_prior(model: Model, *, choice: Choice, truth: Float32Array | None, rounds: int) -> Model:
    """Return the model with the prior that was chosen."""
    if choice.prior_from_validation and truth is not None:
        return prior_from_users(model, truth, rounds)
    return with_ordinary_activity(model)


def _logs(
    data: Interactions | SharedLog, log: SharedLog, config: ExpertsConfig, validation: Interactions | None
) -> tuple[SharedLog, SharedLog | None, Float32Array | None]:
    """Return the log of the model, the log of users other than those on whom is chosen, and the reactions of these.

    The first two are one log where the model is not learned once more from everybody; there are no others where nobody
    is set aside.
    """
    if validation is not None:
        if isinstance(data, SharedLog):
            raise ConfigError("validation users are held out of a log that workers share; leave validation out")
        is_drawn = config.objective == "liking"
        truth = validation_table(validation, data, drawn=config.seed if is_drawn else None)
        return SharedLog.of(data.with_users_of(validation)) if config.refit else log, log, truth
    held_out = _users_to_choose_on(log, config)
    if not len(held_out):
        return log, None, None
    return log, log.without_users(held_out), log.only_users(held_out).dense()


def _users_to_choose_on(log: SharedLog, config: ExpertsConfig) -> IntArray:
    """Return users to hold out: drawn ones where chances are ranked by, the most active ones where hits are."""
    if config.objective == "liking" and config.holdout:
        drawn = drawn_of(log.activities, config.seed)
        if len(drawn):
            return drawn
    return most_active(log.activities, config.holdout)


def _with_neighbours(model: Model, neighbours: Neighbours, ndcg: float | None) -> Model:
    """Return the model with the map between items, and a note of how it was chosen."""
    noted = model.with_neighbours(neighbours)
    chosen = {"penalty": neighbours.penalty, "mix": neighbours.mix}
    noted.metadata = {**model.metadata, "neighbours": {**chosen, "validation_ndcg_100": ndcg}}
    if ndcg is not None:
        temperature = asdict(model.usage.record_temperature)
        noted.metadata["chosen"] = {**model.metadata["chosen"], "record_temperature": temperature}
    return noted


def _record(fits: Fits, log: SharedLog, choice: Choice, precision: float | None, seconds: float) -> dict[str, Any]:
    """Return the model's metadata: how it was trained, on what, and what was chosen."""
    config = fits.config
    return {
        "settings": config.as_dict(),
        "chosen": {
            "dim": choice.dim,
            "activity": choice.activity,
            "likelihood_temperature": choice.likelihood_temperature,
            "item_age_correction": choice.item_age_correction and fits.growth is not None,
            "prior_from_validation": choice.prior_from_validation,
        },
        "data": {
            "name": log.catalogue.name,
            "fingerprint": log.fingerprint(),
            "users": log.n_users,
            "items": log.n_items,
            "reactions": log.n_reactions,
            "validation_users": fits.log.n_users - log.n_users,
        },
        "metrics": {"validation_precision": precision, "validation_rounds": config.validate_rounds},
        "seconds": round(seconds, 3),
    }
