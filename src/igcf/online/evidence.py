"""Two kinds of evidence about a user: reactions to what was shown, and reactions that a log holds.

Of a *shown* reaction only the item that was shown is known. A *logged* record says more: of all items, the user came to
these, so that every absent item is a weak "no" (docs/maths.md, section Logged evidence). Shown reactions are learned by
`igcf.online.learning`; this module turns a logged record into a belief.
"""

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from igcf.arrays import AnyFloatArray, Float32Array, FloatArray, IntArray
from igcf.errors import ConfigError, FeedbackError, ModelError
from igcf.model import Channel, Model
from igcf.model.channel import activations, expectation
from igcf.model.usage import NO_SUCCESS
from igcf.online.absence import LinearAbsence, LogisticAbsence, Record
from igcf.online.belief import Belief
from igcf.online.engine import ScoringEngine

FEWEST_EXPECTED = 1.0  # smallest number of reactions that a whole record is expected to have
NO_ROWS: IntArray = np.zeros(0, dtype=np.int64)


class LoggedBelief(NamedTuple):
    """Belief about a user with a logged record: a Gaussian, plus a constant per item.

    Example:
        With the model of the example of `igcf.Model`:

        >>> belief, offset = igcf.online.belief_from_logged(model, [0], [1.0])
        >>> belief.mean.round(2).tolist()
        [0.85, -0.11]
    """

    belief: Belief
    offset: Float32Array | None
    """Added to the expected reward of every item, shape (items,); None: nothing is added."""


def belief_from_logged(
    model: Model, rows: Sequence[int] | IntArray, values: npt.ArrayLike, *, later: Sequence[int] | IntArray = ()
) -> LoggedBelief:
    """Return the belief about a user after logged reactions, in which absence counts.

    Args:
        model: the model of the user.
        rows: rows of the items reacted to; of several reactions to one item the last counts.
        values: values in the units of the log, one per row.
        later: rows of items without meaning in their absence, because they appeared after the record's end.
    """
    evidence = logged_evidence(model)
    record = evidence.record(rows, values, later)
    belief = evidence.belief(record, model)
    return LoggedBelief(belief, record_offset(model, record))


def expected_rewards(model: Model, user: FloatArray) -> AnyFloatArray:
    """Return the expected reward of every item for one user vector, in single precision."""
    short = user.astype(np.float32)
    z = {n: model.channels[n].vectors @ short[model.channels[n].span] for n in model.scored}
    return expectation(model.terms, activations(model.channels, z))  # type: ignore[arg-type]


def logged_record(model: Model, reactions: list[tuple[str, float | None]], until: int | None) -> Record | None:
    """Check logged reactions from outside and return them as a record; None if the list is empty."""
    if not reactions:
        return None
    check_pairs("logged", reactions)
    item_ids, given = zip(*reactions, strict=True)
    rows = np.array(model.item_rows(item_ids), dtype=np.int64)
    values = model.reward.checked_all(given)
    if math.isnan(sum(values)):
        missing = next(item_id for item_id, value in reactions if value is None)
        raise FeedbackError(
            f"logged reaction to item {missing!r} has no value; leave it out of the log, which says the same, or give "
            "it as shown"
        )
    is_known = until is not None and model.appeared is not None
    later = np.flatnonzero(model.appeared > until) if is_known else NO_ROWS  # type: ignore[operator]
    return logged_evidence(model).record(rows, np.array(values), later)


def without_items(model: Model, record: Record, rows: Sequence[int]) -> Record:
    """Return the record without its reactions to some items, which say nothing by their absence either.

    The weight of absence stays that of the whole record.
    """
    is_gone = np.isin(record.rows, rows)
    if not is_gone.any():
        return record
    later = np.union1d(record.later, record.rows[is_gone & (record.rows < model.n_trained)])
    return record._replace(rows=record.rows[~is_gone], values=record.values[~is_gone], later=later)


def check_pairs(argument: str, reactions: list[Any]) -> None:
    """Refuse reactions other than (item_id, value) pairs."""
    if not (set(map(type, reactions)) <= {tuple, list} and set(map(len, reactions)) <= {2}):
        wrong = next(each for each in reactions if type(each) not in (tuple, list) or len(each) != 2)
        raise ConfigError(f"{argument} takes (item_id, value) pairs, got {wrong!r}")


def learn_record(engine: ScoringEngine, record: Record, model: Model, keep: float = 1.0) -> Belief:
    """Bring the only user of `engine` to the belief after a record, and return it; the offset keeps the share `keep`.

    `model` has the user's prior.
    """
    evidence = logged_evidence(model)
    belief = evidence.belief(record, model)
    engine.set_belief(belief)
    if (offset := record_offset(model, record)) is not None:
        engine.set_offset(offset if keep == 1.0 else offset * np.float32(keep))
    return belief


def logged_evidence(model: Model) -> "LoggedEvidence":
    """Return the sums over the items that a model was trained on, which are computed when they are first needed."""
    trained = model.trained

    def compute() -> LoggedEvidence:
        population = trained.population
        return LoggedEvidence(trained) if population is None else logged_evidence(population).with_prior(trained)

    return trained.computed("logged evidence", compute)


class LoggedEvidence:
    """Sums over the items of the training log, from which the belief about any user with a logged record follows."""

    def __init__(self, model: Model) -> None:
        self._prior = Belief(model.prior_mean, model.prior_cov)
        settings = model.metadata.get("settings", {})  # absence says nothing where training ignored it
        is_ignored = settings.get("missing") == "ignore"
        largest = 0.0 if is_ignored else float(settings.get("missing_weight", 1.0))
        self._largest_weight = largest / model.usage.record_temperature.absence
        logistic = [each for each in model.channels if each.link == "logit" and each.reward.of_one(np.nan) == 0.0]
        exposed = [each for each in model.channels if each.reward.kind == "exposed"]
        self._counted = (logistic or exposed or list(model.channels))[0]  # how much of a whole record reactions are
        z = self._counted.vectors @ model.prior_mean[self._counted.span]
        self.expected = max(float(self._counted.activation(z).sum()), FEWEST_EXPECTED)
        """Sum of the rewards of a user of the population over the log's items: what a whole record should hold."""
        self._model, self._n_items = model, model.n_items
        self.blocks = tuple(
            _block(model, span, channels)
            for (span, _), channels in zip(model.blocks, record_channels(model), strict=True)
        )

    def with_prior(self, model: Model) -> "LoggedEvidence":
        """Return the same sums over items for a user with the prior of `model`."""
        other = copy(self)
        other._prior = Belief(model.prior_mean, model.prior_cov)
        other.blocks = tuple(
            block.with_prior(model.prior_mean[block.span], model.prior_cov[block.span, block.span])
            for block in self.blocks
        )
        return other

    def weight(self, values: FloatArray) -> float:
        """Return the weight of an absent item: the share of a whole record that these reactions are taken for."""
        n = max(float(self._counted.reward.of(values).sum()), 0.0)
        return self._largest_weight * min(1.0, n / self.expected)

    def record(self, rows: Sequence[int] | IntArray, values: npt.ArrayLike, later: Sequence[int] | IntArray) -> Record:
        """Return a record without repetitions: the last value of an item counts."""
        items, numbers = np.array(rows, dtype=np.int64), np.array(values, dtype=np.float64)
        ordered = np.sort(items)
        if (ordered[1:] == ordered[:-1]).any():
            of_item = dict(zip(items.tolist(), numbers.tolist(), strict=True))
            items, numbers = np.array(list(of_item)), np.array(list(of_item.values()))
        own_later = np.setdiff1d(np.asarray(later, dtype=np.int64), items) if len(later) else NO_ROWS
        return Record(items, numbers, self.weight(numbers), own_later[own_later < self._n_items])

    def belief(self, record: Record, model: Model | None = None) -> Belief:
        """Return the belief after a record; without a reaction it is the prior.

        `model` is this one with further items added to it, where a record may name them.
        """
        if not len(record.rows) and not record.weight:
            return self._prior
        mean, cov = np.array(self._prior.mean), np.array(self._prior.cov)
        for block, channels in zip(self.blocks, record_channels(model or self._model), strict=True):
            mean[block.span], cov[block.span, block.span] = block.posterior(record, channels)
        return Belief(mean, cov)


def graph_signal(model: Model, record: Record) -> FloatArray:
    """Return a record as a signal on the items of the user-item graph: the amount of each reaction, (reactions,).

    Amounts are divided by the root of their sum, as the degree of a training user divides their row.
    """
    amounts = np.where(model.reward.is_satisfied(record.values), 1.0, NO_SUCCESS) * (record.rows < model.n_trained)
    return np.asarray(amounts / np.sqrt(max(amounts.sum(), 1.0)))


def record_offset(model: Model, record: Record) -> Float32Array | None:
    """Return what the low-pass filter of the graph adds to the expected rewards after a record; None: nothing."""
    if model.low_pass is None or not len(record.rows):
        return None
    own = record.rows < model.n_trained
    signal = graph_signal(model, record)[own].astype(np.float32) @ model.low_pass[record.rows[own]]
    result = np.zeros(model.n_items, dtype=np.float32)  # the graph says nothing of items added later
    result[: model.n_trained] = model.low_pass @ signal
    return result


def record_channels(model: Model) -> tuple[tuple[Channel, ...], ...]:
    """Return the channels of each block of a model, with the noise that reactions of a logged record have."""

    def compute() -> tuple[tuple[Channel, ...], ...]:
        temperature = model.usage.record_temperature
        factors = {"identity": temperature.linear, "logit": temperature.logistic}
        pairs = [(each, factors[each.link]) for each in model.channels]
        own = [each if factor == 1.0 else replace(each, noise_var=each.noise_var * factor) for each, factor in pairs]
        return tuple(tuple(own[number] for number in numbers) for _, numbers in model.blocks)

    return model.computed("record channels", compute)


def _block(model: Model, span: slice, channels: Sequence[Channel]) -> LinearAbsence | LogisticAbsence:
    links = {channel.link for channel in channels}
    if len(links) > 1:
        raise ModelError(f"channels of dimensions {span} have different links; logged evidence needs one")
    return (LogisticAbsence if "logit" in links else LinearAbsence)(model, span, channels)
