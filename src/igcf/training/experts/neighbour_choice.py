"""Choice of what serves known users, by ranking hidden successes of held-out users."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp

from igcf.arrays import AnyFloatArray, Float32Array, FloatArray, IntArray
from igcf.data.interactions import Interactions
from igcf.graph.filter import FilterSettings, fit_graph_filter
from igcf.model import Model, Neighbours
from igcf.model.usage import RecordTemperature
from igcf.online.absence import Record
from igcf.online.evidence import expected_rewards, logged_evidence
from igcf.training.experts.choosing import LEVEL
from igcf.training.experts.executor import Executor, in_threads
from igcf.training.experts.neighbours import fit_neighbours

TEMPERATURES = (1.0, 0.125, 0.25, 0.5, 2.0, 4.0, 8.0, 16.0)
"""Candidates for the evidence of records, beside the likelihood temperature of sessions; the first is the default."""
PENALTIES = (30.0, 10.0, 100.0, 300.0, 1000.0)
MIXES = (0.2, 0.0, 0.1, 0.35, 0.5, 0.7, 1.0)
"""Candidates; the first are the defaults where there is nobody to choose on."""
FILTERS = (0.0, 0.5, 1.0, 2.0, 3.0, 5.0)
"""Candidates for the weight of the low-pass filter; the first is taken where there is nobody to choose on."""
FILTER_RANK, MOST_NUMBERS = 256, 4_000_000
"""Directions that the low-pass filter keeps, and the numbers that they may have in all: an answer reads each once."""
FEWEST_DIRECTIONS = 16
FILTERED = FilterSettings(user_exponent=0.4, item_exponent=0.3)
"""Normalisation of the filter's graph; found on validation users of ML-1M (research/log.md)."""
HIDDEN = 0.2
"""Share of a user's successes that is hidden."""
DRAWS = 2
"""Different draws of the hidden successes: one alone is too noisy for sparse logs."""
MOST_USERS = 150
"""Users to choose on, at most; they are drawn, because the most active ones are not typical."""
TOP = 100
"""Ranks that count."""
Drawn: TypeAlias = Sequence[tuple[Record, IntArray]]
"""What is left of users' records, each with the rows of the successes that are hidden of it."""


def hidden_successes(model: Model, truth: Float32Array, seed: int) -> Drawn:
    """Hide a part of what satisfied some users, in several draws each; nobody who has fewer than two successes.

    Args:
        model: Model of users other than these.
        truth: Reactions of held-out users, shape (users, items), NaN for unrated items.
        seed: Seed of what is hidden.
    """
    rng = np.random.default_rng(seed)
    return [record for values in truth for record in _hidden_parts(model, values, rng)]


def best_record_temperature(model: Model, drawn: Drawn, likelihood_temperature: float) -> RecordTemperature:
    """Search the temperatures of records at which the beliefs rank hidden successes best.

    That of linear channels, that of logistic ones and once more that of linear ones are searched one after the other;
    of equally good candidates the earlier one is taken. No record counts more than in sessions or, where these have a
    temperature above 1, than its likelihood says: what serves long records would mislead with short ones.
    """
    candidates = [each for each in TEMPERATURES if each >= min(1.0, 1.0 / likelihood_temperature)]
    scores = dict[RecordTemperature, float]()

    def mean_ndcg(own: Model) -> float:
        return float(np.mean(in_threads(lambda each: _ndcg_of_belief(own, *each), drawn)))

    def best_of(temperatures: list[RecordTemperature]) -> RecordTemperature:
        for each in temperatures:
            if each not in scores:
                scores[each] = mean_ndcg(at_record_temperature(model, each))
        return max(temperatures, key=scores.__getitem__)

    best = model.usage.record_temperature
    for name in ("linear", "logistic", "linear") if drawn else ():
        best = best_of([replace(best, **{name: each}) for each in candidates])
    return best


def at_record_temperature(model: Model, temperature: RecordTemperature) -> Model:
    """Return the model with other temperatures of records."""
    return model.changed(usage=replace(model.usage, record_temperature=temperature))


def best_neighbours(
    model: Model, successes: sp.csr_array, drawn: Drawn, executor: Executor | None = None
) -> tuple[Neighbours, float | None]:
    """Return the map with the penalty and mix that rank hidden successes best, and its mean nDCG@100.

    Of equally good candidates the earlier one is taken; a mix of 0 leaves the belief alone.

    Args:
        model: Model fitted without the validation users.
        successes: Zeros and ones of its users, shape (users, items).
        drawn: Records of held-out users.
        executor: Workers that share the items; None: this process.
    """
    maps = fit_neighbours(successes, PENALTIES, mix=MIXES[0], executor=executor)
    if not drawn:
        return maps[0], None
    scores = np.mean(in_threads(lambda each: _scores(model, maps, *each), drawn), axis=0)
    penalty, mix = np.unravel_index(int(np.argmax(scores)), scores.shape)
    chosen = maps[int(penalty)]
    best = Neighbours(chosen.sources, chosen.weights, chosen.means, MIXES[int(mix)], chosen.penalty)
    return best, float(scores[penalty, mix])


def best_filter(model: Model, successes: sp.csr_array, drawn: Drawn, n_items: int) -> tuple[float, float | None]:
    """Return the weight of a low-pass filter beside `model` that ranks hidden successes best, and its mean nDCG@100.

    It is 0, no filter, unless the best weight is ahead of none by the one-sided 5 % level: most of what a record says
    is in the belief already. `n_items` are those of the whole model.
    """
    directions = filter_directions(successes, n_items)
    if directions is None or not drawn:
        return 0.0, None
    scores = np.array(in_threads(lambda each: _filter_scores(model, directions, *each), drawn))
    best = int(np.argmax(scores.mean(axis=0)))
    gains = scores[:, best] - scores[:, 0]
    is_clear = gains.mean() > LEVEL * gains.std(ddof=1) / np.sqrt(len(gains)) if len(gains) > 1 else False
    best = best if is_clear else 0
    return FILTERS[best], float(scores[:, best].mean())


def filter_directions(successes: sp.csr_array, n_items: int) -> Float32Array | None:
    """Return the leading directions of the normalised graph, (items, rank); None where the catalogue is too large."""
    rank = min(FILTER_RANK, successes.shape[1] // 4, MOST_NUMBERS // n_items)
    if rank < FEWEST_DIRECTIONS or not successes.nnz:
        return None
    fitted = fit_graph_filter(successes, replace(FILTERED, rank=rank), rng=np.random.default_rng(0))
    return np.ascontiguousarray(fitted.vectors)


def with_filter(neighbours: Neighbours, directions: Float32Array | None, weight: float) -> Neighbours:
    """Return the map with a low-pass filter of this weight; without directions or weight, the map itself."""
    if directions is None or not weight:
        return neighbours
    return replace(neighbours, low_pass=directions * np.float32(np.sqrt(weight)))


def drawn_records(log: Interactions, seed: int) -> Float32Array:
    """Return the reactions of some users of a log, shape (users, items), NaN for unrated items."""
    users = np.unique(log.user_idx)
    if len(users) > MOST_USERS:
        users = np.sort(np.random.default_rng(seed).choice(users, MOST_USERS, replace=False))
    return log.only_users(users).dense()


def _hidden_parts(model: Model, values: Float32Array, rng: np.random.Generator) -> Iterator[tuple[Record, IntArray]]:
    """The record that is left and the hidden successes, for every draw; nobody who has fewer than two successes."""
    rows = np.flatnonzero(~np.isnan(values))
    liked = rows[model.reward.is_satisfied(values[rows])]
    for _ in range(DRAWS if len(liked) > 1 else 0):
        hidden = rng.choice(liked, max(round(HIDDEN * len(liked)), 1), replace=False)
        left = rows[~np.isin(rows, hidden)]
        yield logged_evidence(model).record(left, values[left], ()), hidden


def _ndcg_of_belief(model: Model, record: Record, hidden: IntArray) -> float:
    """The nDCG@100 of one record's hidden successes by the belief alone."""
    return ndcg(expected_rewards(model, logged_evidence(model).belief(record).mean), record.rows, hidden)


def _scores(model: Model, maps: list[Neighbours], record: Record, hidden: IntArray) -> FloatArray:
    """The nDCG@100 of one record's hidden successes for all candidates, shape (penalties, mixes)."""
    own = expected_rewards(model, logged_evidence(model).belief(record).mean).astype(np.float32)
    result = np.empty((len(maps), len(MIXES)))
    for number, each in enumerate(maps):
        other = each.predictions(record.rows[model.reward.is_satisfied(record.values)]) - own
        for place, mix in enumerate(MIXES):
            result[number, place] = ndcg(own + np.float32(mix * record.weight) * other, record.rows, hidden)
    return result


def _filter_scores(model: Model, directions: Float32Array, record: Record, hidden: IntArray) -> FloatArray:
    """The nDCG@100 of one record's hidden successes for all weights of the filter, shape (weights,)."""
    evidence = logged_evidence(model)
    own = expected_rewards(model, evidence.belief(record).mean).astype(np.float32)
    if (offset := evidence.offset(model, record, own)) is not None:
        own = own + offset
    signal = directions[record.rows[model.reward.is_satisfied(record.values)]]
    added = directions @ (signal.sum(axis=0) / np.float32(np.sqrt(max(len(signal), 1))))
    return np.array([ndcg(own + np.float32(weight) * added, record.rows, hidden) for weight in FILTERS])


def ndcg(scores: AnyFloatArray, given: IntArray, hidden: IntArray) -> float:
    """Return the nDCG@100 of the hidden items among all that were not given; `scores` (items,) is changed."""
    scores[given] = -np.inf
    n = min(TOP, len(scores))
    top = np.sort(np.partition(scores, len(scores) - n)[len(scores) - n :])
    ranks = n - np.searchsorted(top, scores[hidden], side="right")  # how many score more
    gains = 1.0 / np.log2(np.arange(n) + 2.0)
    return float(gains[ranks[ranks < n]].sum() / gains[: len(hidden)].sum())
