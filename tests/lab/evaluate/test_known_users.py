import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from igcf.data import Interactions, synthetic_catalogue
from igcf.errors import ConfigError, DataError
from igcf.lab.evaluate import Results, Setup, evaluate, prepare, setup_for
from igcf.lab.evaluate.metrics import ranking_curves, reciprocal_ranks
from igcf.lab.evaluate.protocols.ranking import KnownUsers, RankingCase, hide_share, random_users
from igcf.lab.evaluate.report import write_results
from igcf.lab.evaluate.tables import results_tables
from tests.lab.evaluate.recompute import recompute
from tests.lab.evaluate.worlds import log

HISTORY_METHODS = ("pop", "item-knn", "ease")


def setup(**changes: object) -> Setup:
    return setup_for(log(), "known-users", **{"n_users": 30, **changes})


@cache
def results() -> Results:
    return evaluate(log(), setup(), HISTORY_METHODS, seeds=(0, 1))


@pytest.mark.parametrize("users", ["test", "validation"])
@pytest.mark.parametrize("seed", [0, 5])
def test_nobody_who_is_met_is_in_the_training_data_and_nothing_hidden_is_given(users: str, seed: int) -> None:
    case = prepare(log(), setup(), seed, users)  # type: ignore[arg-type]
    train, validation = set(case.task.train.user_ids), set(case.task.validation[0].user_ids)
    met = {user_id.split("/")[0] for user_id in case.user_ids}  # validation users are met several times
    assert not train & validation
    assert not train & met
    assert bool(met & validation) == (users == "validation")
    assert case.record is not None
    assert case.record.user_ids == case.user_ids
    assert isinstance(case, RankingCase)
    hidden = {(user, item) for user, item in zip(*case.hidden.nonzero(), strict=True)}
    shown = set(zip(case.record.user_idx.tolist(), case.record.item_idx.tolist(), strict=True))
    assert hidden
    assert not hidden & shown


@given(share=st.floats(0.05, 0.95), seed=st.integers(0, 1000))
def test_a_share_of_the_successes_is_hidden_and_all_else_is_given(share: float, seed: int) -> None:
    part = hide_share(log(), share, 4.0, rng=np.random.default_rng(seed))
    assert (part.hidden.values >= 4.0).all()
    assert part.given.user_ids == part.hidden.user_ids
    happy = np.bincount(log().user_idx[log().values >= 4.0], minlength=log().n_users)
    position = {user_id: row for row, user_id in enumerate(log().user_ids)}
    rows = [position[user_id] for user_id in part.given.user_ids]
    assert sorted(rows) == np.flatnonzero(happy >= 2).tolist()
    n_hidden = np.bincount(part.hidden.user_idx, minlength=part.hidden.n_users)
    expected = np.clip(np.rint(share * happy[rows]), 1, happy[rows] - 1)
    np.testing.assert_array_equal(n_hidden, expected)
    activity = np.bincount(log().user_idx, minlength=log().n_users)[rows]
    np.testing.assert_array_equal(np.bincount(part.given.user_idx, minlength=len(rows)), activity - n_hidden)


def test_another_seed_draws_other_users_and_the_same_seed_the_same() -> None:
    first, again, other = (prepare(log(), setup(), seed) for seed in (0, 0, 1))
    assert isinstance(first, RankingCase)
    assert isinstance(again, RankingCase)
    assert first.user_ids == again.user_ids
    np.testing.assert_array_equal(first.hidden.toarray(), again.hidden.toarray())
    assert set(first.user_ids) != set(other.user_ids)


def test_metrics_by_hand() -> None:
    """Hidden: 2 items, found at ranks 2 and 4 of 4.

    DCG@4 = 1 / log2(3) + 1 / log2(5), the best of two hits is 1 + 1 / log2(3); Recall@1 divides by min(1, 2).
    """
    found = np.array([[False, True, False, True], [False, False, False, False]])
    curves = ranking_curves(found, np.array([2, 1]))
    best = 1 + 1 / np.log2(3)
    late = 1 / np.log2(3) + 1 / np.log2(5)
    np.testing.assert_allclose(curves["ndcg"][0], [0, 1 / np.log2(3) / best, 1 / np.log2(3) / best, late / best])
    np.testing.assert_allclose(curves["recall"][0], [0, 0.5, 0.5, 1.0])
    np.testing.assert_array_equal(curves["ndcg"][1], 0.0)
    np.testing.assert_allclose(reciprocal_ranks(found), [0.5, 0.0])


def test_every_figure_can_be_counted_again_from_the_saved_ranking(tmp_path: Path) -> None:
    write_results(results(), log(), tmp_path)
    document = json.loads((tmp_path / "results.json").read_text())
    again = recompute(tmp_path)
    assert len(again) == len(document["rows"]) == 2 * len(HISTORY_METHODS)
    for ours, theirs in zip(document["rows"], again, strict=True):
        assert set(ours["recall"]) == {"20", "50"}
        for name in ("method", "seed", "ndcg", "recall", "mrr", "coverage", "novelty"):
            assert ours[name] == pytest.approx(theirs[name]), (ours["method"], name)


def test_the_report_and_the_tables_speak_of_rankings(tmp_path: Path) -> None:
    write_results(results(), log(), tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert page.count('class="chart wide"') == 3
    assert "Recall@20" in page
    table = results_tables(results())[0]
    assert table.header[1:6] == ("nDCG@10", f"nDCG@{results().sessions[0].slate}", "Recall@20", "Recall@50", "MRR")
    assert "20% of the successes hidden" in table.title


def test_our_models_are_compared_with_every_other_method() -> None:
    data = synthetic_catalogue(n_users=300, n_items=150, seed=1)
    small = setup_for(data, "known-users", n_users=60)
    settings = {"igcf": {"linear_dim": 8, "logistic_dim": 8}}
    found = evaluate(data, small, ("pop", "ease", "igcf"), settings=settings)
    last = str(small.sessions[0].slate)
    score = {row.method: row.figures["ndcg"][last] for row in found.rows}
    assert score["igcf"] > score["pop"]
    pairs = {(each.method, each.reference, each.metric) for each in found.comparisons}
    assert pairs == {("igcf", other, metric) for other in ("pop", "ease") for metric in (f"ndcg@{last}", "recall@20")}
    against_pop = next(each for each in found.comparisons if each.reference == "pop" and each.metric.startswith("ndcg"))
    assert against_pop.difference == pytest.approx(score["igcf"] - score["pop"])
    assert all(each.p_value >= each.p_uncorrected for each in found.comparisons)


def test_settings_are_chosen_on_validation_users() -> None:
    found = evaluate(log(), setup(), ("pop", "ease"), grid="quick")
    pop, ease = found.tuning
    assert pop["tried"] == []
    assert ease["score"] == max(point["score"] for point in ease["tried"])
    assert found.rows[1].outcome.settings == ease["settings"]


def test_methods_that_cannot_start_from_a_history_are_refused() -> None:
    with pytest.raises(ConfigError, match="mf cannot start from a logged history; methods that can: random, pop,"):
        evaluate(log(), setup(), ("pop", "mf"))


def test_a_log_in_which_nobody_can_be_tested_is_refused() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(DataError, match="users with at least 500 reactions; this protocol needs 5"):
        random_users(log(), n_test=3, n_validation=3, min_reactions=500, rng=rng)
    with pytest.raises(DataError, match=r"no user of .* has two reactions of at least 9"):
        hide_share(log(), 0.2, 9.0, rng=rng)
    with pytest.raises(ConfigError, match="must be between 0 and 1, got 1"):
        hide_share(log(), 1.0, 4.0, rng=rng)
    everything = Interactions.from_arrays(np.repeat(np.arange(9), 12), np.tile(np.arange(12), 9), np.full(108, 5.0))
    with pytest.raises(DataError, match="reacted to all but 0 of 12 items; ranking needs 10"):
        setup_for(everything, "known-users")


def test_the_share_that_is_hidden_is_an_option() -> None:
    little, much = (prepare(log(), replace(setup(), protocol=KnownUsers(share)), 0) for share in (0.1, 0.6))
    assert little.n_satisfied.sum() < much.n_satisfied.sum()
