"""Rivals that use attributes of users: `attribute-ridge`, `linucb-attributes` and `attribute-sums`.

Each is a linear model with a prior mean that depends on the attributes; runs with and without them share a fit.
"""

import numpy as np
import scipy.sparse as sp

from igcf.arrays import FloatArray
from igcf.encoding import Encoder
from igcf.lab.baselines.factors import play_pca_gp, principal_components
from igcf.lab.baselines.history import training_successes
from igcf.lab.baselines.task import Method, Settings, Task
from igcf.model import Model
from igcf.model.attribute_prior import AttributePrior
from igcf.training.attribute_prior import encoded

SWEEPS = 8
TINY = 1e-6  # variance of what the rival takes for known


def _features(task: Task) -> tuple[Encoder, FloatArray]:
    """Return how attributes become numbers, and those of the training users, (users, columns)."""
    table, ids = task.train.users, list(task.train.user_ids)
    if table is None:
        return Encoder(()), np.zeros((len(ids), 0))
    encoder = table.encoder(ids)
    return encoder, encoded(encoder, lambda name: table.values_of(name, ids), len(ids))


def _linear(task: Task, vectors: FloatArray, cov: FloatArray, encoder: Encoder, moves: FloatArray) -> Model:
    """Build a model with item vectors [mean, ...] and users [1, moves f] on average, moves (d, columns)."""
    dim, p = len(cov) + 1, encoder.n_columns
    weights = np.vstack([np.zeros(p), moves])
    whole = np.zeros((dim, dim))
    whole[1:, 1:] = cov
    return Model(
        item_vectors=vectors,
        item_ids=task.train.item_ids,
        prior_mean=np.eye(dim)[0],
        prior_cov=whole,
        noise_var=1.0,  # replaced by `play_pca_gp`
        reward=task.reward_of("satisfied"),
        attribute_prior=AttributePrior(encoder, weights, np.zeros((dim, p)), np.zeros((p, p)), {}),
    )


def _bilinear_ridge(left: FloatArray, right: FloatArray, target: FloatArray, penalty: float) -> FloatArray:
    """Solve left B right + penalty B = target for symmetric `left` and `right`."""
    (a, p), (b, q) = np.linalg.eigh(left), np.linalg.eigh(right)
    return np.asarray(p @ ((p.T @ target @ q) / (a[:, None] * b + penalty)) @ q.T)


def fit_attribute_ridge(task: Task, settings: Settings, rng: np.random.Generator) -> Model:
    """Regress the success on each item on the attributes; nothing is learned from a user's own reactions."""
    successes, (encoder, F) = training_successes(task), _features(task)
    p = encoder.n_columns
    weights = np.linalg.solve(F.T @ F + settings["penalty"] * np.eye(p), np.asarray(successes.T @ F).T)
    mean = np.asarray(successes.sum(axis=0)).ravel() / successes.shape[0]
    return _linear(task, np.column_stack([mean, weights.T]), TINY * np.eye(p), encoder, np.eye(p))


def fit_linucb_attributes(task: Task, settings: Settings, rng: np.random.Generator) -> Model:
    """LinUCB with hybrid features (Li et al., 2010): products of attributes and item features have shared coefficients.

    With x the components of an item, f the attributes and M as in `fit_linucb_hybrid`, the rewards are x'B f + x'theta;
    the training users give B = argmin sum_u (r_u - X B f_u)'M(r_u - X B f_u) + penalty |B|^2 in closed form.
    """
    successes, (encoder, F), own = training_successes(task), _features(task), settings["penalty"]
    mean, x = principal_components(successes, settings["dim"], rng=rng)
    gram = x.T @ x
    left = own * np.linalg.inv(gram + own * np.eye(len(gram)))  # X'M = left X'
    target = left @ x.T @ (np.asarray(successes.T @ F) - np.outer(mean, F.sum(axis=0)))
    moves = _bilinear_ridge((left @ gram + gram @ left.T) / 2, F.T @ F, target, settings["shared_penalty"])
    return _linear(task, np.column_stack([mean, x]), np.eye(len(gram)) / own, encoder, moves)


def fit_attribute_sums(task: Task, settings: Settings, rng: np.random.Generator) -> Model:
    """Sums of embeddings as in LightFM (Kula, 2015), with squared loss on all pairs: r = mean + (u + A'f)'v.

    Alternating least squares; later users start from A'f with the covariance of the training users' own u.
    """
    successes, (encoder, F), penalty = training_successes(task), _features(task), settings["penalty"]
    mean, items = principal_components(successes, settings["dim"], rng=rng)
    size = np.sqrt(np.maximum(np.square(items).sum(axis=0), 1e-12))
    items = items / np.sqrt(size)
    ridge, moves = penalty * np.eye(items.shape[1]), np.zeros((F.shape[1], items.shape[1]))
    for _ in range(SWEEPS):
        gram = items.T @ items
        centred = np.asarray(successes @ items) - mean @ items  # (R - mean) V
        users = np.linalg.solve(gram + ridge, (centred - F @ moves @ gram).T).T
        if F.shape[1]:
            moves = _bilinear_ridge(F.T @ F, gram, F.T @ (centred - users @ gram), settings["shared_penalty"])
        whole = users + F @ moves
        target = np.asarray(sp.csr_array(successes.T) @ whole) - np.outer(mean, whole.sum(axis=0))
        items = np.linalg.solve(whole.T @ whole + ridge, target.T).T
    cov = np.cov(users.T).reshape(len(ridge), -1) + TINY * np.eye(len(ridge))
    return _linear(task, np.column_stack([mean, items]), cov, encoder, moves.T)


_ONLINE = {"noise_var": 0.13, "nu": 0.0, "forgetting": 1.0, "attributes": False}
_FACTORS = {"dim": 48, "penalty": 1.0, "shared_penalty": 30.0, **_ONLINE}
_NOISES = (0.06, 0.13, 0.3, 1.0)
_PENALTIES = {"penalty": (0.1, 0.3, 1.0, 3.0, 10.0), "shared_penalty": (3.0, 30.0, 300.0, 3000.0)}
ATTRIBUTE_METHODS = tuple(
    Method(name, fit, play_pca_gp, defaults, online=frozenset(_ONLINE), grid=grid, is_refitted=True)
    for name, fit, defaults, grid in (
        (
            "attribute-ridge",
            fit_attribute_ridge,
            {"penalty": 100.0, **_ONLINE},
            {"penalty": (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)},
        ),
        ("linucb-attributes", fit_linucb_attributes, _FACTORS, {**_PENALTIES, "noise_var": _NOISES, "nu": (0.0, 0.1)}),
        ("attribute-sums", fit_attribute_sums, _FACTORS, {**_PENALTIES, "dim": (8, 16, 48), "noise_var": _NOISES}),
    )
)
