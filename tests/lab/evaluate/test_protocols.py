import json
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from igcf.data import synthetic_catalogue
from igcf.data.synthetic import drifting_catalogue
from igcf.errors import ConfigError
from igcf.lab.evaluate import evaluate
from igcf.lab.evaluate.protocols import PROTOCOLS, Session, prepare, protocol_named, setup_for
from igcf.lab.evaluate.report import write_results
from igcf.lab.evaluate.tables import verdict
from tests.lab.evaluate.worlds import log, setup

MET: tuple[Literal["test", "validation"], ...] = ("test", "validation")


def test_the_paper_settings_are_the_defaults() -> None:
    assert setup_for(log(), "cold-start", n_users=200).sessions == (Session(120, 1),)
    assert setup_for(log(), "top-k").sessions == (Session(40, 3), Session(20, 5))
    assert setup_for(log(), "top-k", slate=5, rounds=10).sessions == (Session(10, 5),)
    assert setup_for(log(), "top-k", slate=2).sessions == (Session(40, 2),)


def test_figures_are_reported_at_the_papers_rounds_and_at_the_end() -> None:
    assert setup(rounds=120).protocol.cutoffs(Session(120, 1)) == (10, 20, 40, 120)
    assert setup(rounds=25).protocol.cutoffs(Session(25, 1)) == (10, 20, 25)
    assert setup("taste-drift", rounds=120).protocol.cutoffs(Session(120, 1)) == (60, 80, 100, 120)
    assert setup("ablation").protocol.cutoffs(Session(60, 1)) == (10, 20, 40, 60)


def test_training_validation_and_test_users_are_different_people() -> None:
    for protocol in ("cold-start", "taste-drift"):
        case = prepare(log(), setup(protocol), seed=0)
        train, validation = set(case.task.train.user_ids), set(case.task.validation[0].user_ids)
        assert train
        assert validation
        assert not train & validation
        assert not set(case.user_ids) & (train | validation)


def test_tuning_meets_the_validation_users() -> None:
    case = prepare(log(), setup(), seed=0, users="validation")
    assert case.user_ids == case.task.validation[0].user_ids


def test_whoever_is_met_is_not_learned_from() -> None:
    """Test users are met by methods that learned from everybody else, validation users by those that did not."""
    final, tuning = (prepare(log(), setup(), 0, users) for users in MET)
    refitted = final.task.refitted().train
    assert set(refitted.user_ids) == {*final.task.train.user_ids, *final.task.validation[0].user_ids}
    assert len(refitted) == len(final.task.train) + len(final.task.validation[0])
    assert not set(refitted.user_ids) & set(final.user_ids)
    assert tuning.task.refitted() is tuning.task


def test_a_drifting_user_has_two_periods_and_recall_counts_both() -> None:
    case = prepare(log(), setup("taste-drift"), seed=0)
    before, after = case.truth
    assert not (np.isfinite(before) & np.isfinite(after)).any()
    np.testing.assert_array_equal(case.n_satisfied, ((before >= 4) | (after >= 4)).sum(axis=1))


def test_a_split_by_users_depends_on_the_seed_and_one_in_time_does_not() -> None:
    by_user = [prepare(log(), setup(split="users"), seed).user_ids for seed in (0, 1, 0)]
    assert by_user[0] == by_user[2] != by_user[1]
    assert prepare(log(), setup(split="time"), 0).user_ids == prepare(log(), setup(split="time"), 1).user_ids


@pytest.mark.parametrize("name", [name for name in PROTOCOLS if name != "split"])  # which needs two files
def test_every_protocol_runs_with_several_seeds_and_reports(name: str, tmp_path: Path) -> None:
    """No protocol goes its own way: seeds, comparisons, tables, verdict and the report are the same for all."""
    data = (
        drifting_catalogue(n_users=240, n_items=160)
        if name == "next"
        else synthetic_catalogue(n_users=240, n_items=120)
    )
    protocol = protocol_named(name, keep=0.5 if name == "thin-log" else None)
    sizes = {} if protocol.axis != "round" else {"rounds": 8, "min_reactions": 20}
    small = setup_for(data, protocol, n_users=20, **sizes)
    fast = {"linear_dim": 8, "logistic_dim": 4, "iterations": 2, "calibrated": False}
    methods = ("igcf",) if set(protocol.methods) == {"igcf"} else ("pop", "share" if name == "observed" else "pca-gp")
    settings = {"igcf": fast} if "igcf" in methods else {}
    results = evaluate(data, small, methods, seeds=(0, 1), settings=settings)
    assert {row.outcome.seed for row in results.rows} == {0, 1}
    assert results.comparisons
    assert results.n_users <= verdict(results).n_users <= 2 * results.n_users  # each seed may draw its own
    write_results(results, data, tmp_path)
    document = json.loads((tmp_path / "results.json").read_text())
    assert document["protocol"] == name
    assert document["rows"][0]["config"] == dict(results.rows[0].outcome.settings)
    assert (tmp_path / "report.html").stat().st_size > 1000


def test_an_option_of_another_protocol_is_refused() -> None:
    with pytest.raises(ConfigError, match="cold-start has no option --share, which belongs to new-items, known-users"):
        protocol_named("cold-start", share=0.3)


def test_what_cannot_be_run_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown protocol 'cold'; known are cold-start"):
        setup("cold")
    with pytest.raises(ConfigError, match="240 items would be shown to each user, synthetic has 120"):
        setup(rounds=120, slate=2)
    with pytest.raises(ConfigError, match="rounds must be at least 1, got 0"):
        setup(rounds=0)
