"""From reactions to a belief: one by one, from a whole history, and which reaction did what."""

from collections.abc import Iterator

import numpy as np

from igcf.arrays import FloatArray
from igcf.model import Model
from igcf.online.belief import Belief, absorb


def prior_belief(model: Model) -> Belief:
    """What is believed of a user before the first reaction."""
    return Belief(model.prior_mean, model.prior_cov)


def learned(belief: Belief, model: Model, row: int, value: float) -> Belief:
    """The belief after one reaction to the item at `row`; NaN is an item shown without a reaction."""
    X, rewards, noise = model.observations(np.array([row]), np.array([value]))
    for channel, x, reward, noise_var in zip(model.channels, X[0], rewards[0], noise[0], strict=True):
        if np.isnan(reward):
            continue
        update = belief.updated if channel.link == "identity" else belief.updated_logistic
        belief = update(x, float(reward), float(noise_var))
    return belief


def beliefs_along(model: Model, rows: list[int], values: list[float], forgetting: float) -> Iterator[Belief]:
    """The belief after each reaction of a history, oldest first."""
    prior = belief = prior_belief(model)
    for row, value in zip(rows, values, strict=True):
        belief = learned(belief.decayed(prior, forgetting), model, row, value)
        yield belief


def belief_from_history(model: Model, rows: list[int], values: list[float], forgetting: float) -> Belief:
    """The belief after a whole history; equals learning it reaction by reaction."""
    belief = prior_belief(model)
    if not model.has_identity_links:
        if forgetting == 1.0 and _has_independent_blocks(model):
            return _block_by_block(model, rows, values)
        for belief in beliefs_along(model, rows, values, forgetting):  # noqa: B007
            pass
        return belief
    X, rewards, noise = evidence(model, rows, values, forgetting)
    if len(X) <= model.dim:
        return belief.updated_block(X, rewards, noise)
    return Belief.posterior(model.prior_mean, model.prior_root, X, rewards, noise)


def _has_independent_blocks(model: Model) -> bool:
    """Whether no two blocks of the user's vector are correlated in the population or share a dimension."""
    block = np.full(model.dim, -1)
    for start, stop in {(channel.span.start, channel.span.stop) for channel in model.channels}:
        if (block[start:stop] >= 0).any():
            return False
        block[start:stop] = start
    return not model.prior_cov[block[:, None] != block[None, :]].any()


def _block_by_block(model: Model, rows: list[int], values: list[float]) -> Belief:
    """Blocks whose channels are all Gaussian at once, the others reaction by reaction but without the rest of `cov`."""
    mean, cov = model.prior_mean.copy(), model.prior_cov.copy()
    for start in {channel.start for channel in model.channels}:
        channels = [channel for channel in model.channels if channel.start == start]
        span = channels[0].span
        if all(channel.link == "identity" for channel in channels):
            X = np.concatenate([channel.vectors[rows] for channel in channels]).astype(np.float64)
            rewards = np.concatenate([channel.reward.of(values) for channel in channels])
            noise = np.concatenate([channel.noise_var[rows] for channel in channels])
            known = ~np.isnan(rewards)
            block = Belief(mean[span], cov[span, span]).updated_block(X[known], rewards[known], noise[known])
            mean[span], cov[span, span] = block.mean, block.cov
            continue
        for row, value in zip(rows, values, strict=True):
            for channel in channels:
                reward = channel.reward.of_one(value)
                if reward == reward:  # not NaN, which reveals nothing
                    x = channel.vectors[row].astype(np.float64)
                    absorb(mean[span], cov[span, span], x, reward, channel.noise_var.item(row), channel.link)
    return Belief(mean, cov)


def contributions(
    model: Model, rows: list[int], values: list[float], forgetting: float, item_row: int
) -> tuple[float, FloatArray]:
    """An item's expected reward in the population, and what each reaction of a history added to it.

    Linear models: mean = x . m0 + sum_s k_s a_s with k_s = x' S0 x_s and a = M^-1 (rewards - X m0), M = X S0 X' +
    noise, the block form of eq:update_dis read term by term; the order of the reactions does not matter. Otherwise
    what a reaction added is the difference that it made when it came.
    """
    prior = prior_belief(model)
    if not rows:
        return _expected(model, prior, item_row), np.zeros(0)
    if not model.is_linear:
        path = [prior, *beliefs_along(model, rows, values, forgetting)]
        means = np.array([_expected(model, belief, item_row) for belief in path])
        return float(means[0]), np.diff(means)
    x = model.item_vectors[item_row].astype(np.float64)
    X, rewards, noise = evidence(model, rows, values, forgetting)
    surprise = np.linalg.solve(X @ prior.cov @ X.T + np.diag(noise), rewards - X @ prior.mean)
    amounts = (X @ (prior.cov @ x) * surprise).reshape(len(rows), -1).sum(axis=1)
    return float(x @ prior.mean), amounts


def evidence(
    model: Model, rows: list[int], values: list[float], forgetting: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """All that a history reveals: vectors (n, d), rewards (n,), noise variances (n,), n = reactions x channels.

    Forgetting gives a reaction that is `age` reactions old the weight forgetting ** age; what a reaction leaves unknown
    gets a noise so large that it weighs nothing.
    """
    X, rewards, noise = model.observations(np.array(rows), np.array(values))
    if forgetting < 1.0:
        noise /= (forgetting ** np.arange(len(rows) - 1, -1, -1.0))[:, None]
    is_unknown = np.isnan(rewards)
    if is_unknown.any():
        rewards[is_unknown], noise[is_unknown] = 0.0, 1e30
    return X.reshape(-1, model.dim), rewards.ravel(), noise.ravel()


def _expected(model: Model, belief: Belief, item_row: int) -> float:
    return float(model.expected_of(belief.mean, item_row))
