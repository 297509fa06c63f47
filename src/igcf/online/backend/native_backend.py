"""The inner loops of the online phase in C (the folder `native`); NumPy does what they have no room for.

Importing this module fails where nothing was compiled. The native loops take single precision, up to `MOST_CHANNELS`
channels and up to `MOST_SELECTED` items.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from igcf.arrays import AnyFloatArray, BoolArray, FloatArray, IntArray
from igcf.online.backend import NumpyBackend, _native  # type: ignore[attr-defined]
from igcf.online.backend.types import Arrays, Channels, Classes, Evidence, ItemTerms, MakeRng, Mixture, RecordTerms

MOST_CHANNELS = 8  # channels that the native loops have room for
MOST_SELECTED = 64  # items that the native loops keep in order at a time
Loop = Callable[..., Any]


def _either(fits: Callable[..., bool], native: Loop, plain: Loop) -> Any:
    """The native loop where the arguments fit into it, else that of NumPy."""
    return staticmethod(lambda *args: native(*args) if fits(*args) else plain(*args))


def _has_room(channels: Channels | Classes, *_: Any) -> bool:
    return len(channels.starts) <= MOST_CHANNELS


def _fits(mixture: Mixture, z: Arrays, *_: Arrays) -> bool:
    return len(z) <= MOST_CHANNELS and z[0].dtype == np.float32


def _combined(mixture: Mixture, z: Arrays, variances: Arrays | None = None) -> AnyFloatArray:
    result: AnyFloatArray = np.empty(z[0].shape, dtype=np.float32)
    own_variances = None if variances is None else tuple(map(np.ascontiguousarray, variances))
    _native.combine(mixture.parts, tuple(map(np.ascontiguousarray, z)), own_variances, result)
    return result


def _update_beliefs(
    means: FloatArray, covs: FloatArray, start: int, evidence: Evidence
) -> tuple[FloatArray, FloatArray]:
    w, steps = np.empty(evidence.x.shape), np.empty(len(evidence.rewards))
    _native.update_beliefs(means, covs, len(means), start, *evidence, w, steps)
    return w, steps


def _counted_classes(
    rules: Classes, means: FloatArray, covs: FloatArray, rows: IntArray, classes: IntArray
) -> IntArray:
    counted: IntArray = np.empty(len(rows), dtype=np.int64)
    numbers = (np.ascontiguousarray(each, dtype=np.int64) for each in (rows, classes))
    _native.counted_classes(rules, np.ascontiguousarray(means), np.ascontiguousarray(covs), *numbers, counted)
    return counted


def _counted_class(rules: Classes, mean: FloatArray, cov: FloatArray, row: int, number: int) -> int:
    asked = np.array([row, number, 0])
    _native.counted_classes(rules, mean, cov, asked[:1], asked[1:2], asked[2:])
    return int(asked[2])


def _chances(
    rows: list[int], z: AnyFloatArray, variances: AnyFloatArray, slope: float, spread: float, items: ItemTerms
) -> Any:
    return _native.chances_of_logits(rows, z, variances, slope, spread, *items)


def _moments_at(
    vectors: AnyFloatArray, rows: IntArray, mean: FloatArray, cov: FloatArray
) -> tuple[AnyFloatArray, AnyFloatArray]:
    means, variances = np.empty(len(rows), dtype=np.float32), np.empty(len(rows), dtype=np.float32)
    _native.moments_at(vectors, rows, mean, cov.astype(np.float32, order="C"), means, variances)
    return means, variances


def _multiply(items: AnyFloatArray, user: AnyFloatArray) -> AnyFloatArray:
    result: AnyFloatArray = np.empty(len(items), dtype=np.float32)
    _native.multiply(items, user, result)
    return result


def _find_mode(terms: RecordTerms, *rest: Any) -> None:
    _native.find_mode(*terms, *rest)


def _select_users(
    scores: AnyFloatArray, available: BoolArray, k: int, make_rng: MakeRng
) -> tuple[IntArray, AnyFloatArray]:
    n_users = len(available)
    rows: IntArray = np.empty((n_users, k), dtype=np.int64)
    best: AnyFloatArray = np.empty((n_users, k), dtype=np.float32)
    is_tied = np.empty(n_users, dtype=np.bool_)
    scores, available = np.ascontiguousarray(scores), np.ascontiguousarray(available)
    if _native.select_users(scores, available, k, rows, best, is_tied):
        rows[is_tied], best[is_tied] = NumpyBackend.select_users(scores[is_tied], available[is_tied], k, make_rng)
    return rows, best


def _count_above(means: AnyFloatArray, available: BoolArray, of: AnyFloatArray) -> IntArray:
    counts: IntArray = np.empty(len(of), dtype=np.int64)
    _native.count_above(np.ascontiguousarray(means), np.ascontiguousarray(available), of, counts)
    return counts


class NativeBackend(NumpyBackend):
    """The same computations in C, in single precision; methods that are not here are those of NumPy."""

    name = "native"
    update_beliefs = staticmethod(_update_beliefs)
    moments_at = staticmethod(_moments_at)
    add_information = staticmethod(_native.add_information)
    learn = _either(lambda mean, cov, channels, *_: _has_room(channels), _native.learn, NumpyBackend.learn)
    learn_in_turn = _either(_has_room, _native.learn_in_turn, NumpyBackend.learn_in_turn)
    counted_classes = _either(_has_room, _counted_classes, NumpyBackend.counted_classes)
    counted_class = _either(_has_room, _counted_class, NumpyBackend.counted_class)
    find_mode = _either(lambda terms, *_: len(terms.absent) <= MOST_CHANNELS, _find_mode, NumpyBackend.find_mode)
    chances_of_logits = _either(
        lambda rows, z, *_: len(rows) <= MOST_SELECTED and z.dtype == np.float32,
        _chances,
        NumpyBackend.chances_of_logits,
    )
    observe_and_rescore = _either(
        lambda mean, cov, row, blocks, rewards, moments: (
            sum(map(len, rewards)) <= MOST_CHANNELS and not (moments.z and moments.z[0].dtype != np.float32)
        ),
        lambda *args: _native.observe_and_rescore(*args[:-1], *args[-1]),
        NumpyBackend.observe_and_rescore,
    )
    rescore_users = _either(
        lambda products, *_: products.dtype == np.float32, _native.rescore_users, NumpyBackend.rescore_users
    )
    multiply = _either(lambda items, user: items.dtype == np.float32, _multiply, NumpyBackend.multiply)
    expected_rewards = _either(_fits, _combined, NumpyBackend.expected_rewards)
    reward_variances = _either(_fits, _combined, NumpyBackend.reward_variances)
    select_users = _either(
        lambda scores, available, k, _: k <= MOST_SELECTED and scores.dtype == np.float32,
        _select_users,
        NumpyBackend.select_users,
    )
    count_above = _either(lambda means, *_: means.dtype == np.float32, _count_above, NumpyBackend.count_above)
