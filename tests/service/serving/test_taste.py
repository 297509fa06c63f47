"""What is said about a visitor's taste is right, and nothing is said while nothing is known."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from igcf.data.synthetic import SyntheticWorld, synthetic_world
from igcf.lab.baselines.factors import principal_components
from igcf.model import Model, Reward
from igcf.online import Belief, Recommender
from igcf.service.serving.taste import group_evidence, groups_of, taste_of
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


BANDS = ["Iron Maiden", "Metallica", "Slayer", "Opeth", "Dio", "Tool", "Anthrax", "Accept"]
SINGERS = ["Madonna", "Rihanna", "Shakira", "Cher", "Pink", "Duffy", "Prince", "Kylie"]


def music_model(titles: list[str] | None = None, **fields: Any) -> Model:
    """Bands and singers without categories, liked by different people; the first of each are known best."""
    side, fame = np.repeat([1.0, -1.0], 8), np.tile(np.linspace(0.6, 0.3, 8), 2)
    return Model(
        item_vectors=np.column_stack([fame, 0.4 * side]),
        item_ids=[f"i{row}" for row in range(16)],
        prior_mean=[1.0, 0.0],
        prior_cov=np.diag([0.0, 1.0]),
        noise_var=0.05,
        reward=STARS,
        titles=titles or [*BANDS, *SINGERS],
        **fields,
    )


def test_without_categories_items_that_the_same_people_like_are_groups_named_by_the_best_known() -> None:
    groups = groups_of(music_model())
    assert groups.kind == "items"
    assert dict(zip(groups.names, (set(rows.tolist()) for rows in groups.rows), strict=True)) == {
        "Iron Maiden and Metallica": set(range(8)),
        "Madonna and Rihanna": set(range(8, 16)),
    }


def test_long_titles_name_a_group_one_at_a_time_and_years_are_left_out() -> None:
    titles = [f"{name}, a Film with a Rather Long Title (1999)" for name in (*BANDS, *SINGERS)]
    names = groups_of(music_model(titles)).names
    assert set(names) == {f"{name}, a Film with a Rather Long Title" for name in ("Iron Maiden", "Madonna")}


def test_without_categories_taste_is_told_by_items() -> None:
    model = music_model()
    few = taste_of(model, *learned(model, {"i0": 5.0, "i8": 1.0}))
    assert few.sentence == "You seem closer to Iron Maiden and Metallica than to Madonna and Rihanna."
    assert few.confidence == "first impression"
    taste = taste_of(model, *learned(model, {"i0": 5.0, "i8": 1.0, "i1": 5.0, "i9": 1.0, "i2": 5.0, "i3": 5.0}))
    assert taste.sentence == "You are closer to Iron Maiden and Metallica than to Madonna and Rihanna."
    assert {each.name: each.standing for each in taste.groups}["Iron Maiden and Metallica"] == "liked"
    assert taste_of(model, *learned(model, {"i8": 1.0})).sentence == "", "there is nothing to compare with"


def test_a_catalogue_too_small_for_groups_is_silent() -> None:
    model = two_sided_model(None)
    assert taste_of(model, *learned(model, {"i0": 5.0, "i1": 5.0, "i4": 1.0, "i5": 1.0})).sentence == ""


@pytest.mark.parametrize("categories", [None, [["Bands"]] * 8 + [["Singers"]] * 8])
def test_what_is_unknown_about_a_group_only_shrinks(categories: list[list[str]] | None) -> None:
    model = music_model(categories=categories)
    rng, session = np.random.default_rng(0), Recommender(model).session()
    before = dict.fromkeys(groups_of(model).names, 1.0)
    reactions: list[tuple[int, bool]] = []
    for row in rng.permutation(16).tolist():
        value = float(rng.choice([1.0, 5.0]))
        session.observe(f"i{row}", value)
        reactions.append((row, value >= 4))
        taste = taste_of(model, session.belief, reactions)
        for each in taste.groups:
            assert each.unknown <= before[each.name]
            before[each.name] = each.unknown
    assert max(before.values()) < 0.5


def test_what_is_liked_and_what_is_liked_less_are_named() -> None:
    model = two_sided_model(NAMED)
    taste = taste_of(model, *learned(model, {"i0": 5.0, "i4": 1.0, "i1": 5.0, "i5": 2.0, "i2": 5.0}))
    assert taste.sentence == "You like Crime items more than Science Fiction."
    assert taste.confidence == "sure"
    assert [(each.name, each.hits, each.misses) for each in taste.groups] == [
        ("Crime", 3, 0),
        ("Science Fiction", 0, 2),
    ]


@pytest.mark.parametrize(
    ("metadata", "noun"),
    [
        ({"data": {"name": "ml-1m"}}, "films"),
        ({"data": {"name": "mine"}, "reading": {"columns": {"item": "book_id"}}}, "books"),
        ({"data": {"name": "mine"}, "reading": {"columns": {"item": "sku"}}}, "items"),
        ({"reading": {"columns": None}}, "items"),
    ],
)
def test_items_are_called_what_the_log_says_they_are(metadata: dict[str, Any], noun: str) -> None:
    model = two_sided_model(NAMED)
    model.metadata |= metadata
    told = taste_of(model, *learned(model, {"i4": 1.0, "i5": 1.0, "i6": 1.0}))
    assert told.sentence == f"You like Science Fiction {noun} less than other {noun}."


def test_a_category_that_is_a_number_is_not_read_as_a_count() -> None:
    model = two_sided_model([["7"], ["7"], ["7"], ["7"], ["8"], ["8"], ["8"], ["8"]])
    taste = taste_of(model, *learned(model, {"i0": 5.0, "i4": 1.0, "i1": 5.0, "i5": 2.0, "i2": 5.0}))
    assert taste.sentence == "You like category 7 items more than category 8."


def test_the_opposite_reactions_say_the_opposite() -> None:
    model = two_sided_model(NAMED)
    taste = taste_of(model, *learned(model, {"i0": 1.0, "i4": 5.0, "i1": 1.0, "i5": 5.0}))
    assert taste.sentence.startswith("You like Science Fiction items more than Crime")


def test_more_that_is_said_does_not_make_the_main_part_less_sure() -> None:
    """What is liked less is added while it is likely enough; how sure the sentence sounds is about what is liked."""
    model = two_sided_model(NAMED)
    taste = taste_of(model, *learned(model, {f"i{row}": 5.0 if row < 4 else 1.0 for row in (0, 4, 1, 5, 2, 6, 3)}))
    assert taste.sentence == "You like Crime items more than Science Fiction."
    assert taste.confidence == "sure"


def test_a_category_that_pleases_now_and_then_is_not_named() -> None:
    model = two_sided_model([["Crime"], ["Crime"], ["Drama"], ["Drama"], ["War"], ["War"], ["War"], ["Drama"]])
    taste = taste_of(model, *learned(model, {"i0": 5.0, "i1": 1.0, "i4": 5.0, "i5": 1.0}))
    assert taste.sentence == ""


def test_liking_what_everybody_likes_says_less_than_passing_on_it() -> None:
    """Both categories got the same reactions, but crime is what pleases nearly everybody."""
    categories = [["Crime"]] * 4 + [["War"]] * 4
    favourites = Model(
        item_vectors=np.column_stack([np.r_[np.full(4, 0.95), np.full(4, 0.1)], np.full(8, 0.01)]),
        item_ids=[f"i{row}" for row in range(8)],
        prior_mean=[1.0, 0.0],
        prior_cov=np.diag([0.3, 1.0]),
        noise_var=0.2,
        reward=STARS,
        categories=categories,
    )
    nothing = Belief(np.zeros(2), np.eye(2))
    for is_hit, sign in ((True, 1), (False, -1)):
        found = group_evidence(favourites, nothing, [(row, is_hit) for row in (0, 1, 4, 5)])
        assert found is not None
        lift = dict(zip(groups_of(favourites).names, found.lift, strict=True))
        stronger = "War" if is_hit else "Crime"
        assert lift[stronger] * sign > 0
        assert max(lift.values(), key=lambda each: each * sign) == lift[stronger]


def test_a_catalogue_of_very_many_categories_is_read_by_its_largest() -> None:
    n = 4_000
    rng = np.random.default_rng(0)
    wild = Model(
        item_vectors=rng.normal(size=(n, 4)),
        item_ids=[str(row) for row in range(n)],
        prior_mean=np.zeros(4),
        prior_cov=np.eye(4),
        noise_var=0.2,
        reward=STARS,
        categories=[[f"c{row % 900}", "everything" if row % 2 else "half"] for row in range(n)],
    )
    taste = taste_of(wild, *learned(wild, {str(row): 5.0 if row % 2 else 1.0 for row in range(12)}))
    assert len(taste.groups) == 300
    assert {each.name: each.standing for each in taste.groups if each.hits + each.misses > 1} == {
        "everything": "liked",
        "half": "less",
    }


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
    """With models that nothing was calibrated for; those of trained models are in docs/page.md, and better."""
    total = Score()
    for seed in (11, 12, 13):
        world = synthetic_world(n_users=600, n_items=400, seed=seed)
        rng = np.random.default_rng(seed)
        found = score_visitors(component_model(world), world, tastes_of(kind, 40, rng=rng), rng=rng)
        for name, value in vars(found).items():
            setattr(total, name, getattr(total, name) + value)
    print(f"{kind}: {total}")
    assert total.named_right >= (0.85 if kind == "mixed" else 0.93) * total.named
    assert total.right >= (0.8 if kind == "mixed" else 0.9) * total.spoken
    assert total.spoken >= 0.8 * total.visitors, "silence is no answer to everybody"


@pytest.mark.slow
@pytest.mark.parametrize(("rounds", "least"), [(8, 0.75), (15, 0.88)])
def test_comparisons_without_categories_are_right(rounds: int, least: float) -> None:
    total = Score()
    for seed in (201, 202, 203, 204, 205):
        world = synthetic_world(n_users=600, n_items=400, seed=seed)
        world = replace(world, log=replace(world.log, categories=None))
        for kind in ("two", "three", "mixed"):
            rng = np.random.default_rng(seed)
            tastes = tastes_of(kind, 40, rng=rng)
            found = score_visitors(component_model(world), world, tastes, rounds=rounds, rng=rng)
            for name, value in vars(found).items():
                setattr(total, name, getattr(total, name) + value)
    print(f"{rounds} rounds: {total}")
    assert total.right >= least * total.spoken
    assert total.spoken >= 0.7 * total.visitors
