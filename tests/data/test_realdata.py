"""The numbers of the protocol, on the owners' data in IGCF_DATA_DIR."""

import numpy as np
import pytest

from igcf.data import DATASETS, MISSING_TIME, cold_start, load_dataset, taste_drift
from igcf.data.splits import ColdStart

pytestmark = pytest.mark.realdata
ROUNDS = np.array([10, 20, 40, 120])


@pytest.mark.parametrize(
    ("name", "fingerprint"),
    [
        ("ml-100k", "3ed37762b211c71e"),
        ("ml-1m", "5a8566bdc1c4ad29"),
        ("kuairec", "c590c038aee0f7f9"),
        ("eachmovie", "a99a78436bc35459"),
        ("synthetic", "5d697a5c1251d0d9"),
        ("synthetic-drift", "be86aea45f3a1288"),
    ],
)
def test_the_known_data_sets_are_read_as_ever(name: str, fingerprint: str) -> None:
    """Saved results and models name the log by its fingerprint."""
    assert load_dataset(name).fingerprint() == fingerprint


def popularity_precision(split: ColdStart, satisfied: float) -> list[float]:
    order = np.argsort(-np.bincount(split.train.item_idx, minlength=split.train.n_items), kind="stable")
    hits = np.nan_to_num(split.test.dense())[:, order] >= satisfied
    precision: list[float] = hits.cumsum(axis=1).mean(axis=0)[ROUNDS - 1].tolist()
    return precision


def test_ml_1m_cold_start_in_time() -> None:
    split = cold_start(load_dataset("ml-1m"), rng=np.random.default_rng(0))
    assert (split.train.n_users, len(split.train)) == (3255, 500_104)
    assert (split.test.n_users, np.bincount(split.test.user_idx).min()) == (200, 487)
    assert split.validation.n_users == 200
    assert popularity_precision(split, 4.0) == pytest.approx([7.215, 13.355, 25.790, 64.130], abs=0.05)


def test_ml_1m_cold_start_by_users() -> None:
    split = cold_start(load_dataset("ml-1m"), split="users", rng=np.random.default_rng(0))
    assert split.train.n_users == 3020
    assert popularity_precision(split, 4.0) == pytest.approx([7.06, 14.04, 26.34, 63.68], abs=0.01)


def test_ml_100k_has_119_test_users() -> None:
    split = cold_start(load_dataset("ml-100k"), rng=np.random.default_rng(0))
    assert (split.test.n_users, split.validation.n_users) == (119, 200)
    assert popularity_precision(split, 4.0) == pytest.approx([4.908, 9.126, 16.882, 42.429], abs=0.001)


def test_movielens_has_titles_and_genres() -> None:
    for name in ("ml-100k", "ml-1m"):
        data = load_dataset(name)
        assert data.titles is not None
        assert data.categories is not None
        assert data.titles[0] == "Toy Story (1995)"
        assert data.categories[0] == ("Animation", "Children's", "Comedy")


def test_ml_1m_taste_drift() -> None:
    """The paper's random row implies about 86 satisfied items in each period."""
    drift = taste_drift(load_dataset("ml-1m"))
    assert drift.test_before.n_users == drift.test_after.n_users == drift.validation_before.n_users == 200
    for part in (drift.test_before, drift.test_after):
        assert (part.values >= 4.0).sum() / 200 == pytest.approx(87, abs=3)
    assert not set(drift.train.user_ids) & set(drift.test_before.user_ids + drift.validation_before.user_ids)


def test_kuairec_is_read_with_tags_and_missing_times() -> None:
    info = DATASETS["kuairec"]
    data = load_dataset("kuairec")
    assert (data.n_users, data.n_items) == (1411, 3327)
    assert data.timestamps is not None
    assert (data.timestamps == MISSING_TIME).any()
    assert (data.values >= info.satisfied).sum() == pytest.approx(217_229, abs=1)
    assert data.categories is not None
    assert all(data.categories)
    split = cold_start(data, by_activity=info.by_activity, rng=np.random.default_rng(0))
    assert (split.train.n_users, split.test.n_users, split.validation.n_users) == (705, 200, 200)
    assert taste_drift(data).test_before.n_users == 200


def test_eachmovie_scores_lie_between_0_and_5() -> None:
    data = load_dataset("eachmovie")
    assert (len(data), data.n_users, data.n_items) == (1_009_402, 5055, 1619)
    assert np.unique(data.values).tolist() == [0, 1, 2, 3, 4, 5]
    assert data.timestamps is None
