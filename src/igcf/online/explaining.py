"""Where an expected reward comes from: the population, each reaction, and what is absent from a logged record."""

from typing import NamedTuple

import numpy as np

from igcf.arrays import FloatArray
from igcf.model import Model
from igcf.model.channel import activations, gradients
from igcf.online.absence import LinearAbsence, Record
from igcf.online.belief import Belief
from igcf.online.evidence import logged_evidence, neighbours_share, record_channels
from igcf.online.learning import (
    NO_SHIFTS,
    Shifts,
    belief_from_history,
    beliefs_along,
    contributions,
    evidence,
    prior_belief,
)
from igcf.online.monotone import monotone_learning


class Shown(NamedTuple):
    """Shown reactions, oldest first, and the weight that evidence keeps with each of them."""

    rows: list[int]
    values: list[float]
    forgetting: float
    shifts: Shifts = NO_SHIFTS
    """How far contexts moved the user's vector."""


class Parts(NamedTuple):
    """Parts of one item's expected reward."""

    prior: float
    logged: FloatArray
    """What each logged reaction adds, shape (reactions,)."""
    absence: float
    shown: FloatArray
    """What each shown reaction adds, shape (reactions,)."""

    @property
    def total(self) -> float:
        """The expected reward."""
        return self.prior + float(self.logged.sum()) + self.absence + float(self.shown.sum())


def parts_of_mean(model: Model, record: Record | None, shown: Shown, row: int) -> Parts:
    """Split the expected reward of the item at `row`; without a record as `contributions` does."""
    if record is None and shown.shifts:
        path = [prior_belief(model), *beliefs_along(model, *shown[:3], None, shown.shifts)]
        means = np.array([model.expected_of(belief.mean, row) for belief in path])
        return Parts(float(means[0]), np.zeros(0), 0.0, np.diff(means))
    if record is None:
        prior, amounts = contributions(model, *shown[:3], row)
        return Parts(prior, np.zeros(0), 0.0, amounts)
    start = logged_evidence(model).belief(record, model)
    is_linear = model.is_linear and monotone_learning(model) is None and not shown.shifts
    parts = (_linear_parts if is_linear else _path_parts)(model, record, start, shown, row)
    return _with_neighbours(model, record, start, parts, row, shown.forgetting ** len(shown.rows))


def _linear_parts(model: Model, record: Record, start: Belief, shown: Shown, row: int) -> Parts:
    """Parts of a linear model's expectation: x' C times what the evidence adds, C the covariance after all of it."""
    x, prior = model.item_vectors[row].astype(np.float64), prior_belief(model)
    final = belief_from_history(model, *shown[:3], start) if shown.rows else start
    direction = final.cov @ x
    amounts = np.zeros(0)
    if shown.rows:
        X, rewards, noise = evidence(model, *shown[:3])
        amounts = ((X @ direction) * (rewards - X @ prior.mean) / noise).reshape(len(shown.rows), -1).sum(axis=1)
    [block], [channels] = logged_evidence(model).blocks, record_channels(model)
    assert isinstance(block, LinearAbsence)  # noqa: S101
    kept = shown.forgetting ** len(shown.rows)
    logged, absence = (
        block.surprises(record, channels) @ direction,
        block.surprise_of_absence(record, channels) @ direction,
    )
    return Parts(float(x @ prior.mean), kept * logged, kept * float(absence), amounts)


def _path_parts(model: Model, record: Record, start: Belief, shown: Shown, row: int) -> Parts:
    """Parts of any other expectation: the difference that each shown reaction made when it came.

    What the record made is split among its reactions by how each moves the z of the scored channels, times the slopes
    half way; the rest, which absence and curvature made together, is told as absence.
    """
    path = [prior_belief(model), start, *beliefs_along(model, *shown[:3], start, shown.shifts)]
    means = np.array([model.expected_of(belief.mean, row) for belief in path])
    steps = np.diff(means)
    half_way = (model.prior_mean + start.mean) / 2
    channels = {number: model.channels[number] for number in model.scored}
    z = {n: np.asarray(channel.vectors[row] @ half_way[channel.span]) for n, channel in channels.items()}
    slopes = gradients(model.channels, model.terms, activations(model.channels, z))
    logged = np.zeros(len(record.rows))
    for block, own in zip(logged_evidence(model).blocks, record_channels(model), strict=True):
        moves = block.surprises(record, own) @ start.cov[block.span, block.span]
        for number, channel in channels.items():
            if channel.span == block.span:
                logged += float(slopes[number]) * (moves @ channel.vectors[row])
    return Parts(float(means[0]), logged, float(steps[0] - logged.sum()), steps[1:])


def _with_neighbours(model: Model, record: Record, start: Belief, parts: Parts, row: int, kept: float) -> Parts:
    """Add the offset of the items' neighbours: each liked item its own weight, the rest to absence."""
    share = kept * neighbours_share(model, record)
    if model.neighbours is None or not share or row >= model.n_trained:
        return parts
    is_liked = model.reward.is_satisfied(record.values)
    weights = np.where(is_liked, model.neighbours.weights_to(row, record.rows), 0.0)
    unknown = model.neighbours.weights_to(row, record.later) @ model.neighbours.means[record.later]
    rest = float(model.neighbours.constant[row]) + float(unknown) - model.expected_of(start.mean, row)
    return parts._replace(logged=parts.logged + share * weights, absence=parts.absence + share * rest)
