"""Training of the default model: fit the experts, choose on validation users, build the model."""

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from igcf.arrays import Float32Array, IntArray
from igcf.config import ExpertsConfig
from igcf.data.interactions import Interactions
from igcf.data.success import success_in
from igcf.errors import ConfigError
from igcf.model import Model, Reward
from igcf.training.calibrating import for_use, with_own_shares
from igcf.training.checkpoint import Checkpoint
from igcf.training.experts.choosing import (
    TEMPERATURES,
    Players,
    best_temperature,
    is_prior_from_users_better,
    prior_from_users,
)
from igcf.training.experts.executor import one_thread_each
from igcf.training.experts.fitting import Fits
from igcf.training.experts.hidden import Draw, hidden_successes, on_items
from igcf.training.experts.known_users import at_record_temperature, best_low_pass, best_record_temperature
from igcf.training.experts.rare_items import frequent_items, judged_items
from igcf.training.experts.shared_log import SharedLog
from igcf.training.progress import Progress, Watch
from igcf.training.selection import drawn_of, most_active, validation_table


def fit_experts(
    data: Interactions | SharedLog,
    config: ExpertsConfig,
    *,
    validation: Interactions | None = None,
    progress: Watch | None = None,
    checkpoint: Checkpoint | None = None,
) -> Model:
    """Learn both experts; what is left open is chosen on validation users, or on the most active users held out.

    A log in memory is learned from in this process. One that workers share has no validation users beside it. What
    `kept` has of an earlier run is not computed again.
    """
    begun = time.perf_counter()
    log, checkpoint = data if isinstance(data, SharedLog) else SharedLog.of(data), checkpoint or Checkpoint()
    success = success_in(log.catalogue, config.satisfied, levels=log.levels)
    reward = Reward.from_log(log.levels[0], "satisfied", success.threshold)

    def say(what: str, done: int, total: int) -> None:
        if progress is not None:
            progress(Progress(done, total, None, None, None, time.perf_counter() - begun, what))

    whole, rest, held_out = _logs(data, log, config, validation)
    truth = _table(held_out, data, config, validation)
    frequent = frequent_items(whole, config.min_item_reactions)
    judged_rows = judged_items(whole, frequent)
    everything, whole = None if frequent is None else whole, whole.only_items(frequent)
    prior_truth = None if validation is None or config.objective == "liking" else truth
    if judged_rows is not None and rest is not None and truth is not None:
        rest, truth = rest.only_items(judged_rows), truth[:, judged_rows]
    fits = Fits(whole, config, reward, say, checkpoint.part("whole"), everything)
    with one_thread_each():
        players = Players(log.executor)
        holdout, temperature, precision = _chosen(fits, rest, truth, checkpoint.part("rest"), players)
        if prior_truth is not None and not _is_prior_better(holdout, temperature, truth):
            prior_truth = None
        fits.logistic()  # before the seconds are counted
        record = _record(fits, log, temperature, precision, time.perf_counter() - begun)
        record["chosen"]["prior_from_validation"] = prior_truth is not None
        model = fits.model(temperature, record)
        judged = model if holdout is None or holdout is fits else holdout.model(temperature)
        if prior_truth is not None and truth is not None:
            model, judged = (
                prior_from_users(each, own, config.validate_rounds)
                for each, own in ((model, prior_truth), (judged, truth))
            )
        if config.calibrated:
            say("calibrating the chance", 0, 1)
            usage = for_use(judged, truth, config.validate_rounds, players.successes).usage
            model = model.changed(usage=with_own_shares(usage, model))
        if not config.known_users or config.objective == "liking" or holdout is None or held_out is None:
            return model  # the filter finds hits
        drawn = hidden_successes(judged, on_items(held_out, judged_rows), config.seed, config.hidden_successes)
        of_graph = fits
        if holdout is not fits:
            of_graph = Fits((everything or whole).only_items(judged_rows), config, reward, say)
        return _for_known_users(model, judged, of_graph, holdout, temperature, drawn, judged_rows)


def _is_prior_better(holdout: Fits | None, temperature: float, truth: Float32Array | None) -> bool:
    """Return whether new users should start from the prior of validation users."""
    if holdout is None or truth is None:
        return False
    holdout.say("prior of new users", 0, 1)
    return is_prior_from_users_better(holdout.model(temperature), truth, holdout.config.validate_rounds)


def _for_known_users(
    model: Model,
    judged: Model,
    of_graph: Fits,
    holdout: Fits,
    temperature: float,
    drawn: Sequence[Draw],
    rows: IntArray | None,
) -> Model:
    """Return the model with the record temperatures and the low-pass filter that rank hidden successes best.

    Both are chosen with `judged`; `rows` are those of the graph's items, None for all.
    """
    of_graph.say("known users", 0, 1)
    of_records = best_record_temperature(judged, drawn, temperature)
    judged, model = (at_record_temperature(each, of_records) for each in (judged, model))
    best = best_low_pass(judged, holdout.edges(), drawn, model.n_items)
    model.metadata["chosen"] |= {"record_temperature": asdict(of_records)}
    if best is None:
        return model
    model.metadata["low_pass"] = best._asdict()
    if not best.weight:
        return model
    directions = best.of(of_graph.edges())  # a small graph may have fewer than `best.rank`
    low_pass = np.zeros((model.n_items, directions.shape[1]), dtype=np.float32)
    low_pass[slice(None) if rows is None else rows] = directions
    return model.changed(low_pass=low_pass)


def _chosen(
    fits: Fits, rest: SharedLog | None, truth: Float32Array | None, checkpoint: Checkpoint, players: Players
) -> tuple[Fits | None, float, float | None]:
    """Return the experts fitted without the validation users, the temperature, and its precision on those users."""
    if rest is None or truth is None:
        return None, fits.config.likelihood_temperature or TEMPERATURES[0], None
    holdout = fits if rest is fits.log else Fits(rest, fits.config, fits.reward, fits.say, checkpoint)
    temperature, precision = best_temperature(holdout, truth, players)
    if holdout is not fits and rest.n_items == fits.log.n_items:
        fits.earlier = holdout
    return holdout, temperature, precision


def _logs(
    data: Interactions | SharedLog, log: SharedLog, config: ExpertsConfig, validation: Interactions | None
) -> tuple[SharedLog, SharedLog | None, Interactions | None]:
    """Return the model's log, the log without the validation users, and the reactions of the validation users.

    The first two are one log where the model is not learned once more from everybody; there are no others where nobody
    is set aside.
    """
    if validation is not None:
        if isinstance(data, SharedLog):
            raise ConfigError("validation users are held out of a log that workers share; leave validation out")
        return SharedLog.of(data.with_users_of(validation)) if config.refit else log, log, validation
    held_out = _users_to_choose_on(log, config)
    if not len(held_out):
        return log, None, None
    return log, log.without_users(held_out), log.only_users(held_out)


def _table(
    held_out: Interactions | None,
    data: Interactions | SharedLog,
    config: ExpertsConfig,
    validation: Interactions | None,
) -> Float32Array | None:
    """Return the reactions of the users who are played, shape (users, items), NaN for unrated items."""
    if held_out is None or validation is None or isinstance(data, SharedLog):
        return None if held_out is None else held_out.dense()
    return validation_table(validation, data, drawn=config.seed if config.objective == "liking" else None)


def _users_to_choose_on(log: SharedLog, config: ExpertsConfig) -> IntArray:
    """Return users to hold out: drawn ones where chances are ranked by, the most active ones where hits are."""
    if config.objective == "liking" and config.holdout:
        drawn = drawn_of(log.activities, config.seed)
        if len(drawn):
            return drawn
    return most_active(log.activities, config.holdout)


def _record(fits: Fits, log: SharedLog, temperature: float, precision: float | None, seconds: float) -> dict[str, Any]:
    """Return the model's metadata: how it was trained, on what, and what was chosen."""
    config = fits.config
    return {
        "settings": config.as_dict(),
        "chosen": {"likelihood_temperature": temperature},
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
