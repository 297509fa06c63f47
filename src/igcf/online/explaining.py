"""Where an expected reward comes from: the population, each reaction, and what is absent from a logged record."""

from typing import NamedTuple

import numpy as np

from igcf.arrays import FloatArray
from igcf.model import Model
from igcf.model.channel import activations, expectation, gradients
from igcf.online.absence import Record
from igcf.online.belief import Belief
from igcf.online.evidence import graph_signal, logged_evidence, record_channels
from igcf.online.learning import NO_SHIFTS, Shifts, beliefs_along, prior_belief


class Parts(NamedTuple):
    """Parts of one item's expected reward."""

    prior: float
    logged: FloatArray  # what each logged reaction adds, shape (reactions,)
    absence: float
    shown: FloatArray  # what each shown reaction adds, shape (reactions,)

    @property
    def total(self) -> float:
        """The expected reward."""
        return self.prior + float(self.logged.sum()) + self.absence + float(self.shown.sum())


def parts_of_mean(
    model: Model,
    record: Record | None,
    row: int,
    rows: list[int],
    values: list[float],
    forgetting: float = 1.0,
    shifts: Shifts = NO_SHIFTS,
) -> Parts:
    """Split the expected reward of the item at `row`: each shown reaction gets the difference that it made.

    `rows` and `values` are the shown reactions, the others as of `beliefs_along`.
    What the record made is split among its reactions by how each moves the z of the scored channels, times the slopes
    half way; the rest, which absence and curvature made together, counts as absence.
    """
    start = prior = prior_belief(model)
    first = last = model.expected_of(prior.mean, row)
    logged, absence = np.zeros(0), 0.0
    if record is not None:
        start = logged_evidence(model).belief(record, model)
        last = model.expected_of(start.mean, row)
        logged = _moved_by_record(model, record, start, row)
        absence = last - first - float(logged.sum())
    path = [mean.copy() for mean, _ in beliefs_along(model, rows, values, forgetting, start, shifts)]
    means = expected_along(model, np.array(path).reshape(-1, model.dim), row)
    parts = Parts(first, logged, absence, np.diff(means, prepend=last))
    if record is None or model.low_pass is None or row >= model.n_trained:
        return parts
    alike = model.low_pass[np.minimum(record.rows, model.n_trained - 1)].astype(np.float64) @ model.low_pass[row]
    kept = forgetting ** len(rows)
    return parts._replace(logged=logged + kept * graph_signal(model, record) * alike)


def expected_along(model: Model, users: FloatArray, row: int) -> FloatArray:
    """Return the expected reward of one item for several user vectors, (users,)."""
    z = {n: users[:, model.channels[n].span] @ model.channels[n].vectors[row] for n in model.scored}
    return np.asarray(expectation(model.terms, activations(model.channels, z)))


def _moved_by_record(model: Model, record: Record, start: Belief, row: int) -> FloatArray:
    """How far each reaction of a record moves the expected reward of an item, to first order, (reactions,)."""
    half_way = (model.prior_mean + start.mean) / 2
    channels = {number: model.channels[number] for number in model.scored}
    z = {n: np.asarray(channel.vectors[row] @ half_way[channel.span]) for n, channel in channels.items()}
    slopes = gradients(model.channels, model.terms, activations(model.channels, z))
    moved = np.zeros(len(record.rows))
    for block, own in zip(logged_evidence(model).blocks, record_channels(model), strict=True):
        moves = block.surprises(record, own) @ start.cov[block.span, block.span]
        for number, channel in channels.items():
            if channel.span == block.span:
                moved += float(slopes[number]) * (moves @ channel.vectors[row])
    return moved
