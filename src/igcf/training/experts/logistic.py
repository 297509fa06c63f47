"""The logistic expert: what is seen, and what is liked once seen (docs/maths.md, section Experts).

    seen ~ Bernoulli(sigmoid(b_i + x_i . u))     for every pair
    liked ~ Bernoulli(sigmoid(c_i + y_i . u))    where there is a reaction,          u ~ N(0, I)

and, like "liked", any further grading of the reactions. This is the paper's binary model (eq::model::cls) over all
pairs. Its variational posterior is found by coordinate ascent instead of gradients: with Polya-Gamma weights omega the
likelihood is a Gaussian one, so every step is exact.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from igcf.arrays import Float32Array, FloatArray, IntArray
from igcf.config import ExpertsConfig
from igcf.training.checkpoint import Checkpoint
from igcf.training.experts.executor import BLOCK, Executor, in_blocks, ranges
from igcf.training.experts.linear import LinearExpert
from igcf.training.experts.logistic_steps import (
    WITHOUT_OPINION,
    Sample,
    Users,
    hold_sample,
    item_vectors,
    user_posteriors,
)

DENSE_CELLS = 40_000_000
FEWEST_USERS = 2_000
"""A log with more than `DENSE_CELLS` user-item pairs is learned from as many users as fit, drawn at random."""
FEW_USERS, FEW_REACTIONS = 1_000, 20
"""The first iterations see a quarter of the users, at least so many, and so many reactions per item."""
LARGEST_START = 3.0  # largest slope of a logit at the start of the iteration


@dataclass(frozen=True, eq=False)
class LogisticExpert:
    """Logistic factor model of being seen and of being liked; the last column of a vector is the constant."""

    vectors: FloatArray
    """Item vectors of being seen, of being liked and of further gradings, shape (1 + gradings, items, d + 1)."""

    @property
    def seen(self) -> FloatArray:
        """Item vectors of being seen, shape (items, d + 1)."""
        return np.asarray(self.vectors[0])

    @property
    def liked(self) -> FloatArray:
        """Item vectors of being liked once seen, shape (items, d + 1)."""
        return np.asarray(self.vectors[1])


class _Fit:
    """State of one fit: the items' vectors and the users' posteriors; the workers hold the sample."""

    def __init__(
        self,
        exposures: sp.csr_array,
        gradings: Sequence[sp.csr_array],
        start: "LinearExpert | LogisticExpert",
        dim: int,
        executor: Executor | None = None,
    ) -> None:
        self.executor = executor or Executor()
        self.executor.call(hold_sample, Sample.of(exposures, gradings))
        self.n_users, self.n_items = exposures.shape
        self.anchors = _logits(exposures, gradings)
        self.vectors = (
            _first_vectors(start, dim, self.anchors) if isinstance(start, LinearExpert) else start.vectors.copy()
        )
        """Item vectors, shape (1 + gradings, items, d + 1); the last column is the constant."""
        width = self.vectors.shape[2]
        self.means = np.tile(np.eye(1, width, width - 1, dtype=np.float32), (self.n_users, 1))
        """Posterior means of the users, shape (users, d + 1), last entry 1; all start as the population."""
        self.variances = np.ones((self.n_users, width - 1), dtype=np.float32)
        """Posterior variances, (users, d): omega uses diagonals only, because `whiten` makes the rest small."""
        self.moments: Float32Array | None = None  # upper triangles of E[u u'], shape (users, (d + 1)(d + 2) / 2)

    def user_step(self) -> tuple[FloatArray, Float32Array]:
        """Compute users' posteriors: means (users, d) and covariances (users, d, d)."""
        each = [
            (users, self.means[users], self.variances[users])
            for (users,) in ranges(self.n_users, self.executor.size, BLOCK)
        ]
        found = self.executor.call(user_posteriors, self.vectors, each=each)
        means, covs = (np.concatenate([part[place] for part in found]) for place in range(2))
        return means, covs

    def whiten(self, means: FloatArray, covs: Float32Array) -> None:
        """Make the population of users N(0, I) again by moving its mean and covariance into the items' vectors.

        The axes are turned so that the mean posterior covariance is diagonal.
        """
        d = means.shape[1]
        centre, spread = means.mean(axis=0), covs.mean(axis=0, dtype=np.float64)
        deviations = means - centre
        root = np.linalg.cholesky(deviations.T @ deviations / len(means) + spread)
        inverse = np.linalg.inv(root)
        axes = np.linalg.eigh(inverse @ spread @ inverse.T)[1]
        root, inverse = root @ axes, axes.T @ inverse
        self.vectors[:, :, d] += self.vectors[:, :, :d] @ centre
        self.vectors[:, :, :d] = self.vectors[:, :, :d] @ root
        self.means = np.column_stack([deviations @ inverse.T, np.ones(len(means))]).astype(np.float32)
        first, turn = np.triu_indices(d + 1), inverse.astype(np.float32)
        moments = np.empty((len(means), len(first[0])), dtype=np.float32)
        variances = np.empty((len(means), d), dtype=np.float32)

        def turned(block: slice) -> None:
            own = turn @ covs[block] @ turn.T
            variances[block] = np.einsum("uii->ui", own)
            products = self.means[block][:, :, None] * self.means[block][:, None, :]
            products[:, :d, :d] += own
            moments[block] = products[:, first[0], first[1]]

        in_blocks(turned, len(means))
        self.moments, self.variances = moments, variances

    def item_step(self, penalty: float) -> None:
        """Regress every item on the users' moments with a ridge that pulls constants to the logit of a share."""
        each = [
            (items, self.vectors[:, items], self.anchors[:, items])
            for (items,) in ranges(self.n_items, self.executor.size, BLOCK)
        ]
        users = Users(self.means, self.variances, self.moments)
        self.vectors = np.concatenate(self.executor.call(item_vectors, users, penalty, each=each), axis=1)


def fit_logistic(
    exposures: sp.csr_array,
    gradings: Sequence[sp.csr_array],
    start: LinearExpert | LogisticExpert,
    config: ExpertsConfig,
    *,
    progress: Callable[[int, int], None] | None = None,
    executor: Executor | None = None,
    checkpoint: Checkpoint | None = None,
) -> LogisticExpert:
    """Fit the logistic expert by variational EM.

    Args:
        exposures: Ones where there is a reaction, `WITHOUT_OPINION` where it has no value, shape (users, items).
        gradings: Ones where the reaction is good enough, one table per grading, the successes first.
        start: The linear expert; its loadings are the first directions, or the result of an earlier fit.
        config: The settings `logistic_dim`, `iterations` (a log of many users takes fewer), `penalty` and `seed`.
        progress: Called with the number of finished iterations and their total.
        executor: Workers that share users and items; None: this process.
        checkpoint: Where the state is kept after every iteration, and found again.
    """
    checkpoint = checkpoint or Checkpoint()
    state = checkpoint.load("logistic")
    done, expert = 0, start
    phases = _phases(exposures, config, is_new=isinstance(start, LinearExpert))
    for users, until in phases:
        if state is not None and int(state["done"]) >= until:
            done, expert = until, LogisticExpert(state["vectors"])
            continue
        tables = [sp.csr_array(table[users]) for table in gradings]
        fit = _Fit(sp.csr_array(exposures[users]), tables, expert, config.logistic_dim, executor)
        if state is not None and int(state["done"]) > done:
            done, fit.vectors, fit.means, fit.variances = (
                int(state["done"]), state["vectors"], state["means"], state["variances"],
            )  # fmt: skip
        for iteration in range(done, until):
            fit.whiten(*fit.user_step())
            fit.item_step(config.penalty)
            reached = {"done": np.array(iteration + 1), "vectors": fit.vectors, "means": fit.means}
            checkpoint.save("logistic", {**reached, "variances": fit.variances})
            if progress is not None:
                progress(iteration + 1, phases[-1][1])
        done, expert = until, LogisticExpert(fit.vectors)
    assert isinstance(expert, LogisticExpert)  # noqa: S101
    return expert


def schedule(n_users: int, n_items: int, n_reactions: int, iterations: int, *, is_new: bool) -> list[tuple[int, int]]:
    """Return how many of the users each phase of a fit sees, and the number of iterations at its end.

    Far from the solution a part of many users gives the direction as well as all of them, and near it two iterations
    with all are enough. A fit that is not new starts from one of most of the same users.
    """
    few = max(FEW_USERS, n_users // 4, n_users * n_items * FEW_REACTIONS // max(n_reactions, 1))
    if few >= n_users:
        return [(n_users, iterations if is_new else -(-iterations // 3))]
    if not is_new or iterations <= 2:
        return [(n_users, min(iterations, 2))]
    first = 2 * iterations // 5
    return [(few, first), (n_users, first + 2)]


def _phases(exposures: sp.csr_array, config: ExpertsConfig, *, is_new: bool) -> list[tuple[IntArray, int]]:
    """Return the users of each phase, and the number of iterations at its end."""
    n_users, n_items = exposures.shape
    sizes = schedule(n_users, n_items, exposures.nnz, config.iterations, is_new=is_new)
    rng = np.random.default_rng([config.seed, 1])
    return [(np.sort(rng.choice(n_users, n, replace=False)), until) for n, until in sizes]


def _logits(exposures: sp.csr_array, gradings: Sequence[sp.csr_array]) -> FloatArray:
    """Return the logit of each item's share of exposures among users, and of each grading among all exposures."""
    n_seen = np.bincount(exposures.indices, minlength=exposures.shape[1]).astype(np.float32)
    n_rated = int((exposures.data != WITHOUT_OPINION).sum())
    shares = [(n_seen + 0.5) / (exposures.shape[0] + 1.0)]
    for table in gradings:
        shares.append(np.full_like(shares[0], table.sum() / max(n_rated, 1)))
    p = np.clip(np.stack(shares), 1e-6, 1.0 - 1e-6)
    return np.asarray(np.log(p / (1.0 - p)))


def _first_vectors(start: LinearExpert, dim: int, anchors: FloatArray) -> FloatArray:
    """Return the linear expert's loadings as slopes of the logit, capped against saturation."""
    channels, n_items = anchors.shape
    slopes = np.zeros((channels, n_items, dim))
    known = min(dim, start.loadings.shape[1])
    loadings, means = start.loadings.reshape(-1, n_items, start.loadings.shape[1]), start.means.reshape(-1, n_items)
    for channel, table in zip(range(channels), (1, 0, *range(2, len(means))), strict=False):
        share = means[table]
        slopes[channel, :, :known] = loadings[table, :, :known] / (share * (1.0 - share) + 0.01)[:, None]
    slopes *= min(1.0, LARGEST_START / max(float(np.abs(slopes).max()), 1e-12))
    return np.concatenate([slopes, anchors[:, :, None]], axis=2)


def sampled_users(n_users: int, n_items: int, *, seed: int) -> IntArray:
    """Return the rows of the users that the expert is learned from, ascending."""
    most = max(FEWEST_USERS, DENSE_CELLS // max(n_items, 1))
    if n_users <= most:
        return np.arange(n_users)
    return np.sort(np.random.default_rng(seed).choice(n_users, most, replace=False))
