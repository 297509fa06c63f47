"""`pca-gp`: principal components of the satisfaction matrix with a standard normal prior; no training loop at all."""

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, eigsh

from igcf.arrays import FloatArray
from igcf.lab.baselines.logged_models import LoggedModelLearner
from igcf.lab.baselines.task import Settings, Task
from igcf.model import Model
from igcf.online import Greedy, Ucb


def fit_pca_gp(task: Task, settings: Settings, rng: np.random.Generator) -> Model:
    """Build a model with item vectors [mean, components]; the first coordinate of every user is known to be 1."""
    train = task.train
    satisfied = train.matrix((train.values >= task.satisfied).astype(np.float64))
    satisfied.eliminate_zeros()
    mean, loadings = principal_components(satisfied, settings["dim"], rng=rng)
    dim = loadings.shape[1] + 1
    return Model(
        item_vectors=np.column_stack([mean, loadings]),
        item_ids=train.item_ids,
        prior_mean=np.eye(dim)[0],
        prior_cov=np.diag(np.r_[0.0, np.ones(dim - 1)]),
        noise_var=1.0,  # replaced by `play_pca_gp`
        reward=task.reward_of("satisfied"),
        titles=train.titles,
        categories=train.categories,
        attributes=train.attributes,
    )


def play_pca_gp(model: Model, settings: Settings) -> LoggedModelLearner:
    """Play greedily, or with upper confidence bounds where `nu` is not 0."""
    played = model.with_prior(model.prior_mean, model.prior_cov, settings["noise_var"])
    policy = Ucb(settings["nu"]) if settings["nu"] else Greedy()
    return LoggedModelLearner(played, policy, forgetting=settings["forgetting"])


def principal_components(
    matrix: sp.csr_array, n_components: int, *, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Return column means and the leading components of the rows, scaled so that scores of rows have variance one.

    Returns:
        mean: (items,)
        loadings: (items, components); `loadings @ loadings.T` approximates the covariance of the columns.
    """
    n_rows, n_columns = matrix.shape
    mean = np.asarray(matrix.sum(axis=0)).ravel() / n_rows
    n_components = min(n_components, min(n_rows, n_columns) - 1)

    def covariance(v: FloatArray) -> FloatArray:
        scores = matrix @ v - mean @ v
        return np.asarray((matrix.T @ scores - mean * scores.sum()) / n_rows)

    operator = LinearOperator((n_columns, n_columns), matvec=covariance, dtype=np.float64)
    size, axes = eigsh(operator, k=n_components, which="LA", v0=rng.standard_normal(n_columns))
    order = np.argsort(-size)
    return mean, axes[:, order] * np.sqrt(np.maximum(size[order], 0.0))
