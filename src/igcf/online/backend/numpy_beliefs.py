"""Updates of beliefs in NumPy: by one reaction, by a history, monotone, and by a whole record (docs/maths.md)."""

from math import isnan, sqrt

import numpy as np

from igcf.arrays import FloatArray, IntArray
from igcf.model.channel import sigmoid
from igcf.online.backend.types import NEWTON_STEPS, Channels, Classes, Evidence, RecordTerms

USERS = 16  # users per block of large arrays: what is computed on the way stays in the cache
TOLERANCE = 1e-12  # differences below this are rounding. Native: the same number


def update_beliefs(
    means: FloatArray, covs: FloatArray, start: int, evidence: Evidence
) -> tuple[FloatArray, FloatArray]:
    """Update the beliefs of many users by one reaction each, in place; eq:update_dis, or a Laplace step.

    `means` (users, D) and `covs` (users, D, D) are of whole vectors; the block of the reactions begins at `start`.
    Returns w = cov x of each user, scaled so that the covariance loses w w', and how far the mean moved in units of it.
    """
    x, rewards, noise, is_logit = evidence
    span = slice(start, start + x.shape[1])
    own_means, own_covs = means[:, span], covs[:, span, span]
    w = np.matmul(own_covs, x[:, :, None])[:, :, 0]
    z, q = np.einsum("bd,bd->b", x, own_means), np.einsum("bd,bd->b", x, w)
    shift, shrink = gaussian_step(z, q, rewards, noise)
    if is_logit.any():
        shift, shrink = np.where(is_logit, logistic_step(z, q, rewards, noise), (shift, shrink))
    own_means += shift[:, None] * w
    root = np.sqrt(shrink)
    w *= root[:, None]  # its square is then what the covariance loses
    for first in range(0, len(w), USERS):
        part = w[first : first + USERS]
        own_covs[first : first + USERS] -= part[:, :, None] * part[:, None, :]
    return w, np.divide(shift, root, out=np.zeros_like(shift), where=root > 0)


def update_in_turn(mean: FloatArray, cov: FloatArray, evidence: Evidence) -> tuple[FloatArray, FloatArray]:
    """Update one block of one user's belief, mean (d,) and covariance (d, d), by one reaction after the other.

    Returns w and steps of each reaction as `update_beliefs` does; where nothing was revealed they are zero.
    """
    w, steps = np.zeros(evidence.x.shape), np.zeros(len(evidence.x))
    loss = np.empty_like(cov)
    rest = zip(evidence.rewards.tolist(), evidence.noise.tolist(), evidence.is_logit.tolist(), strict=True)
    for number, (reward, noise, is_logit) in enumerate(rest):
        if isnan(reward):
            continue
        x, own = evidence.x[number], w[number]
        np.dot(cov, x, out=own)
        z, q = float(x.dot(mean)), float(x.dot(own))
        if is_logit:
            shift, shrink = (float(each[0]) for each in logistic_step(*np.array([[z], [q], [reward], [noise]])))
        else:
            shrink = 1.0 / (noise + q)
            shift = shrink * (reward - z)
        root = sqrt(shrink)
        mean += shift * own
        own *= root
        np.multiply(own[:, None], own, out=loss)
        cov -= loss
        steps[number] = shift / root if root > 0.0 else 0.0
    return w, steps


def gaussian_step(
    z: FloatArray, q: FloatArray, reward: FloatArray, noise_var: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """How far a reward moves the belief along w = cov x, and how much of w w' it removes from the covariance.

    `z` = x . mean and `q` = x' cov x describe the belief before; a NaN reward reveals nothing.
    """
    is_known = ~np.isnan(reward)
    shrink = is_known / (noise_var + q)
    return shrink * (np.where(is_known, reward, 0.0) - z), shrink


def logistic_step(
    z: FloatArray, q: FloatArray, reward: FloatArray, noise_var: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The same for a success (1) or failure (0) with a log likelihood that counts 1 / noise_var.

    Along w the log posterior of a = x . user is -(a - z)^2 / (2 q) + log likelihood(a): Newton finds its mode, the
    curvature there replaces that of a Gaussian reward.
    """
    is_known = ~np.isnan(reward)
    weight = is_known / noise_var
    target = np.where(is_known, reward, 0.0)
    q = np.maximum(q, 1e-12)
    # from zero, or from z on the far side of it, Newton comes nearer with every step and never overshoots
    a = np.where((2.0 * target - 1.0) * z > 0, z, 0.0)
    for _ in range(NEWTON_STEPS):
        p = sigmoid(a)
        a = a - ((a - z) / q - weight * (target - p)) / (1.0 / q + weight * p * (1.0 - p))
    p = sigmoid(a)
    curvature = weight * p * (1.0 - p)
    return (a - z) / q, curvature / (1.0 + curvature * q)


def learn(
    mean: FloatArray,
    cov: FloatArray,
    channels: Channels,
    rows: IntArray,
    rewards: FloatArray,
    weights: FloatArray | None,
) -> None:
    """Update one user's belief, mean (D,) and covariance (D, D), by a history, in place.

    Args:
        mean: of the user's vector, shape (D,).
        cov: of the user's vector, shape (D, D).
        channels: of the model.
        rows: rows of the items, oldest reaction first, shape (reactions,).
        rewards: shape (reactions, channels); NaN reveals nothing.
        weights: how many times a reaction counts, shape (reactions,); None: once.
    """
    for start in np.unique(channels.starts).tolist():
        own = np.flatnonzero(channels.starts == start)
        x = np.stack([channels.vectors[number][rows] for number in own], axis=1).astype(np.float64)
        noise = np.stack([channels.noise[number][rows] for number in own], axis=1)
        if weights is not None:
            noise /= weights[:, None]
        is_logit, span = np.broadcast_to(channels.is_logit[own], noise.shape), slice(start, start + x.shape[2])
        evidence = Evidence(x.reshape(-1, x.shape[2]), rewards[:, own].ravel(), noise.ravel(), is_logit.ravel())
        update_in_turn(mean[span], cov[span, span], evidence)


def learn_in_turn(rules: Classes, mean: FloatArray, cov: FloatArray, rows: IntArray, classes: IntArray) -> None:
    """Update one user's belief as `learn` does, where a reaction counts as what is known when it comes allows.

    `classes` are those of the reactions; the number of classes stands for no reaction.
    """
    channels = Channels(*rules[:4])
    for place, (row, number) in enumerate(zip(rows.tolist(), classes.tolist(), strict=True)):
        counted = counted_class(rules, mean, cov, row, number)
        learn(mean, cov, channels, rows[place : place + 1], rules.rewards[counted][None], None)


def counted_classes(rules: Classes, means: FloatArray, covs: FloatArray, rows: IntArray, classes: IntArray) -> IntArray:
    """As which class the reaction of each of many users counts, shape (users,).

    The whole update is carried out in the space of the item's own channels: z = X mean and Q = X cov X'.
    """
    n_classes, n_users = len(rules.is_failure), len(rows)
    z, Q = _own_moments(rules, means, covs, rows)
    before = _view(rules, z, Q)
    current, counted = before.copy(), np.full(n_users, n_classes + 1)
    is_none = classes == n_classes
    last = np.where(is_none, 0, classes)
    for number in range(int(last.max()) + 1):
        after = _view(rules, *_after(rules, z, Q, rows, rules.rewards[number]))
        is_better = (after >= current - TOLERANCE).all(axis=1)
        is_good = last >= number
        if rules.is_full and rules.is_failure[number]:
            is_good &= (after <= before + TOLERANCE).all(axis=1)
        is_good &= is_better | ((counted == n_classes + 1) & (not rules.is_full or number == 0))
        current[is_good], counted[is_good] = after[is_good], number
    if is_none.any():
        after = _view(rules, *_after(rules, z, Q, rows, rules.rewards[n_classes]))
        is_learned = (after >= current - TOLERANCE).all(axis=1) | (not rules.is_full)
        counted[is_none] = np.where(is_learned, n_classes, n_classes + 1)[is_none]
    return counted


def counted_class(rules: Classes, mean: FloatArray, cov: FloatArray, row: int, number: int) -> int:
    """As which class the reaction of one user counts."""
    return int(counted_classes(rules, mean[None], cov[None], np.array([row]), np.array([number]))[0])


def _own_moments(rules: Classes, means: FloatArray, covs: FloatArray, rows: IntArray) -> tuple[FloatArray, FloatArray]:
    """Means (users, channels) and covariances of z of the items' own channels; blocks are not correlated."""
    n_channels = len(rules.starts)
    z, Q = np.zeros((len(rows), n_channels)), np.zeros((len(rows), n_channels, n_channels))
    for start in np.unique(rules.starts):
        own = np.flatnonzero(rules.starts == start)
        X = np.stack([rules.vectors[number][rows] for number in own], axis=1).astype(np.float64)
        span = slice(start, start + X.shape[2])
        z[:, own] = np.einsum("ucd,ud->uc", X, means[:, span])
        Q[:, own[:, None], own] = X @ covs[:, span, span] @ X.transpose(0, 2, 1)
    return z, Q


def _after(
    rules: Classes, z: FloatArray, Q: FloatArray, rows: IntArray, rewards: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the moments after a reaction with these rewards, channel after channel as the belief learns them."""
    z, Q = z.copy(), Q.copy()
    for number in np.flatnonzero(~np.isnan(rewards)):
        step = logistic_step if rules.is_logit[number] else gaussian_step
        own = np.full(len(z), rewards[number])
        shift, shrink = step(z[:, number], Q[:, number, number], own, rules.noise[number][rows])
        w = Q[:, :, number].copy()
        z += shift[:, None] * w
        Q -= shrink[:, None, None] * w[:, :, None] * w[:, None, :]
    return z, Q


def _view(rules: Classes, z: FloatArray, Q: FloatArray) -> FloatArray:
    """Expected reward and chance of the items, shape (users, 2); the reward twice where the chance follows from it."""
    expected = np.where(rules.is_logit, sigmoid(z), z)
    products = np.where(rules.is_member, expected[:, None, :], 1.0).prod(axis=2)
    reward = products @ rules.weights
    if rules.liked < 0:
        return np.stack([reward, reward], axis=1)
    slope, shift, spread = rules.calibration.tolist()
    scale = np.sqrt(1.0 + np.pi / 8.0 * (slope * spread) ** 2 * np.maximum(Q[:, rules.liked, rules.liked], 0.0))
    return np.stack([reward, sigmoid((slope * z[:, rules.liked] + shift) / scale)], axis=1)


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
