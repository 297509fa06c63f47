"""The online phase beside the matrix products that it cannot do without, as a table of comparisons."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

import numpy as np

from igcf.lab.bench.measure import Job, Row, Sizes, compared, exponent, interleaved, one_thread
from igcf.lab.bench.worlds import (
    LEVELS,
    SHIPPED,
    TextbookUser,
    random_experts,
    random_low_pass,
    random_model,
    random_truth,
    random_vectors,
    with_random_features,
)
from igcf.model import Model
from igcf.online import Environment, ModelLearner, Policy, Recommender, Session, Ucb, replay
from igcf.online.environment import rewards
from igcf.online.index import build_lists
from igcf.training.content import fit_content

K = 10
MATVEC = "one matrix-vector product"
TEXTBOOK = "the textbook way"
EXPLORING = 0.5
"""The nu of the rows that need variances; the policy that models ship with needs none."""
LIMITS = {3_706: 5.0, 100_000: 2.0}
"""Times one matrix-vector product, by catalogue size."""
FEATURES = 20, 5
"""Attributes of a user, and features of a request."""
CONTEXTS = 40
"""Different contexts that take turns."""
WITH_FEATURES = 1.2
"""Largest ratio of a round with them to one without."""
LARGE_CATALOGUE = 100_000
"""Items from which the first answer to a known user is limited by products: before, fixed costs are larger."""
LONGEST_ADD_S = 10.0
"""Seconds within which a tenth of the largest catalogue must have joined it."""
STEP = 5.0
"""Largest ratio of a step of the environment to copying the reactions of the same users to all items."""
INDEX_EXPONENT = 0.5
"""Largest exponent of an answer's time over the number of items, with an index."""


@dataclass(frozen=True)
class Comparison:
    """Jobs of one model that take turns with a reference: one row of the benchmark each."""

    jobs: Mapping[str, Job]  # by what the table calls them
    reference: Job | float  # what they are compared with, or so many seconds
    turns: int
    run: int = 1  # executions in a row per turn
    against: str = MATVEC
    limits: Mapping[str, float | None] = field(default_factory=dict)  # largest ratios, by job

    def rows(self) -> list[Row]:
        """Measure everything."""
        measured = {} if isinstance(self.reference, float) else {self.against: self.reference}
        seconds = interleaved({**measured, **self.jobs}, repeats=self.turns, run=self.run)
        reference = seconds[self.against] if measured else np.full(self.turns, self.reference)
        return [
            compared("online", job, self.against, seconds[job], reference, at_most=self.limits.get(job))
            for job in self.jobs
        ]


def online_rows(sizes: Sizes) -> dict[str, Any]:
    """One user, a returning user, a known user, many users, new items: linear models and the default model."""
    with one_thread():
        return {"rows": [row.as_dict() for each in comparisons(sizes) for row in each.rows()]}


def comparisons(sizes: Sizes) -> Iterator[Comparison]:
    """Yield the table of the benchmark, a model in memory at a time."""
    for n_items, turns, run in sizes.items:
        model = random_model(random_vectors(n_items, sizes.dim))
        yield from warm_user(model, turns, run, sizes, "", LIMITS.get(n_items))
        yield returning_user(model, turns * run // 3, sizes, "", 10.0 if n_items >= 3_706 else None)
    n_items, turns, run = sizes.items[0]
    yield lock_step(random_model(random_vectors(n_items, sizes.dim)), sizes, "", 3.0)
    experts = random_experts(n_items, *sizes.expert_dims)
    yield from warm_user(experts, turns, run, sizes, "two experts: ", None)
    yield returning_user(experts, turns * run // 3, sizes, "two experts: ", None)
    yield lock_step(experts, sizes, "two experts: ", None)
    yield environment_step(n_items, turns, run, sizes)
    yield from who_and_when(random_model(random_vectors(n_items, sizes.dim)), turns, run, "")
    yield from who_and_when(experts, turns, run, "two experts: ")
    for n_items, turns, run in sizes.items:
        if n_items <= sizes.logged[2]:
            yield from known_user(n_items, max(turns * run // 3, 2), sizes)
    yield from new_items(sizes)


def one_round(session: Session, k: int = K, contexts: Iterator[dict[str, Any]] | None = None) -> Job:
    """Recommend `k` items and learn from the reaction to the first, each time in the next context."""

    def round_() -> None:
        context = next(contexts) if contexts else None
        session.observe(session.recommend(k, context=context)[0].item_id, 5.0, context=context)

    return round_


def who_and_when(model: Model, turns: int, run: int, name: str) -> Iterator[Comparison]:
    """Rounds of users of whom attributes are known, in contexts, beside those without either."""
    n, m = FEATURES
    own, rng = Recommender(with_random_features(model, n, m), SHIPPED), np.random.default_rng(7)

    def drawn(what: str, size: int) -> dict[str, Any]:
        return {f"{what} {k}": str(value) for k, value in enumerate(rng.choice(LEVELS, size))}

    contexts, ann = cycle([drawn("context", m) for _ in range(CONTEXTS)]), drawn("attribute", n)
    job, where = f"{name}recommend({K}) + observe", place(model)
    rounds: dict[str, Job] = {
        f"{job}, {n} attributes, {where}": one_round(own.session(attributes=ann)),
        f"{job}, {m} features of the context, {where}": one_round(own.session(), K, contexts),
        f"{job}, both, {where}": one_round(own.session(attributes=ann), K, contexts),
    }
    limits = dict.fromkeys(rounds, WITH_FEATURES)
    yield Comparison(rounds, one_round(session_of(model)), turns, run, "neither", limits)


def product(model: Model) -> Job:
    """Return the least that a change of belief costs: all items times one user, float32."""
    vectors, user = model.item_vectors, np.ones(model.dim, dtype=np.float32)
    return lambda: vectors @ user


def place(model: Model) -> str:
    """Describe the size of a model."""
    return f"{model.n_items:,} items, d={model.dim}"


def session_of(model: Model, policy: Policy = SHIPPED) -> Session:
    """Start a user."""
    return Recommender(model, policy).session()


def warm_user(model: Model, turns: int, run: int, sizes: Sizes, name: str, limit: float | None) -> Iterator[Comparison]:
    """Rounds in a row of one user, with the policy that models ship with and with one that explores."""
    job, where = f"{name}recommend({K}) + observe", place(model)
    shipped, exploring = f"{job}, {where}", f"{job}, nu = {EXPLORING}, {where}"
    jobs = {shipped: one_round(session_of(model)), exploring: one_round(session_of(model, Ucb(EXPLORING)))}
    yield Comparison(jobs, product(model), turns, run, limits={shipped: limit})
    if model.is_linear and model.n_items <= sizes.textbook_items:
        textbook = TextbookUser(model, nu=EXPLORING)

        def textbook_round() -> None:
            textbook.observe(int(textbook.recommend(K)[0]), 5.0)

        rounds = {exploring: one_round(session_of(model, Ucb(EXPLORING)))}
        limits = {exploring: 1 / 20 if model.n_items == 3_706 else None}
        yield Comparison(rounds, textbook_round, turns, run, TEXTBOOK, limits)


def returning_user(model: Model, repeats: int, sizes: Sizes, name: str, limit: float | None) -> Comparison:
    """The first answer from stored reactions."""
    recommender, rng = Recommender(model, SHIPPED), np.random.default_rng(4)
    rows = rng.permutation(model.n_items)[: sizes.history].tolist()
    history = [(model.item_ids[row], float(rng.integers(1, 6))) for row in rows]
    answer = f"{name}first answer from {len(history)} stored reactions, {place(model)}"
    jobs: dict[str, Job] = {answer: lambda: recommender.session(history).recommend(K)}
    return Comparison(jobs, product(model), max(repeats // 3, min(sizes.step_repeats, 8)), limits={answer: limit})


def known_user(n_items: int, turns: int, sizes: Sizes) -> Iterator[Comparison]:
    """The first answer of the default model to a user with a logged record."""
    n_logged, rank, _ = sizes.logged
    seen = float(np.log(n_logged / 2 / n_items))  # such a record is then a whole one
    model = random_experts(n_items, *sizes.expert_dims, seen=seen).changed(low_pass=random_low_pass(n_items, rank))
    recommender, rng = Recommender(model, SHIPPED), np.random.default_rng(4)
    logged = [(model.item_ids[row], float(rng.integers(1, 6))) for row in rng.permutation(n_items)[:n_logged].tolist()]
    answer = f"two experts: first answer from {n_logged} logged reactions, {place(model)}"
    jobs: dict[str, Job] = {answer: lambda: recommender.session(logged=logged).recommend(K)}
    yield Comparison(jobs, product(model), turns, limits={answer: 10.0 if n_items >= LARGE_CATALOGUE else None})
    if n_items < LARGE_CATALOGUE:
        yield Comparison(jobs, 1e-3, turns, 1, "one millisecond", {answer: 1.0})


def lock_step(model: Model, sizes: Sizes, name: str, limit: float | None) -> Comparison:
    """Many users in lock-step, one item per round."""
    learner = ModelLearner(model, SHIPPED)
    truth = random_truth(sizes.users, model.n_items)
    users = np.random.default_rng(5).standard_normal((sizes.users, model.dim), dtype=np.float32)
    covs = np.repeat(model.prior_cov[None], sizes.users, axis=0)

    def products() -> None:
        for _ in range(sizes.rounds):
            np.matmul(covs, model.item_vectors[: sizes.users].astype(np.float64)[:, :, None])
            users @ model.item_vectors.T

    job = f"{name}{sizes.users} users x {sizes.rounds} rounds, {place(model)}"
    jobs = {job: lambda: replay(learner, truth, rounds=sizes.rounds, rng=np.random.default_rng(6))}
    against = "its products: covariances x item, items x users"
    return Comparison(jobs, products, max(sizes.step_repeats // 3, 2), against=against, limits={job: limit})


def environment_step(n_items: int, turns: int, run: int, sizes: Sizes) -> Comparison:
    """One step of the environment that experiments and `igcf.lab.environments` play on, with what an agent is given."""
    world, users = Environment(random_truth(sizes.users, n_items), rounds=sizes.rounds), np.arange(sizes.users)
    shown = np.random.default_rng(8).integers(n_items, size=(sizes.users, 1))
    world.reset(users)

    def step() -> None:
        if world.round == world.rounds:
            world.reset(users)
        world.step(shown)
        rewards(world.info(4.0)["satisfied"])
        world.observation()

    job, table = f"a step of {sizes.users} users in the environment, {n_items:,} items", world.truth[0]
    return Comparison({job: step}, lambda: table[users], turns, run, "a copy of their reactions", {job: STEP})


def new_items(sizes: Sizes) -> Iterator[Comparison]:
    """Answers of the default model while one item in a hundred is new and not settled; a tenth that joins at once."""
    n_items, turns, run = max(each for each in sizes.items if each[0] <= sizes.logged[2])
    categories = [(f"category {row % 20}",) for row in range(n_items)]
    model = random_experts(n_items, *sizes.expert_dims, categories=categories)
    model = model.changed(content=fit_content(model))
    growing, n_new = Recommender(model, SHIPPED), n_items // 10
    growing.add_items(new_descriptions(n_items // 100, "unsettled"))
    job = f"two experts: recommend(5) + observe, 1 % of {place(model)} new and not settled"
    jobs, reference = {job: one_round(growing.session(), 5)}, one_round(session_of(model), 5)
    yield Comparison(jobs, reference, turns, run, "no new items", {job: 1.5})
    joining, job = new_descriptions(n_new, "joining"), f"add {n_new:,} items to {place(model)}"
    adding = {job: lambda: Recommender(model, SHIPPED).add_items(joining)}
    yield Comparison(adding, LONGEST_ADD_S, 1, 1, "10 s", {job: 1.0})


def new_descriptions(n_items: int, name: str) -> list[dict[str, object]]:
    """Make items that the model does not have."""
    return [{"id": f"{name} {row}", "categories": [f"category {row % 20}"]} for row in range(n_items)]


def index_rows(sizes: Sizes) -> dict[str, Any]:
    """Rounds of one user from an index beside exact ones of the smallest catalogue: linear models, and two experts."""
    kinds: dict[str, Callable[[int], Model]] = {
        "": lambda n: random_model(random_vectors(n, sizes.dim)),
        "two experts: ": lambda n: random_experts(n, *sizes.expert_dims),
    }
    rows, curves = [], []
    with one_thread():
        for name, make in kinds.items():
            own, points = _indexed(name, make, sizes)
            rows += own
            slope = exponent(sizes.indexed, [point["seconds"] for point in points])
            curve = {"model": name.rstrip(": ") or "linear", "points": points, "exponent": slope}
            curves.append({**curve, "at_most": INDEX_EXPONENT, "met": slope <= INDEX_EXPONENT})
    return {"rows": [row.as_dict() for row in rows], "curves": curves}


def _indexed(name: str, make: Callable[[int], Model], sizes: Sizes) -> tuple[list[Row], list[dict[str, Any]]]:
    n_small, turns, run = sizes.items[0]
    rows, points = [], []
    for n_items in sizes.indexed:
        model = make(n_items)
        begun = time.process_time()
        lists = build_lists(model)
        built = time.process_time() - begun
        recommender = Recommender(model, SHIPPED, index=lists)
        jobs = {"exact": one_round(session_of(make(n_small))), "ours": one_round(recommender.session())}
        seconds = interleaved(jobs, repeats=turns, run=run)
        job = f"{name}recommend({K}) + observe from an index, {place(model)}"
        rows.append(compared("index", job, f"the same, exact, {n_small:,} items", seconds["ours"], seconds["exact"]))
        points.append({"size": n_items, "seconds": float(np.median(seconds["ours"])), "build_s": built})
    return rows, points
