"""From reactions to a belief: one by one, from a whole history, and which reaction did what."""

from collections.abc import Iterator, Mapping

import numpy as np

from igcf.arrays import FloatArray, covariance_root
from igcf.model import Model
from igcf.online import backend
from igcf.online.backend.numpy_beliefs import evidence_by_block
from igcf.online.backend.types import Channels, Evidence
from igcf.online.belief import Belief
from igcf.online.monotone import MonotoneLearning, monotone_learning

CHUNK = 1024
"""Reactions whose vectors are gathered at a time where each is looked at by itself."""


def prior_belief(model: Model) -> Belief:
    """Return what is believed of a user before the first reaction."""
    return Belief(model.prior_mean, model.prior_cov)


def learned(belief: Belief, model: Model, row: int, value: float) -> Belief:
    """Return the belief after one reaction to the item at `row`; NaN is an item shown without a reaction."""
    monotone = monotone_learning(model)
    if monotone is None:
        return _after(belief, model, [row], [value])
    return _in_turn(belief, monotone, [row], [value])


Shifts = Mapping[int, FloatArray]
"""How far the context of a reaction moved the user's vector, by the row of the item; others were made in none."""
NO_SHIFTS: Shifts = {}


def learned_in(belief: Belief, model: Model, row: int, value: float, shift: FloatArray | None) -> Belief:
    """`learned` for a reaction of the user whose vector was moved by `shift` at that moment: it counts net of it."""
    if shift is None:
        return learned(belief, model, row, value)
    found = learned(Belief(belief.mean + shift, belief.cov), model, row, value)
    return Belief(found.mean - shift, found.cov)


def beliefs_along(
    model: Model,
    rows: list[int],
    values: list[float],
    forgetting: float,
    start: Belief | None = None,
    shifts: Shifts = NO_SHIFTS,
) -> Iterator[Belief]:
    """Yield the belief after each reaction of a history, oldest first, from `start` or the prior."""
    prior = prior_belief(model)
    belief = start or prior
    for row, value in zip(rows, values, strict=True):
        belief = learned_in(belief.decayed(prior, forgetting), model, row, value, shifts.get(row))
        yield belief


def belief_from_history(
    model: Model,
    rows: list[int],
    values: list[float],
    forgetting: float,
    start: Belief | None = None,
    shifts: Shifts = NO_SHIFTS,
) -> Belief:
    """Return the belief after a whole history, from `start` or the prior; equals learning it reaction by reaction."""
    prior, monotone = prior_belief(model), monotone_learning(model)
    belief = start or prior
    if monotone is not None and forgetting == 1.0 and not shifts:
        return _in_turn(belief, monotone, rows, values)
    if monotone is None and not shifts and (forgetting == 1.0 or model.has_identity_links):
        kept = belief if start is None else belief.decayed(prior, forgetting ** len(rows))
        return _after(kept, model, rows, values, forgetting)
    for belief in beliefs_along(model, rows, values, forgetting, start, shifts):  # noqa: B007
        pass
    return belief


def _in_turn(belief: Belief, monotone: MonotoneLearning, rows: list[int], values: list[float]) -> Belief:
    """Return the belief after some reactions, each counted as what was known when it came allows."""
    mean, cov = np.array(belief.mean, order="C"), np.array(belief.cov, order="C")
    classes = monotone.classes_of(np.array(values))
    backend.loops.learn_in_turn(monotone.rules, mean, cov, np.array(rows, dtype=np.int64), classes)
    return Belief(mean, cov)


def _after(belief: Belief, model: Model, rows: list[int], values: list[float], forgetting: float = 1.0) -> Belief:
    """Return the belief after some reactions, block by block of the user's vector; see `evidence` on forgetting."""
    mean, cov = np.array(belief.mean, order="C"), np.array(belief.cov, order="C")
    weights = None if forgetting == 1.0 else _weights(len(rows), forgetting)
    items = np.array(rows, dtype=np.int64)
    backend.loops.learn(mean, cov, channels_of(model), items, rewards_of(model, values), weights)
    return Belief(mean, cov)


def rewards_of(model: Model, values: list[float]) -> FloatArray:
    """Return the rewards of some values in each channel of a model, shape (values, channels)."""
    numbers = np.array(values, dtype=np.float64)
    rewards = np.empty((len(numbers), len(model.channels)))
    for number, channel in enumerate(model.channels):
        rewards[:, number] = channel.reward.of(numbers)
    return rewards


def channels_of(model: Model) -> Channels:
    """Return the channels of a model as a backend takes them."""
    return model.computed(
        "channels",
        lambda: Channels(
            np.array([channel.start for channel in model.channels]),
            tuple(channel.vectors for channel in model.channels),
            tuple(channel.noise_var for channel in model.channels),
            np.array([channel.link == "logit" for channel in model.channels]),
        ),
    )


def contributions(
    model: Model, rows: list[int], values: list[float], forgetting: float, item_row: int
) -> tuple[float, FloatArray]:
    """Return an item's expected reward in the population, and what each reaction of a history added to it.

    Linear models: mean = x . m0 + sum_s k_s a_s with k_s = x' S0 x_s and a = M^-1 (rewards - X m0), M = X S0 X' +
    noise, the block form of eq:update_dis read term by term; the order of the reactions does not matter. Otherwise
    what a reaction added is the difference that it made when it came.
    """
    prior = prior_belief(model)
    if not rows:
        return _expected(model, prior, item_row), np.zeros(0)
    if not model.is_linear or monotone_learning(model) is not None:
        means = np.fromiter(_expected_along(model, rows, values, forgetting, item_row), np.float64, len(rows) + 1)
        return float(means[0]), np.diff(means)
    x = model.item_vectors[item_row].astype(np.float64)
    X, rewards, noise = evidence(model, rows, values, forgetting)
    # M^-1 r = (r - X shift) / noise, where `shift` is how far the mean has moved: O(n d^2), and nothing of size n^2.
    # With S0 = L L' also a singular S0 will do: shift = L (1 + L' X' X L / noise)^-1 L' X' r / noise.
    surprise = rewards - X @ prior.mean
    root = covariance_root(prior.cov)
    Z = X @ root
    weighted = Z.T / noise
    shift = root @ np.linalg.solve(np.eye(Z.shape[1]) + weighted @ Z, weighted @ surprise)
    amounts = (X @ (prior.cov @ x) * ((surprise - X @ shift) / noise)).reshape(len(rows), -1).sum(axis=1)
    return float(x @ prior.mean), amounts


def _expected_along(
    model: Model, rows: list[int], values: list[float], forgetting: float, item_row: int
) -> Iterator[float]:
    """Yield an item's expected reward in the population and after each reaction, holding one belief at a time."""
    prior = prior_belief(model)
    yield _expected(model, prior, item_row)
    if forgetting < 1.0 or monotone_learning(model) is not None:
        for belief in beliefs_along(model, rows, values, forgetting):
            yield _expected(model, belief, item_row)
        return
    mean, cov = np.array(prior.mean, order="C"), np.array(prior.cov, order="C")
    for first in range(0, len(rows), CHUNK):
        part = slice(first, first + CHUNK)
        items = np.array(rows[part], dtype=np.int64)
        revealed = list(evidence_by_block(channels_of(model), items, rewards_of(model, values[part])))
        for place in range(len(rows[part])):
            for start, each in revealed:
                width = len(each.rewards) // len(rows[part])
                own = slice(place * width, (place + 1) * width)
                one = Evidence(each.x[own], each.rewards[own], each.noise[own], each.is_logit[own])
                backend.loops.update_belief(mean, cov, start, one)
            yield float(model.expected_of(mean, item_row))


def evidence(
    model: Model, rows: list[int], values: list[float], forgetting: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return all that a history reveals: vectors (n, d), rewards (n,), noise variances (n,), n = reactions x channels.

    Forgetting gives a reaction that is `age` reactions old the weight forgetting ** age; what a reaction leaves unknown
    gets a noise so large that it weighs nothing.
    """
    X, rewards, noise = model.observations(np.array(rows), np.array(values))
    if forgetting < 1.0:
        noise /= _weights(len(rows), forgetting)[:, None]
    is_unknown = np.isnan(rewards)
    if is_unknown.any():
        rewards[is_unknown], noise[is_unknown] = 0.0, 1e30
    return X.reshape(-1, model.dim), rewards.ravel(), noise.ravel()


def _weights(n_reactions: int, forgetting: float) -> FloatArray:
    """Weights that forgetting leaves to the reactions of a history, oldest first, shape (reactions,)."""
    return np.asarray(forgetting ** np.arange(n_reactions - 1, -1, -1.0))


def _expected(model: Model, belief: Belief, item_row: int) -> float:
    return float(model.expected_of(belief.mean, item_row))
