from dataclasses import replace
from pathlib import Path

import pytest

from igcf.lab.evaluate import evaluate
from igcf.lab.evaluate.paper import methods_of, printed, side_by_side, side_by_side_tables
from igcf.lab.evaluate.report import write_results
from igcf.lab.evaluate.results import summary
from igcf.lab.evaluate.tables import results_tables
from tests.lab.evaluate.worlds import FAST, log, setup


def test_only_methods_with_parts_to_leave_out_are_in_an_ablation() -> None:
    assert methods_of("ablation") == ["igcf-paper", "igcf-graph"]
    assert "pop" in methods_of("top-k")


def test_the_best_of_several_seeds_stands_beside_their_mean() -> None:
    results = evaluate(log(), setup(), ("random",), seeds=(0, 1, 2))
    (entry,) = (each for each in side_by_side(results) if each["metric"] == "precision@12")
    by_seed = [row.figures["precision"]["12"] for row in results.rows]
    assert entry["best"] == max(by_seed)
    assert entry["ours"] == pytest.approx(sum(by_seed) / 3)
    table = side_by_side_tables(results)[0]
    assert table.header[:3] == ("method", "precision@10", "best of 3")
    assert " ± " in table.rows[0][1]


def test_the_columns_of_the_paper_are_there_only_where_it_prints_something() -> None:
    known = evaluate(log(), replace(setup(), dataset="ml-1m"), ("random",))
    assert side_by_side_tables(known)[0].header[:4] == ("method", "precision@10", "paper", "+/-")
    unknown = side_by_side_tables(evaluate(log(), setup(), ("random",)))[0]
    assert "paper" not in unknown.header
    assert unknown.title.endswith("the paper prints nothing for this data set")


def test_what_the_paper_gains_after_the_drift_is_a_difference_of_its_numbers() -> None:
    assert printed("taste-drift", "ml-1m")["igcf-paper"]["after_drift@120"] == 8.48
    results = evaluate(log(), setup("taste-drift"), ("pop",))
    assert "after_drift@12" in {each["metric"] for each in side_by_side(results)}


def test_a_summary_holds_all_metrics_as_means_over_seeds() -> None:
    results = evaluate(log(), setup(), ("random",), seeds=(0, 1))
    found = summary(results, "random", results.sessions[0])
    assert found["share"]["12"]["mean"] == pytest.approx(found["precision"]["12"]["mean"] / 12)
    for name in ("coverage", "novelty"):
        assert found[name]["mean"] == pytest.approx(sum(row.numbers[name] for row in results.rows) / 2)
    assert set(found["seconds"]) == {"pretrain", "online"}


def test_what_was_chosen_is_in_the_tables_and_on_the_page(tmp_path: Path) -> None:
    results = evaluate(log(), setup(), ("pop", "pca-gp"), grid="quick")
    table = results_tables(results)[-1]
    assert table.title == "Chosen on validation users"
    ((name, chosen, n_tried, _),) = table.rows
    assert name == "pca-gp"
    assert chosen.startswith("dim ")
    assert int(n_tried) == len(results.tuning[1]["tried"])
    write_results(results, log(), tmp_path)
    assert chosen in (tmp_path / "report.html").read_text()


def test_the_session_table_ends_with_coverage_novelty_and_seconds() -> None:
    header = results_tables(evaluate(log(), setup(), FAST))[0].header
    assert header[-5:] == ("share@12", "coverage", "novelty", "fit s", "online s")
