"""The online phase beside the matrix products that it cannot do without."""

import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from igcf.lab.bench.new_items import new_items
from igcf.lab.bench.sizes import Sizes
from igcf.lab.bench.textbook import TextbookUser
from igcf.lab.bench.timing import Row, compared, interleaved, one_thread
from igcf.lab.bench.worlds import SHIPPED, random_experts, random_model, random_neighbours, random_truth, random_vectors
from igcf.model import Model
from igcf.online import ModelLearner, Recommender, Session, replay
from igcf.online.engine import ScoringEngine
from igcf.online.evidence import logged_evidence
from igcf.online.learning import belief_from_history
from igcf.online.tracking import RESYNC_EVERY

K = 10
MATVEC = "one matrix-vector product"
LIMITS = {3_706: 5.0, 100_000: 2.0}
"""Times one matrix-vector product, by catalogue size."""
GIGABYTE = 1e9
LARGE_CATALOGUE = 100_000
"""Items from which the first answer to a known user is limited by products: before, fixed costs are larger."""


def online_rows(sizes: Sizes) -> dict[str, Any]:
    """One user, a returning user, many users."""
    rows, memory = [], []
    with one_thread():
        for n_items, turns, run in sizes.items:
            own, peak = single_user(n_items, turns, run, sizes)
            rows += own
            memory.append({"items": n_items, "dim": sizes.dim, "gigabytes_beyond_items": peak / GIGABYTE})
        rows += [lock_step(sizes), *experts(sizes), *known_user(sizes), *new_items(sizes)]
        many = many_users(sizes)
    return {"rows": [row.as_dict() for row in rows], "memory": memory, "many_users": many}


def single_user(n_items: int, turns: int, run: int, sizes: Sizes) -> tuple[list[Row], int]:
    """Rows for one warm and one returning user, and the bytes that serving needs beyond the item matrix."""
    vectors = random_vectors(n_items, sizes.dim)
    tracemalloc.start()
    model = random_model(vectors)
    recommender = Recommender(model, SHIPPED)
    session = recommender.session()
    one_round(session)()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return [*_warm(model, session, turns, run, sizes), *_returning(recommender, turns * run // 3, sizes)], peak


def one_round(session: Session) -> Callable[[], None]:
    """Recommend `K` items and learn from the reaction to the first."""

    def round_() -> None:
        best = session.recommend(K)[0]
        session.observe(best.item_id, 5.0)

    return round_


def _warm(model: Model, session: Session, turns: int, run: int, sizes: Sizes) -> list[Row]:
    where = f"{model.n_items:,} items, d={model.dim}"
    vectors, user = model.item_vectors, np.ones(model.dim, dtype=np.float32)
    engine = ScoringEngine(model)
    jobs: dict[str, Callable[[], object]] = {"matvec": lambda: vectors @ user, "ours": one_round(session)}
    if model.n_items <= sizes.textbook_items:
        textbook = TextbookUser(model)

        def textbook_round() -> None:
            textbook.observe(int(textbook.recommend(K)[0]), 5.0)

        jobs["textbook"] = textbook_round
    seconds = interleaved(jobs, repeats=turns, run=run)
    resync = interleaved({"matvec": jobs["matvec"], "resync": engine.resync}, repeats=turns)
    job = f"recommend({K}) + observe, {where}"
    rows = [
        compared("online", job, MATVEC, seconds["ours"], seconds["matvec"], at_most=LIMITS.get(model.n_items)),
        compared(
            "online",
            f"resync every {RESYNC_EVERY} reactions, per reaction, {where}",
            MATVEC,
            resync["resync"] / RESYNC_EVERY,
            resync["matvec"],
        ),
    ]
    if "textbook" in seconds:
        limit = 1 / 20 if model.n_items == 3_706 else None
        rows.append(compared("online", job, "the textbook way", seconds["ours"], seconds["textbook"], at_most=limit))
    return rows


def _returning(recommender: Recommender, repeats: int, sizes: Sizes) -> list[Row]:
    model = recommender.model
    where = f"{model.n_items:,} items, d={model.dim}"
    rng = np.random.default_rng(4)
    rows = rng.permutation(model.n_items)[: sizes.history].tolist()
    values = rng.integers(1, 6, size=len(rows)).astype(np.float64).tolist()
    history = [(model.item_ids[row], value) for row, value in zip(rows, values, strict=True)]
    vectors, user = model.item_vectors, np.ones(model.dim, dtype=np.float32)
    seconds = interleaved(
        {
            "matvec": lambda: vectors @ user,
            "ours": lambda: recommender.session(history).recommend(K),
            "belief": lambda: belief_from_history(model, rows, values, 1.0),
        },
        repeats=max(repeats // 3, min(sizes.step_repeats, 8)),
    )
    limit = 10.0 if model.n_items >= 3_706 and model.is_linear else None
    answer = f"first answer from {len(history)} stored reactions, {where}"
    belief = f"of it, the belief from {len(history)} stored reactions, {where}"
    return [
        compared("online", answer, MATVEC, seconds["ours"], seconds["matvec"], at_most=limit),
        compared("online", belief, MATVEC, seconds["belief"], seconds["matvec"]),
    ]


def experts(sizes: Sizes) -> list[Row]:
    """The default model, two experts with four channels: one user, a returning one, many."""
    n_items, turns, run = sizes.items[0]
    model = random_experts(n_items, *sizes.expert_dims)
    recommender = Recommender(model, SHIPPED)
    vectors, user = model.item_vectors, np.ones(model.dim, dtype=np.float32)
    jobs = {"matvec": lambda: vectors @ user, "ours": one_round(recommender.session())}
    seconds = interleaved(jobs, repeats=turns, run=run)
    job = f"recommend({K}) + observe, {n_items:,} items, d={model.dim}"
    rows = [
        compared("online", job, MATVEC, seconds["ours"], seconds["matvec"]),
        *_returning(recommender, turns * run // 3, sizes),
        lock_step(sizes, model),
    ]
    return [replace(row, job=f"two experts: {row.job}") for row in rows]


def known_user(sizes: Sizes) -> list[Row]:
    """The first answer of the default model to a user with a logged record, and its parts."""
    most_items = sizes.logged[2]
    own = [_known_user(*each, sizes) for each in sizes.items if each[0] <= most_items]
    return [replace(row, job=f"two experts: {row.job}") for rows in own for row in rows]


def _known_user(n_items: int, turns: int, run: int, sizes: Sizes) -> list[Row]:
    n_logged, k, _ = sizes.logged
    seen = float(np.log(n_logged / 2 / n_items))  # such a record is then a whole one
    model = random_experts(n_items, *sizes.expert_dims, seen=seen).with_neighbours(random_neighbours(n_items, k))
    recommender, evidence = Recommender(model, SHIPPED), logged_evidence(model)
    rng = np.random.default_rng(4)
    items, values = rng.permutation(n_items)[:n_logged], rng.integers(1, 6, size=n_logged).astype(np.float64)
    logged = [(model.item_ids[row], value) for row, value in zip(items, values.tolist(), strict=True)]
    record = evidence.record(items, values, ())
    part = record._replace(weight=0.5)
    vectors, user = model.item_vectors, np.ones(model.dim, dtype=np.float32)
    expected = vectors @ user
    linear, logistic = evidence.blocks
    jobs: dict[str, Callable[[], object]] = {
        "first answer from": lambda: recommender.session(logged=logged).recommend(K),
        "of it, the linear belief from": lambda: linear.posterior(record),
        "the same where absence has weight 0.5, from": lambda: linear.posterior(part),
        "of it, the logistic belief from": lambda: logistic.posterior(record),
        "of it, the neighbours' offset from": lambda: evidence.offset(model, record, expected),
    }
    seconds = interleaved({"matvec": lambda: vectors @ user, **jobs}, repeats=max(turns * run // 3, 2))
    where = f"{n_logged} logged reactions, {n_items:,} items, d={model.dim}"
    answer = "first answer from"
    limits = {answer: 10.0 if n_items >= LARGE_CATALOGUE else None}
    rows = [
        compared("online", f"{job} {where}", MATVEC, seconds[job], seconds["matvec"], at_most=limits.get(job))
        for job in jobs
    ]
    if n_items < LARGE_CATALOGUE:
        one = np.full(len(seconds[answer]), 1e-3)
        rows.append(compared("online", f"{answer} {where}", "one millisecond", seconds[answer], one, at_most=1.0))
    return rows


def lock_step(sizes: Sizes, model: Model | None = None) -> Row:
    """Many users in lock-step, one item per round."""
    n_items = sizes.items[0][0]
    limit = 3.0 if model is None else None
    model = random_model(random_vectors(n_items, sizes.dim)) if model is None else model
    learner = ModelLearner(model, SHIPPED)
    truth = random_truth(sizes.users, n_items)
    users = np.random.default_rng(5).standard_normal((sizes.users, model.dim), dtype=np.float32)

    covs = np.repeat(model.prior_cov[None], sizes.users, axis=0)

    def products() -> None:
        for _ in range(sizes.rounds):
            np.matmul(covs, model.item_vectors[: sizes.users].astype(np.float64)[:, :, None])
            users @ model.item_vectors.T

    def experiment() -> None:
        replay(learner, truth, rounds=sizes.rounds, rng=np.random.default_rng(6))

    seconds = interleaved({"products": products, "ours": experiment}, repeats=max(sizes.step_repeats // 3, 2))
    return compared(
        "online",
        f"{sizes.users} users x {sizes.rounds} rounds, {n_items:,} items, d={model.dim}",
        "its products: covariances x item, items x users",
        seconds["ours"],
        seconds["products"],
        at_most=limit,
    )


def many_users(sizes: Sizes) -> dict[str, Any]:
    """Peak memory of thousands of users, met in blocks; the table of their reactions is not counted."""
    n_items = sizes.items[0][0]
    learner = ModelLearner(random_model(random_vectors(n_items, sizes.dim)), SHIPPED)
    truth = random_truth(sizes.many_users, n_items)
    tracemalloc.start()
    replay(learner, truth, rounds=sizes.many_rounds, rng=np.random.default_rng(7))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {"users": sizes.many_users, "items": n_items, "gigabytes": peak / GIGABYTE}
