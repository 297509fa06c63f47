"""Speed of a catalogue that grows: items added at once, and answers while some items are not settled."""

import time
from collections.abc import Callable

import numpy as np

from igcf.lab.bench.sizes import Sizes
from igcf.lab.bench.timing import Row, compared, interleaved
from igcf.lab.bench.worlds import SHIPPED, random_experts
from igcf.model import Model
from igcf.online import Recommender, Session
from igcf.training.content import fit_content

K = 5
LONGEST_ADD_S = 10.0
"""Seconds within which a tenth of the largest catalogue must have joined it."""


def new_items(sizes: Sizes) -> list[Row]:
    """Rows for the default model on the largest catalogue of at most 100,000 items."""
    n_items, turns, run = max(each for each in sizes.items if each[0] <= sizes.logged[2])
    model = described(random_experts(n_items, *sizes.expert_dims))
    plain, growing = (Recommender(model, SHIPPED) for _ in range(2))
    growing.add_items(new_descriptions(n_items // 100, "unsettled"))
    jobs = {"plain": one_round(plain.session()), "growing": one_round(growing.session())}
    seconds = interleaved(jobs, repeats=turns, run=run)
    begun = time.process_time()
    Recommender(model, SHIPPED).add_items(new_descriptions(n_items // 10, "joining"))
    adding = np.array([time.process_time() - begun])
    where = f"{n_items:,} items, d={model.dim}"
    warm = f"two experts: recommend({K}) + observe, 1 % of {where} new and not settled"
    limit = np.full(1, LONGEST_ADD_S)
    return [
        compared("online", warm, "no new items", seconds["growing"], seconds["plain"], at_most=1.5),
        compared("online", f"add {n_items // 10:,} items to {where}", "10 s", adding, limit, at_most=1.0),
    ]


def described(model: Model) -> Model:
    """Return the model with categories and a content prior."""
    categories = [(f"category {row % 20}",) for row in range(model.n_items)]
    other = Model(
        channels=model.channels,
        terms=model.terms,
        item_ids=model.item_ids,
        prior_mean=model.prior_mean,
        prior_cov=model.prior_cov,
        reward=model.reward,
        categories=categories,
    )
    return other.with_content(fit_content(other))


def new_descriptions(n_items: int, name: str) -> list[dict[str, object]]:
    """Describe items that no model has yet."""
    return [{"id": f"{name} {row}", "categories": [f"category {row % 20}"]} for row in range(n_items)]


def one_round(session: Session) -> Callable[[], None]:
    """Recommend `K` items and learn from the reaction to the first."""

    def round_() -> None:
        best = session.recommend(K)[0]
        session.observe(best.item_id, 5.0)

    return round_
