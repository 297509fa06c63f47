"""What serves known users, chosen by ranking hidden successes of held-out users (docs/maths/known-users.md).

It is how far records are believed, and the low-pass filter of the graph beside the belief.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from igcf.arrays import AnyFloatArray, Float32Array, FloatArray, IntArray
from igcf.graph.filter import FilterSettings, fit_graph_filter
from igcf.model import Model
from igcf.model.usage import RecordTemperature
from igcf.online.absence import Record
from igcf.online.evidence import expected_rewards, graph_signal, logged_evidence
from igcf.training.experts.choosing import LEVEL
from igcf.training.experts.executor import in_threads
from igcf.training.experts.hidden import Draw

TEMPERATURES = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Candidates for the evidence of records, beside the likelihood temperature of sessions."""
ABSENCES = (1.0, 3.0, 10.0, 30.0)
"""Candidates for the temperature of absence."""
WEIGHTS = (0.0, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 12.0)
"""Candidates for the weight of the low-pass filter; the first is taken where there is nobody to choose on."""
RANKS, MOST_NUMBERS = (32, 64, 128, 256), 4_000_000
"""Candidates for the directions that it keeps, and the numbers that they may have in all: an answer reads each once."""
FEWEST_DIRECTIONS = 4
EXPONENTS = ((0.4, 0.3), (0.5, 0.5))
"""Candidates for the normalisation of the graph by the degrees of users and items; the second is the paper's."""
TOP = 100  # ranks that count


class LowPass(NamedTuple):
    """Choice of a low-pass filter."""

    exponents: tuple[float, float]
    rank: int
    weight: float
    ndcg: float  # mean nDCG@100 of the hidden successes with it

    def of(self, edges: sp.csr_array) -> Float32Array:
        """Return the directions of a graph that the model keeps, times the root of the weight, (items, rank)."""
        directions = leading_directions(edges, self.exponents, self.rank)
        return np.ascontiguousarray(directions * np.float32(np.sqrt(self.weight)))


def best_record_temperature(model: Model, drawn: Sequence[Draw], likelihood_temperature: float) -> RecordTemperature:
    """Climb to the temperatures of records at which the beliefs rank hidden successes best.

    From 1 each goes up and then down as long as that is better: that of absence, that of linear channels and that of
    logistic ones in turn, until none moves. No record counts more than in sessions or, where these have a temperature
    above 1, than its likelihood says: what serves long records would mislead with short ones.
    """
    of_channels = tuple(each for each in TEMPERATURES if each >= min(1.0, 1.0 / likelihood_temperature))
    candidates = {"absence": ABSENCES, "linear": of_channels, "logistic": of_channels}
    scores = dict[RecordTemperature, float]()

    def score(temperature: RecordTemperature) -> float:
        if temperature not in scores:
            own = at_record_temperature(model, temperature)
            scores[temperature] = float(np.mean(in_threads(lambda draw: _ndcg_of_belief(own, draw), drawn)))
        return scores[temperature]

    def climbed(best: RecordTemperature) -> RecordTemperature:
        for name, each in candidates.items():
            for order in (each, each[::-1]):
                for value in order[order.index(getattr(best, name)) + 1 :]:
                    if score(other := replace(best, **{name: value})) <= score(best):
                        break
                    best = other
        return best

    best, before = model.usage.record_temperature, None
    while drawn and best != before:
        best, before = climbed(best), best
    return best


def at_record_temperature(model: Model, temperature: RecordTemperature) -> Model:
    """Return the model with other temperatures of records."""
    return model.changed(usage=replace(model.usage, record_temperature=temperature))


def best_low_pass(model: Model, edges: sp.csr_array, drawn: Sequence[Draw], n_items: int) -> LowPass | None:
    """Return the low-pass filter with which `model` ranks hidden successes best; None where there is nothing to choose.

    The weight is 0, no filter, unless the best one is ahead of none by the one-sided 5 % level: most of what a record
    says is in the belief already. `n_items` are those of the whole model.
    """
    most = min(RANKS[-1], edges.shape[1] // 4, MOST_NUMBERS // n_items)
    if most < FEWEST_DIRECTIONS or not edges.nnz or not drawn:
        return None
    ranks = sorted({min(rank, most) for rank in RANKS})
    filters = [leading_directions(edges, each, most) for each in EXPONENTS]
    scores = np.array(in_threads(lambda each: _filter_scores(model, filters, ranks, each), drawn))
    number, place, best = np.unravel_index(int(np.argmax(scores.mean(axis=0))), scores.shape[1:])
    gains = scores[:, number, place, best] - scores[:, number, place, 0]
    if len(gains) < 2 or gains.mean() <= LEVEL * gains.std(ddof=1) / np.sqrt(len(gains)):
        best = np.intp(0)
    return LowPass(EXPONENTS[number], ranks[place], WEIGHTS[best], float(scores[:, number, place, best].mean()))


def leading_directions(edges: sp.csr_array, exponents: tuple[float, float], rank: int) -> Float32Array:
    """Return the leading directions of the normalised graph, (items, rank)."""
    settings = FilterSettings(user_exponent=exponents[0], item_exponent=exponents[1], rank=rank)
    return fit_graph_filter(edges, settings, rng=np.random.default_rng(0)).vectors


def _ndcg_of_belief(model: Model, draw: Draw) -> float:
    """The nDCG@100 of one record's hidden successes by the belief alone."""
    _, own = _expected(model, draw)
    return ndcg(own, np.append(draw.rows, draw.later), draw.hidden)


def _expected(model: Model, draw: Draw) -> tuple[Record, AnyFloatArray]:
    """The record that is left and the expected rewards after it."""
    evidence = logged_evidence(model)
    record = evidence.record(draw.rows, draw.values, draw.later)
    return record, expected_rewards(model, evidence.belief(record).mean)


def _filter_scores(model: Model, filters: Sequence[Float32Array], ranks: Sequence[int], draw: Draw) -> FloatArray:
    """The nDCG@100 of one record's hidden successes for all candidates, shape (filters, ranks, weights)."""
    record, expected = _expected(model, draw)
    own, given = expected.astype(np.float32), np.append(draw.rows, draw.later)
    amounts = graph_signal(model, record).astype(np.float32)
    result = np.empty((len(filters), len(ranks), len(WEIGHTS)))
    for number, directions in enumerate(filters):
        signal = amounts @ directions[record.rows]
        for place, rank in enumerate(ranks):
            added = directions[:, :rank] @ signal[:rank]
            result[number, place] = [ndcg(own + np.float32(w) * added, given, draw.hidden) for w in WEIGHTS]
    return result


def ndcg(scores: AnyFloatArray, given: IntArray, hidden: IntArray) -> float:
    """Return the nDCG@100 of the hidden items among all that were not given; `scores` (items,) is changed."""
    scores[given] = -np.inf
    n = min(TOP, len(scores))
    top = np.sort(np.partition(scores, len(scores) - n)[len(scores) - n :])
    ranks = n - np.searchsorted(top, scores[hidden], side="right")  # how many score more
    gains = 1.0 / np.log2(np.arange(n) + 2.0)
    return float(gains[ranks[ranks < n]].sum() / gains[: len(hidden)].sum())
