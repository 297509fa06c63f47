"""igcf in a pipeline of LensKit, the real package."""

import numpy as np
import pandas as pd
import pytest
from lenskit import batch, recommend, score
from lenskit.data import ItemList, RecQuery, from_interactions_df
from lenskit.metrics import NDCG, RunAnalysis
from lenskit.pipeline import Pipeline, topn_pipeline
from lenskit.splitting import SampleN, sample_users

from igcf.data import synthetic_catalogue
from igcf.lab.adapters.lenskit import InteractiveScorer


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    log = synthetic_catalogue(n_users=200, n_items=60)
    return pd.DataFrame({"user_id": log.user_idx + 1000, "item_id": log.item_idx + 5, "rating": log.values})


@pytest.fixture(scope="module")
def pipeline(frame: pd.DataFrame) -> Pipeline:
    found = topn_pipeline(InteractiveScorer(seed=1), n=10)
    found.train(from_interactions_df(frame))
    return found


@pytest.mark.slow
def test_it_is_fitted_and_recommends_what_known_users_have_not_seen(pipeline: Pipeline, frame: pd.DataFrame) -> None:
    picks = recommend(pipeline, 1003, 7)
    assert len(picks) == 7
    assert not set(picks.ids()) & set(frame["item_id"][frame["user_id"] == 1003])
    scores = picks.scores()
    assert scores is not None
    assert (np.diff(scores) <= 0).all()


def test_it_scores_and_items_that_it_does_not_know_have_no_score(pipeline: Pipeline) -> None:
    scores = score(pipeline, 1003, items=[5, 9_999, 6]).scores()
    assert scores is not None
    assert np.isnan(scores).tolist() == [False, True, False]


def test_a_new_user_is_known_by_the_session(pipeline: Pipeline) -> None:
    def scores(query: RecQuery) -> dict[int, float]:
        found = score(pipeline, query, items=list(range(7, 60)))
        return dict(zip(found.ids().tolist(), np.asarray(found.scores()).tolist(), strict=True))

    shown = ItemList(item_ids=[5, 6], rating=[5.0, 1.0])
    after, nothing = scores(RecQuery(session_items=shown)), scores(RecQuery())
    assert after != nothing
    assert after != scores(RecQuery(history_items=shown)), "absence counts in a record only"


@pytest.mark.slow
def test_lenskit_s_own_evaluation_finds_it_better_than_chance(frame: pd.DataFrame) -> None:
    happy = from_interactions_df(frame[frame["rating"] >= 4])
    split = sample_users(happy, 60, SampleN(3), rng=1)
    pipe = topn_pipeline(InteractiveScorer(), n=10)
    pipe.train(split.train)
    measured = RunAnalysis(NDCG()).measure(batch.recommend(pipe, split.test, n_jobs=1), split.test)
    found = measured.list_summary().loc["NDCG", "mean"]
    chance = (1 / np.log2(np.arange(2, 12))).sum() / (1 / np.log2(np.arange(2, 5))).sum() * 3 / 50
    assert found > 1.5 * chance
