"""The inner loops of the online phase in NumPy, as one backend, and the mode under a whole record."""

import numpy as np

from igcf.arrays import FloatArray
from igcf.model.channel import sigmoid
from igcf.online.backend import numpy_beliefs, numpy_items
from igcf.online.backend.types import RecordTerms


def find_mode(
    terms: RecordTerms, v: FloatArray, mean: FloatArray, cov: FloatArray, longest: float, passes: int
) -> None:
    """Search the mode of the posterior from `v` (r,), and the curvature there, by BFGS.

    `v` becomes the mode, `mean` (d,) the user's vector there. `cov` (d, d) is minus the second derivative of the log
    likelihood of all absences where the search starts, and becomes the covariance of that vector. There are `passes`
    steps with one pass over all items each before the last one, none of which moves the vector further than `longest`.
    """
    frame = terms.frame
    precision = cov + _curvature(terms, terms.prior_mean + frame @ v)
    inner: FloatArray = np.asarray(np.linalg.inv(np.eye(len(v)) + frame.T @ precision @ frame), dtype=np.float64)
    gradient = _gradient(terms, v, terms.weight * terms.slope)
    for _ in range(passes):
        step = _shortened(inner @ gradient, frame, longest)
        v += step
        before, gradient = gradient, _gradient(terms, v)
        _bfgs(inner, step, before - gradient)
    v += _shortened(inner @ gradient, frame, longest)
    mean[:] = terms.prior_mean + frame @ v
    spread = frame @ inner @ frame.T
    cov[:] = (spread + spread.T) / 2


def _curvature(terms: RecordTerms, user: FloatArray) -> FloatArray:
    """Minus the second derivative of a record's own terms at a user's vector, shape (d, d), in single precision."""
    x = terms.own_x
    p = sigmoid(np.asarray(x @ user.astype(np.float32)))
    return np.asarray((x * (terms.own_weights * p * (1.0 - p))[:, None]).T @ x, dtype=np.float64)


def _gradient(terms: RecordTerms, v: FloatArray, slope: FloatArray | None = None) -> FloatArray:
    """The gradient of the log posterior in v; `slope` is that of all absences where it is known."""
    user = terms.prior_mean + terms.frame @ v
    short = user.astype(np.float32)
    if slope is None:
        slope = np.zeros(len(user))
        for vectors, noise in zip(terms.absent, terms.noise, strict=True) if terms.weight else ():
            p = sigmoid(np.asarray(vectors @ short))
            slope += terms.weight * ((p / noise).astype(np.float32) @ vectors)
    own = (terms.own_weights * sigmoid(np.asarray(terms.own_x @ short))) @ terms.own_x
    return np.asarray(terms.frame.T @ (terms.information - own - slope) - v)


def _shortened(step: FloatArray, frame: FloatArray, longest: float) -> FloatArray:
    """The same step, or as much of it as does not move the user's vector too far."""
    length = float(np.linalg.norm(frame @ step))
    return step * (longest / length) if length > longest else step


def _bfgs(cov: FloatArray, step: FloatArray, change: FloatArray) -> None:
    """Correct the inverse curvature by how the gradient changed along a step, in place."""
    along = float(step @ change)
    if along <= 1e-10:
        return
    w = cov @ change
    cross = np.outer(step, w) / along
    cov += np.outer(step, step) * ((1.0 + float(change @ w) / along) / along) - cross - cross.T


class NumpyBackend:
    """Everything that the engine needs computed, in NumPy: the interface of all backends and what they fall back to."""

    name = "numpy"
    update_beliefs = staticmethod(numpy_beliefs.update_beliefs)
    learn = staticmethod(numpy_beliefs.learn)
    learn_in_turn = staticmethod(numpy_beliefs.learn_in_turn)
    chances_of_logits = staticmethod(numpy_items.chances_of_logits)
    counted_class = staticmethod(numpy_beliefs.counted_class)
    counted_classes = staticmethod(numpy_beliefs.counted_classes)
    observe_and_rescore = staticmethod(numpy_items.observe_and_rescore)
    rescore_users = staticmethod(numpy_items.rescore_users)
    variances_of = staticmethod(numpy_items.variances_of)
    moments_at = staticmethod(numpy_items.moments_at)
    multiply = staticmethod(numpy_items.multiply)
    add_information = staticmethod(numpy_items.add_information)
    find_mode = staticmethod(find_mode)
    expected_rewards = staticmethod(numpy_items.expected_rewards)
    reward_variances = staticmethod(numpy_items.reward_variances)
    select_users = staticmethod(numpy_items.select_users)
    count_above = staticmethod(numpy_items.count_above)
