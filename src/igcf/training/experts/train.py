"""Training of the default model: fit the experts, choose on validation users, build the model."""

import time
from typing import Any

import numpy as np

from igcf.arrays import Float32Array, IntArray
from igcf.config import ExpertsConfig
from igcf.data.interactions import Interactions
from igcf.data.success import success_in
from igcf.model import Model, Neighbours, Reward
from igcf.model.usage import HIT, SOUND_FROM
from igcf.training.calibrating import for_use
from igcf.training.experts.assembling import ACTIVITY_VARIANCE
from igcf.training.experts.blocks import one_thread_each
from igcf.training.experts.choosing import best_choice, first_choice
from igcf.training.experts.fitting import Choice, Fits
from igcf.training.experts.neighbour_choice import best_neighbours, default_neighbours, drawn_records
from igcf.training.experts.neighbours import fit_neighbours
from igcf.training.experts.prior import prior_from_users
from igcf.training.progress import Progress, Watch
from igcf.training.selection import drawn_users, held_out_users, validation_table

WIDE_ACTIVITY_VARIANCE = 30.0
"""Prior variance of a user's activity before validation users tell what it is (`prior_from_users`)."""


def fit_experts(
    data: Interactions,
    config: ExpertsConfig,
    *,
    validation: Interactions | None = None,
    progress: Watch | None = None,
) -> Model:
    """Learn both experts; what is left open is chosen on validation users, or on the most active users held out."""
    begun = time.perf_counter()
    reward = Reward.from_log(data.values, "satisfied", success_in(data, config.satisfied).threshold)
    is_prior_estimated = validation is not None and config.prior_from_validation

    def say(what: str, done: int, total: int) -> None:
        if progress is not None:
            progress(Progress(done, total, None, None, None, time.perf_counter() - begun, what))

    variance = (WIDE_ACTIVITY_VARIANCE if is_prior_estimated else ACTIVITY_VARIANCE) * config.activity_offset
    fits = Fits(data, config, reward, say, variance)
    held_out = _users_to_choose_on(data, config)
    choice = first_choice(config)
    precision: float | None = None
    truth: Float32Array | None = None
    rest: Fits | None = None
    judged: Model | None = None  # a model that has not met the users on whom it is judged
    with one_thread_each():
        if validation is not None:
            is_drawn = config.objective >= SOUND_FROM
            truth = validation_table(validation, data, drawn=config.seed if is_drawn else None)
            choice, precision = best_choice(fits, truth)
        elif len(held_out):
            rest = Fits(data.subset(~np.isin(data.user_idx, held_out)), config, reward, say, variance)
            truth = data.only_users(held_out).dense()
            choice, precision = best_choice(rest, truth)
            judged = rest.model(choice)
            fits.earlier = rest.logistic()
        fits.logistic()  # before the seconds are counted
        model = fits.model(choice, _record(fits, choice, precision, time.perf_counter() - begun))
        if is_prior_estimated and truth is not None:
            model = prior_from_users(model, truth, config.validate_rounds)
        if config.calibrated:
            say("calibrating the chance", 0, 1)
            model = model.used_as(for_use(judged or model, truth, config.validate_rounds).usage)
        if not config.neighbours or config.objective > HIT:  # neighbours predict hits
            return model
        say("neighbours of items", 0, 1)
        if validation is not None:
            records = drawn_records(validation, config.seed)
            return _with_neighbours(model, *best_neighbours(model, fits.successes, records, config.seed))
        if rest is None or judged is None or truth is None:
            return _with_neighbours(model, default_neighbours(fits.successes), None)
        best, ndcg = best_neighbours(judged, rest.successes, truth, config.seed)
        [best] = fit_neighbours(fits.successes, [best.penalty], mix=best.mix)
        return _with_neighbours(model, best, ndcg)


def _users_to_choose_on(data: Interactions, config: ExpertsConfig) -> IntArray:
    """Return users to hold out: drawn ones where chances are ranked by, the most active ones where hits are."""
    if config.objective >= SOUND_FROM and config.holdout:
        drawn = drawn_users(data, config.seed)
        if len(drawn):
            return drawn
    return held_out_users(data, config.holdout)


def _with_neighbours(model: Model, neighbours: Neighbours, ndcg: float | None) -> Model:
    """Return the model with the map between items, and a note of how it was chosen."""
    noted = model.with_neighbours(neighbours)
    chosen = {"penalty": neighbours.penalty, "mix": neighbours.mix}
    noted.metadata = {**model.metadata, "neighbours": {**chosen, "validation_ndcg_100": ndcg}}
    return noted


def _record(fits: Fits, choice: Choice, precision: float | None, seconds: float) -> dict[str, Any]:
    """Return the model's metadata: how it was trained, on what, and what was chosen."""
    data, config = fits.data, fits.config
    return {
        "settings": config.as_dict(),
        "chosen": {
            "dim": choice.dim,
            "activity": choice.activity,
            "likelihood_temperature": choice.likelihood_temperature,
            "item_age_correction": choice.item_age_correction and fits.growth is not None,
        },
        "data": {
            "name": data.name,
            "fingerprint": data.fingerprint(),
            "users": data.n_users,
            "items": data.n_items,
            "reactions": len(data),
        },
        "metrics": {"validation_precision": precision, "validation_rounds": config.validate_rounds},
        "seconds": round(seconds, 3),
    }
