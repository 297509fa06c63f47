"""What is said about a visitor's taste is right, and nothing is said while nothing is known."""

import numpy as np
import pytest

from igcf.baselines.pca import principal_components
from igcf.data.synthetic import SyntheticWorld, synthetic_world
from igcf.model import Model, Reward
from igcf.online import Belief, Recommender
from igcf.service.serving.taste import taste_of
from tools.taste_words import Score, score_visitors, tastes_of

STARS = Reward("satisfied", threshold=4.0, low=1.0, high=5.0)


def two_sided_model(categories: list[list[str]] | None) -> Model:
    """Eight items: the first four lie in one direction, the others in the opposite one."""
    side = np.repeat([1.0, -1.0], 4)
    return Model(
        item_vectors=np.column_stack([np.full(8, 0.5), 0.4 * side]),
        item_ids=[f"i{row}" for row in range(8)],
        prior_mean=[1.0, 0.0],
        prior_cov=np.diag([0.0, 1.0]),
        noise_var=0.05,
        reward=STARS,
        categories=categories,
    )


NAMED = [["Crime"]] * 4 + [["Science Fiction"]] * 4


def learned(model: Model, values: dict[str, float]) -> tuple[Belief, list[tuple[int, bool]]]:
    session = Recommender(model).session()
    for item_id, value in values.items():
        session.observe(item_id, value)
    return session.belief, [(model.item_row(item_id), value >= 4) for item_id, value in values.items()]


def test_it_is_silent_while_nothing_is_known() -> None:
    model = two_sided_model(NAMED)
    belief, _ = learned(model, {})
    assert taste_of(model, belief, []).sentence == ""
    one = taste_of(model, *learned(model, {"i0": 5.0}))
    assert (one.sentence, one.confidence) == ("", "none"), "one reaction is no taste"


def test_without_categories_nothing_is_said() -> None:
    model = two_sided_model(None)
    assert taste_of(model, *learned(model, {"i0": 5.0, "i1": 5.0, "i4": 1.0, "i5": 1.0})).sentence == ""


def test_what_is_liked_and_what_is_liked_less_are_named() -> None:
    model = two_sided_model(NAMED)
    taste = taste_of(model, *learned(model, {"i0": 5.0, "i4": 1.0, "i1": 5.0, "i5": 2.0, "i2": 5.0}))
    assert taste.sentence == "You like crime, less so science fiction."
    assert taste.confidence == "sure"
    assert [(each.category, each.hits, each.misses) for each in taste.categories] == [
        ("Crime", 3, 0),
        ("Science Fiction", 0, 2),
    ]


def test_the_opposite_reactions_say_the_opposite() -> None:
    model = two_sided_model(NAMED)
    taste = taste_of(model, *learned(model, {"i0": 1.0, "i4": 5.0, "i1": 1.0, "i5": 5.0}))
    assert taste.sentence.startswith("You like science fiction, less so crime")


def test_a_category_that_pleases_now_and_then_is_not_named() -> None:
    model = two_sided_model([["Crime"], ["Crime"], ["Drama"], ["Drama"], ["War"], ["War"], ["War"], ["Drama"]])
    taste = taste_of(model, *learned(model, {"i0": 5.0, "i1": 1.0, "i4": 5.0, "i5": 1.0}))
    assert taste.sentence == ""


def component_model(world: SyntheticWorld) -> Model:
    """The components of a world's log as vectors: no training, yet it learns."""
    satisfied = world.log.matrix((world.log.values >= 4).astype(np.float64))
    mean, loadings = principal_components(satisfied, 16, rng=np.random.default_rng(0))
    return Model(
        item_vectors=np.column_stack([mean, loadings]),
        item_ids=world.log.item_ids,
        prior_mean=np.eye(17)[0],
        prior_cov=np.diag(np.r_[0.0, np.ones(16)]),
        noise_var=0.25,
        reward=STARS,
        categories=world.log.categories,
    )


@pytest.mark.parametrize("kind", ["two", "three", "mixed"])
def test_named_categories_are_right_after_fifteen_reactions(kind: str) -> None:
    total = Score()
    for seed in (11, 12, 13):
        world = synthetic_world(n_users=600, n_items=400, seed=seed)
        rng = np.random.default_rng(seed)
        found = score_visitors(component_model(world), world, tastes_of(kind, 40, rng=rng), rng=rng)
        for name, value in vars(found).items():
            setattr(total, name, getattr(total, name) + value)
    print(f"{kind}: {total}")
    assert total.named_right >= 0.9 * total.named
    assert total.right >= (0.9 if kind == "two" else 0.8) * total.spoken
    assert total.spoken >= 0.6 * total.visitors, "silence is no answer to everybody"
