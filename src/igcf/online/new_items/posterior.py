"""The posterior of a new item from users' reactions, in closed form (docs/maths.md, section New items).

Everything here is a pure function of the content prior and of a set of reactions: their order does not matter, one that
is taken back leaves no trace, and the same reactions give the same posterior everywhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from igcf.arrays import FloatArray, covariance_root
from igcf.errors import ModelError
from igcf.model import Model
from igcf.model.channel import activations, expectation, sigmoid
from igcf.model.content import ItemPriors
from igcf.model.new_items import UserEvidence
from igcf.online.belief import Belief

LEAST_SLOPE = 1e-4  # smallest slope of a probability that a reaction is weighed by


@dataclass(frozen=True, eq=False)
class ItemPosterior:
    """The belief about one item: a mixture of Gaussians over the classes of items."""

    shares: FloatArray  # probability of each class, (classes,)
    means: tuple[FloatArray, ...]  # mean of the item's vector in each class, (classes, width) per channel

    def vector(self, number: int) -> FloatArray:
        """Return the expected vector in one channel, (width,)."""
        return np.asarray(self.shares @ self.means[number])


class ItemLearning:
    """The content prior of a model, prepared for learning items: roots of the covariances, blocks of the vector."""

    def __init__(self, model: Model) -> None:
        if model.content is None:
            raise ModelError(
                "this model was trained without a content prior, which new items need; run `igcf pretrain`"
            )
        self.model, self.content = model, model.content
        self._roots = [covariance_root(cov) for cov in self.content.covs]
        self._judges = _judges(model)

    @cached_property
    def _logits(self) -> list[bool]:
        return [channel.link == "logit" for channel in self.model.channels]

    def contribution(
        self, priors: ItemPriors, place: int, belief: Belief, value: float, weight: float = 1.0
    ) -> UserEvidence:
        """Return what a reaction says about the item at `place` of `priors`; `belief` is that before the reaction.

        That an item was seen is no reason to recommend it where it failed: a failure says nothing of exposure.
        """
        spreads = np.empty((len(self.model.channels), self.content.n_classes))
        for number, channel in enumerate(self.model.channels):
            y, cov = priors.means[number][place].astype(np.float64), belief.cov[channel.span, channel.span]
            spreads[number] = np.einsum("kv,kv->k", y @ cov, y)
        rewards = np.array([channel.reward.of_one(value) for channel in self.model.channels])
        is_success = bool(self.model.reward.is_satisfied(value))
        if not is_success:
            is_seen = [channel.reward.kind == "exposed" and value == value for channel in self.model.channels]
            rewards[is_seen] = np.nan
        return UserEvidence(belief.mean, np.maximum(spreads, 0.0), rewards, weight, is_success)

    def posterior(self, priors: ItemPriors, place: int, evidence: Sequence[UserEvidence]) -> ItemPosterior:
        """Return the belief about the item at `place` of `priors` after some reactions, in any order.

        Failures never raise what the population is expected to have of the item: where they would, they do not count.
        """
        found = self._posterior(priors, place, evidence)
        successes = [each for each in evidence if each.is_success]
        if len(successes) == len(evidence):
            return found
        alone = self._posterior(priors, place, successes)
        return found if self._success(found) <= self._success(alone) else alone

    def _success(self, posterior: ItemPosterior) -> float:
        """Expected reward of an item for the mean user of the population."""
        model = self.model
        z = {n: posterior.vector(n) @ model.prior_mean[model.channels[n].span] for n in model.scored}
        return float(expectation(model.terms, activations(model.channels, z)))

    def _posterior(self, priors: ItemPriors, place: int, evidence: Sequence[UserEvidence]) -> ItemPosterior:
        """Return the posterior of all reactions alike.

        In every channel and class the vector is y = y0 + L a with a ~ N(0, 1) and L L' = Q0. A reward r of a user with
        mean m is N(m'y, noise + y0'S y0); of a logit channel the likelihood is taken to second order at y0, which makes
        it the same with target (r - p) / slope and noise 1 / slope. The classes are judged by how likely the rewards
        were, on average over the experts.
        """
        users = np.array([each.user for each in evidence]).reshape(-1, self.model.dim)
        rewards = np.array([each.rewards for each in evidence]).reshape(-1, len(self.model.channels))
        spreads = np.stack([each.spreads for each in evidence], axis=2) if evidence else None
        weights = np.array([each.weight for each in evidence])
        means, likelihood = [], {}
        for number, channel in enumerate(self.model.channels):
            y, root = priors.means[number][place].astype(np.float64), self._roots[number]
            known = np.flatnonzero(~np.isnan(rewards[:, number]))
            if spreads is None or not len(known):
                means.append(y)
                likelihood[number] = np.zeros(self.content.n_classes)
                continue
            x, r = users[known, channel.span], rewards[known, number]
            surprise, noise, x = self._linearised(number, y, x, r, spreads[number][:, known])
            noise = noise / weights[known]
            solved = _solved(x @ root, surprise, noise)
            means.append(y + (root @ solved.moved[..., None])[..., 0])
            if number in self._judges:
                likelihood[number] = self._likelihood(number, solved, noise, (y, x, root, r, weights[known]))
        logs = np.log(priors.shares[place]) + np.mean([likelihood[number] for number in self._judges], axis=0)
        shares = np.exp(logs - logs.max())
        return ItemPosterior(shares / shares.sum(), tuple(means))

    def _linearised(
        self, number: int, y: FloatArray, x: FloatArray, r: FloatArray, spread: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Surprise and noise of each reaction in each class, (classes, n), and users' vectors, (classes, n, width)."""
        z = y @ x.T
        if not self._logits[number]:
            noise = self.content.noise[number][:, None] + spread
            return r - z, noise, np.broadcast_to(x, (len(y), *x.shape))
        scale = 1.0 / np.sqrt(1.0 + np.pi / 8.0 * spread)  # a user who is not known well makes a probability flatter
        p = sigmoid(z * scale)
        slope = np.maximum(p * (1.0 - p), LEAST_SLOPE) / self.content.noise[number][:, None]
        return (r - p) / (slope * self.content.noise[number][:, None]), 1.0 / slope, scale[..., None] * x

    def _likelihood(
        self,
        number: int,
        solved: "_Solved",
        noise: FloatArray,
        evidence: tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray],
    ) -> FloatArray:
        """Logarithm of the likelihood of all rewards in each class, the vector integrated out, (classes,)."""
        if not self._logits[number]:
            return np.asarray(-0.5 * (solved.fit + solved.log_size + np.log(noise).sum(axis=1)))
        y, x, root, r, weights = evidence
        vectors = y + (root @ solved.moved[..., None])[..., 0]
        p = np.clip(sigmoid((x @ vectors[..., None])[..., 0]), 1e-9, 1.0 - 1e-9)
        logs = weights * np.where(r > 0.5, np.log(p), np.log1p(-p)) / self.content.noise[number][:, None]
        return np.asarray(logs.sum(axis=1) - 0.5 * (solved.moved**2).sum(axis=1) - 0.5 * solved.log_size)


class _Solved(NamedTuple):
    """The posterior mean of a ~ N(0, 1) from surprises Z a + noise, and what the likelihood needs, per class."""

    moved: FloatArray  # (classes, width)
    fit: FloatArray  # surprise in units of its covariance Z Z' + noise, squared, (classes,)
    log_size: FloatArray  # logarithm of the determinant of 1 + Z' Z / noise, (classes,)


def _solved(Z: FloatArray, surprise: FloatArray, noise: FloatArray) -> _Solved:
    """Solve for Z (classes, n, width), in the smaller of both numbers of dimensions."""
    n, width = Z.shape[1:]
    if n < width:
        cov = Z @ np.swapaxes(Z, 1, 2)
        cov[:, np.arange(n), np.arange(n)] += noise
        weights = np.linalg.solve(cov, surprise[..., None])[..., 0].astype(np.float64, copy=False)
        log_size = np.linalg.slogdet(cov)[1] - np.log(noise).sum(axis=1)
        return _Solved((weights[:, None] @ Z)[:, 0], (surprise * weights).sum(axis=1), log_size)
    weighted = np.swapaxes(Z, 1, 2) / noise[:, None, :]
    precision = np.eye(width) + weighted @ Z
    information: FloatArray = (weighted @ surprise[..., None])[..., 0]
    moved = np.linalg.solve(precision, information[..., None])[..., 0].astype(np.float64, copy=False)
    fit = (surprise**2 / noise).sum(axis=1) - (information * moved).sum(axis=1)
    return _Solved(moved, fit, np.linalg.slogdet(precision)[1])


def _judges(model: Model) -> tuple[int, ...]:
    """The channels by which classes are judged: the first scored one of every block of the user's vector."""
    return tuple(
        next(n for n in model.scored if n in numbers) for _, numbers in model.blocks if set(numbers) & set(model.scored)
    )
