"""The job of one round by other libraries: choose 10 of N items for one user, learn from one reaction, one thread."""

import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import scipy.sparse as sp

from igcf.arrays import Float32Array
from igcf.lab.bench.measure import Job, Sizes, compared, interleaved, one_thread
from igcf.lab.bench.online import K, one_round
from igcf.lab.bench.worlds import SHIPPED, random_model, random_vectors
from igcf.online import Recommender


def peer_rows(sizes: Sizes) -> dict[str, Any]:
    """Measure every installed peer in turn with our own round; the others are named."""
    rows, missing, failed = [], [], {}
    vectors = random_vectors(sizes.peer_items, sizes.dim)
    recommender = Recommender(random_model(vectors), SHIPPED)
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # theirs, not ours
        for name, (module, prepare) in PEERS.items():
            if find_spec(module) is None:
                missing.append(module)
                continue
            try:
                jobs = {"ours": one_round(recommender.session()), "peer": prepare(vectors)}
                seconds = interleaved(jobs, repeats=sizes.peer_repeats)
            except Exception as error:  # another version of the peer must not end the benchmark
                failed[name] = f"{type(error).__name__}: {error}"
                continue
            job = f"recommend({K}) + observe, {sizes.peer_items:,} items, d={sizes.dim}"
            rows.append(compared("peers", job, name, seconds["ours"], seconds["peer"]))
    return {"rows": [row.as_dict() for row in rows], "missing": missing, "failed": failed}


def vowpal_wabbit(vectors: Float32Array) -> Job:
    """Make a round of a contextual bandit over action features, one shared line and one line per item."""
    from vowpalwabbit import Workspace

    workspace = Workspace("--cb_explore_adf --epsilon 0.1 -q UA --quiet")
    actions = ["|A " + " ".join(f"f{i}:{x:.4f}" for i, x in enumerate(row)) for row in vectors]

    def round_() -> None:
        probabilities = np.asarray(workspace.predict(["shared |U user", *actions]))
        best = int(probabilities.argmax())
        np.argpartition(probabilities, -K)
        labelled = [*actions[:best], f"0:-1.0:{probabilities[best]:.6f} {actions[best]}", *actions[best + 1 :]]
        workspace.learn(["shared |U user", *labelled])

    return round_


def mab2rec_linucb(vectors: Float32Array) -> Job:
    """Make a round of disjoint LinUCB: one regression per item over the user's features; it learns about items."""
    from mab2rec import BanditRecommender, LearningPolicy

    n_items, dim = vectors.shape
    rng = np.random.default_rng(0)
    user = rng.normal(size=(1, dim))
    bandit = BanditRecommender(LearningPolicy.LinUCB(alpha=1.25), top_k=K)
    arms = [str(row) for row in range(n_items)]
    bandit.fit(arms, rng.integers(0, 2, n_items).tolist(), rng.normal(size=(n_items, dim)))

    def round_() -> None:
        best = bandit.recommend(user)[0]
        bandit.partial_fit([best], [1], user)

    return round_


def bayesianbandits_ucb(vectors: Float32Array) -> Job:
    """Make a round of Bayesian linear regression on item vectors, bounds from posterior quantiles."""
    import bayesianbandits as peer

    features, context = vectors.astype(np.float64), np.zeros((1, 1))
    agent: Any = peer.LipschitzContextualAgent(
        [peer.Arm(row) for row in range(len(vectors))],
        peer.UpperConfidenceBound(alpha=0.68),
        peer.FunctionArmFeaturizer(lambda contexts, tokens: features[np.asarray(tokens)].T[None]),
        peer.NormalRegressor(alpha=1.0, beta=1.0),
        random_seed=0,
    )

    def round_() -> None:
        agent.pull(context)
        agent.update(context, np.array([1.0]))

    return round_


def implicit_fold_in(vectors: Float32Array) -> Job:
    """Make a round of alternating least squares: the user's factors are solved anew from all reactions."""
    from implicit.cpu.als import AlternatingLeastSquares

    n_items, dim = vectors.shape
    rng = np.random.default_rng(0)
    log = sp.random_array((200, n_items), density=0.02, format="csr", dtype=np.float32, rng=rng)
    model = AlternatingLeastSquares(factors=dim, iterations=1, random_state=0, num_threads=1)
    model.fit(sp.csr_matrix(log), show_progress=False)
    seen: list[int] = [0]

    def round_() -> None:
        row = sp.csr_matrix((np.ones(len(seen), np.float32), (np.zeros(len(seen), int), seen)), shape=(1, n_items))
        best, _ = model.recommend(0, row, N=K, recalculate_user=True, filter_already_liked_items=True)
        seen.append(int(best[0]))

    return round_


PEERS: dict[str, tuple[str, Callable[[Float32Array], Job]]] = {
    "vowpalwabbit cb_explore_adf": ("vowpalwabbit", vowpal_wabbit),
    "mab2rec LinUCB": ("mab2rec", mab2rec_linucb),
    "bayesianbandits UCB": ("bayesianbandits", bayesianbandits_ucb),
    "implicit ALS fold-in": ("implicit", implicit_fold_in),
}
"""Module of each peer and the function that makes one round of it, by name."""
