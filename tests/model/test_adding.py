"""Items that join a trained model by what their content says."""

from pathlib import Path

import numpy as np
import pytest

from igcf.errors import DataError, ModelError
from igcf.item import Item
from igcf.model import Model, Reward
from igcf.model.content import Features
from igcf.online import Recommender
from igcf.training.content import _Ridge, fit_content, popularity_classes


def genre_model(n_items: int = 120) -> Model:
    """Half the items are comedies that one taste likes, half are horror that the other likes."""
    rng = np.random.default_rng(0)
    is_comedy = np.arange(n_items) % 2 == 0
    vectors = np.column_stack([rng.uniform(0.1, 0.3, n_items), np.where(is_comedy, 0.3, -0.3)])
    model = Model(
        item_vectors=vectors + 0.02 * rng.normal(size=vectors.shape),
        noise_var=0.1,
        item_ids=[f"i{n}" for n in range(n_items)],
        titles=[f"Film {n} ({1950 + n % 50})" for n in range(n_items)],
        categories=[("comedy",) if each else ("horror",) for each in is_comedy],
        prior_mean=[1.0, 0.0],
        prior_cov=np.diag([0.5, 1.0]),
        reward=Reward("satisfied", threshold=4.0, low=1.0, high=5.0),
    )
    return model.changed(content=fit_content(model))


def test_a_new_item_has_the_taste_of_its_category() -> None:
    model = genre_model().with_items([{"id": "funny", "categories": ["comedy"]}, Item("scary", categories=("horror",))])
    assert model.item_ids[-2:] == ("funny", "scary")
    assert model.added.tolist() == [120, 121]
    np.testing.assert_allclose(model.item_vectors[-2:, 1], [0.3, -0.3], atol=0.05)
    assert (model.item_noise[-2:] > model.item_noise[:-2].max()).all(), "what is unknown of an item is noise"


def test_an_item_without_any_description_is_like_the_others_on_average() -> None:
    model = genre_model().with_items([{"id": "nameless"}])
    assert abs(float(model.item_vectors[-1, 1])) < 0.2


def test_sessions_recommend_and_learn_from_added_items() -> None:
    session = Recommender(genre_model().with_items([{"id": "funny", "categories": ["comedy"]}])).session()
    session.observe("funny", 5.0)
    assert session.recommend(1)[0].item_id != "funny"


def test_the_absence_of_an_added_item_in_a_record_says_nothing() -> None:
    model = genre_model()
    model.metadata = {"settings": {"missing": "zero"}}
    logged = [("i0", 5.0), ("i2", 5.0)]
    before = Recommender(model).session(logged=logged).belief
    after = Recommender(model.with_items([{"id": f"n{n}"} for n in range(30)])).session(logged=logged).belief
    np.testing.assert_allclose(after.mean, before.mean, atol=0.02)


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([{"id": "i3"}], "'i3' is in this model already"),
        ([{"id": "a"}, {"id": "a"}], "'a' of item 1"),
        ([{"id": "a", "colour": "red"}], "unknown field"),
        ([{"id": "a", "numbers": {"year": float("nan")}}], "year"),
        ([{"id": "a", "title": "x" * 10_000_000}], "title"),
    ],
)
def test_bad_items_are_refused_in_one_sentence(items: list[dict[str, object]], message: str) -> None:
    model = genre_model()
    with pytest.raises((ModelError, DataError), match=message) as error:
        model.with_items(items)
    assert len(str(error.value)) < 500
    assert model.n_items == 120


def test_a_model_without_a_content_prior_says_what_to_do() -> None:
    model = genre_model()
    model.content = None
    with pytest.raises(ModelError, match="igcf pretrain"):
        model.with_items([{"id": "a"}])


def test_content_and_added_items_survive_the_folder(tmp_path: Path) -> None:
    model = genre_model().with_items([{"id": "funny", "categories": ["comedy"], "numbers": {"price": 3.0}}])
    model.save(tmp_path / "model")
    loaded = Model.load(tmp_path / "model")
    assert loaded.added.tolist() == [120]
    further = [{"id": "more", "title": "Film of films (1990)", "categories": ["horror"]}]
    np.testing.assert_array_equal(loaded.with_items(further).item_vectors, model.with_items(further).item_vectors)


def test_a_folder_without_a_content_prior_still_loads(tmp_path: Path) -> None:
    model = genre_model()
    model.content = None
    model.save(tmp_path / "model")
    assert Model.load(tmp_path / "model").content is None


def test_leave_one_out_residuals_are_those_of_leaving_each_item_out() -> None:
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(12, 3)), rng.normal(size=(12, 2))
    coefficients, residuals = _Ridge(X).fit(Y)
    centred = X - X.mean(axis=0)
    penalty = next(
        each
        for each in (3.0, 10.0, 30.0, 100.0, 300.0, 1_000.0, 1e5)
        if np.allclose(
            np.linalg.solve(centred.T @ centred + each * np.eye(3), centred.T @ (Y - Y.mean(axis=0))), coefficients[1:]
        )
    )
    ones, penalties = np.column_stack([np.ones(12), centred]), np.diag([0.0, penalty, penalty, penalty])
    for out in range(12):
        kept = np.arange(12) != out
        own = np.linalg.solve(ones[kept].T @ ones[kept] + penalties, ones[kept].T @ Y[kept])
        np.testing.assert_allclose(residuals[out], Y[out] - ones[out] @ own, atol=1e-10)


def test_classes_are_large_enough_and_ordered_by_popularity() -> None:
    expected = np.random.default_rng(0).random(400)
    classes = popularity_classes(expected)
    assert np.bincount(classes).min() >= 25
    assert (np.diff(classes[np.argsort(expected)]) >= 0).all()
    assert set(popularity_classes(expected[:20]).tolist()) == {0}


def test_numbers_words_and_years_become_features() -> None:
    items = [Item(str(n), title=f"Night train ({1950 + n})", numbers={"price": float(n)}) for n in range(20)]
    items += [Item(str(n), title=f"Morning ({1950 + n})") for n in range(20, 40)]
    features = Features.from_items(items)
    assert set(features.numbers) == {"price", "year"}
    assert {"night", "train", "morning"} <= set(features.words)
    assert Features.from_dict({"categories": [], "numbers": features.numbers, "words": features.words}) == features
    found = features.of([Item("x", title="Nobody knows"), items[0]])
    assert not found[0].any()
    assert np.isfinite(found).all()
