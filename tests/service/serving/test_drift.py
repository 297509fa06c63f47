"""A change of taste is told from a taste that stays."""

import numpy as np

from igcf.data.synthetic import _satisfaction, _stars, synthetic_world
from igcf.online import Recommender
from igcf.online.answers import Reaction
from igcf.service.serving.page import FEWEST, drift_of
from tests.service.serving.test_taste import NAMED, component_model, learned, two_sided_model
from tools.taste_words import tastes_of


def test_a_few_reactions_say_nothing_about_a_change() -> None:
    recommender = Recommender(two_sided_model(NAMED))
    assert drift_of(recommender, [("i0", 5.0)] * (FEWEST - 1)) is None
    assert drift_of(recommender, [("i0", None)] * 20) is None, "no reaction is no evidence"


def test_halves_that_contradict_each_other_are_a_change() -> None:
    model = two_sided_model(NAMED)
    recommender = Recommender(model)
    crime: list[Reaction] = [*((f"i{n}", 5.0) for n in range(4)), *((f"i{4 + n}", 1.0) for n in range(4))]
    other: list[Reaction] = [(item_id, 6.0 - (value or 0.0)) for item_id, value in crime]
    stays, changes = drift_of(recommender, crime + crime), drift_of(recommender, crime + other)
    assert stays is not None
    assert changes is not None
    assert stays < 0 < changes
    assert learned(model, {})[1] == []


def test_drifting_users_rank_above_consistent_ones() -> None:
    """Simulated users of known taste, half of whom change it in the middle of forty reactions."""
    world = synthetic_world(n_users=600, n_items=400, seed=21)
    model, rng = component_model(world), np.random.default_rng(4)
    recommender = Recommender(model)
    drifts: dict[bool, list[float]] = {False: [], True: []}
    for number in range(60):
        tastes = tastes_of("two", 2, rng=rng)
        satisfaction = _satisfaction(tastes, world.item_tastes, world.item_quality)
        stars = _stars(satisfaction, rng.random(satisfaction.shape))
        session, changes = recommender.session(), bool(number % 2)
        history: list[Reaction] = []
        for turn in range(40):
            item_id = session.recommend(1)[0].item_id
            value = float(stars[int(changes and turn >= 20)][model.item_row(item_id)])
            session.observe(item_id, value)
            history.append((item_id, value))
        found = drift_of(recommender, history)
        assert found is not None
        drifts[changes].append(found)
    above = np.array(drifts[True])[:, None] > np.array(drifts[False])
    print(f"a drifting user ranks above a consistent one in {above.mean():.1%} of pairs")
    assert above.mean() > 0.75
