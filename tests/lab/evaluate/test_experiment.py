import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import igcf
from igcf.data import Interactions
from igcf.errors import ConfigError
from igcf.lab.baselines import METHODS, Task
from igcf.lab.evaluate import Execution, Results, evaluate, jobs
from igcf.lab.evaluate.experiment import grid_jobs, grid_points
from igcf.lab.evaluate.jobs import job_key, sharing_key
from igcf.lab.evaluate.protocols import Job, Play, protocol_named
from igcf.lab.evaluate.report import write_results
from igcf.lab.evaluate.results import by_user, collect, user_scores
from igcf.lab.evaluate.running import Step, run_jobs
from igcf.lab.evaluate.tables import results_tables
from igcf.tables import as_latex, as_markdown
from tests.lab.evaluate.recompute import recompute
from tests.lab.evaluate.worlds import FAST, log, setup


def without_seconds(results: Results) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.as_dict().items() if name != "seconds"} for row in results.rows]


def test_the_same_seed_gives_the_same_numbers_twice() -> None:
    one, two = (evaluate(log(), setup(), FAST, seeds=(3,)) for _ in range(2))
    assert without_seconds(one) == without_seconds(two)


def test_several_processes_give_the_numbers_of_one(tmp_path: Path) -> None:
    alone = evaluate(log(), setup(), ("random", "pca-gp"), seeds=(0, 1))
    together = evaluate(
        log(), setup(), ("random", "pca-gp"), seeds=(0, 1), execution=Execution(processes=2, folder=tmp_path)
    )
    assert without_seconds(alone) == without_seconds(together)


def test_a_run_that_was_stopped_goes_on_and_gives_the_same_numbers(tmp_path: Path) -> None:
    """The first run is stopped after two of six jobs; the second finds these two and runs the other four."""

    class StoppedError(Exception):
        pass

    def stop(step: Step) -> None:
        if step.done == 2:
            raise StoppedError

    with pytest.raises(StoppedError):
        evaluate(log(), setup(), FAST, seeds=(0, 1), execution=Execution(folder=tmp_path, watch=stop))
    steps: list[Step] = []
    resumed = evaluate(log(), setup(), FAST, seeds=(0, 1), execution=Execution(folder=tmp_path, watch=steps.append))
    assert [step.what for step in steps] == ["reused", "reused", *["started", "finished"] * 4]
    assert [step.done for step in steps if step.what != "started"] == [1, 2, 3, 4, 5, 6]
    assert without_seconds(resumed) == without_seconds(evaluate(log(), setup(), FAST, seeds=(0, 1)))
    assert not list(tmp_path.glob(".*"))


def test_a_search_that_was_stopped_goes_on_where_it_was(tmp_path: Path) -> None:
    def stop(step: Step) -> None:
        if step.what == "finished":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate(log(), setup(), ("pca-gp",), grid="quick", execution=Execution(folder=tmp_path, watch=stop))
    steps: list[Step] = []
    resumed = evaluate(
        log(), setup(), ("pca-gp",), grid="quick", execution=Execution(folder=tmp_path, watch=steps.append)
    )
    assert [step.what for step in steps[:2]] == ["reused", "started"]
    assert resumed.tuning == evaluate(log(), setup(), ("pca-gp",), grid="quick").tuning


def test_a_damaged_result_is_run_again(tmp_path: Path) -> None:
    steps: list[Step] = []
    saving = Execution(folder=tmp_path, watch=steps.append)
    first = evaluate(log(), setup(), ("pop",), execution=saving)
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:100])
    assert without_seconds(evaluate(log(), setup(), ("pop",), execution=saving)) == without_seconds(first)
    assert [step.what for step in steps] == ["started", "finished"] * 2


def test_other_data_settings_or_seeds_are_other_jobs() -> None:
    job = Job("pca-gp", setup(), 0, (Play("pca-gp", {"dim": 4}),))
    others = [
        Job("pca-gp", setup(), 1, job.plays),
        Job("pca-gp", setup(rounds=11), 0, job.plays),
        Job("pca-gp", setup(), 0, (Play("pca-gp", {"dim": 5}),)),
        Job("pca-gp", setup(), 0, job.plays, users="validation"),
    ]
    assert len({job_key(each, "data") for each in [job, *others]} | {job_key(job, "other data")}) == 6


def test_a_job_is_another_one_with_another_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job("pca-gp", setup(), 0, (Play("pca-gp", {"dim": 4}),))
    monkeypatch.setattr(jobs, "code_version", jobs.code_version.__wrapped__)  # not the one that was remembered
    names = set()
    for backend in ("numpy", "native"):
        monkeypatch.setattr(jobs, "BACKEND", backend)
        names.add(job_key(job, "data"))
    assert len(names) == 2


def test_a_job_is_another_one_with_other_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job("pca-gp", setup(), 0, (Play("pca-gp", {"dim": 4}),))
    monkeypatch.setattr(jobs, "code_version", jobs.code_version.__wrapped__)
    names = {job_key(job, "data")}
    for package in ("numpy", "scipy", "torch", "implicit"):
        monkeypatch.setattr(jobs, "version", lambda name, other=package: "other" if name == other else "1")
        names.add(job_key(job, "data"))
    assert len(names) == 5


@pytest.mark.parametrize(
    "changed", ["online/loops.c", "online/loops.h", "online/deep/engine.py", "lab/baselines/new.py", "config.py"]
)
def test_other_sources_are_another_version_of_the_code(changed: str, tmp_path: Path) -> None:
    for name in ("online/loops.c", "online/loops.h", "online/deep/engine.py", "config.py", "service/app.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("as it was")
    before = jobs.hash_sources(tmp_path, "numpy")
    (tmp_path / "service/app.py").write_text("changes no number")
    (tmp_path / "online/notes.txt").write_text("neither does this")
    assert jobs.hash_sources(tmp_path, "numpy") == before
    (tmp_path / changed).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / changed).write_text("as it is now")
    assert jobs.hash_sources(tmp_path, "numpy") != before


def test_every_source_that_produces_numbers_exists_and_counts() -> None:
    """A folder that was renamed would silently leave the hash."""
    root = Path(igcf.__file__).parent
    assert [name for name in jobs.CODE if not (root / name).exists()] == []
    assert list((root / "online").rglob("*.c"))


def test_plays_of_one_fit_give_the_numbers_of_fits_of_their_own() -> None:
    plays = [Play(str(nu), {"dim": 6, "noise_var": 0.1, "nu": nu, "forgetting": 1.0}) for nu in (0.0, 0.5)]
    (shared,) = run_jobs(log(), [Job("pca-gp", setup(), 0, tuple(plays))])
    apart = [run_jobs(log(), [Job("pca-gp", setup(), 0, (play,))])[0][0] for play in plays]
    for one, other in zip(shared, apart, strict=True):
        np.testing.assert_array_equal(one.shown.rows, other.shown.rows)


@pytest.mark.parametrize("protocol", ["cold-start", "taste-drift", "top-k"])
def test_every_metric_can_be_recomputed_from_what_was_shown(protocol: str, tmp_path: Path) -> None:
    results = evaluate(log(), setup(protocol), FAST, seeds=(0, 1))
    write_results(results, log(), tmp_path)
    rows = json.loads((tmp_path / "results.json").read_text())["rows"]
    for ours, again in zip(rows, recompute(tmp_path), strict=True):
        for name, value in again.items():
            expected = value if isinstance(value, str) else pytest.approx(value, rel=1e-9)
            assert ours[name] == expected, (name, ours["method"])


def test_the_report_is_one_page_without_references_to_the_outside(tmp_path: Path) -> None:
    results = evaluate(log(), setup("top-k", slate=3, rounds=6), FAST, execution=Execution(command="igcf evaluate <x>"))
    write_results(results, log(), tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert page.index("<h1>") < page.index("<svg") < page.index("<table")  # conclusion, picture, tables
    assert page.count('class="chart wide"') == page.count('class="chart narrow"') == 3
    assert "uncertainty" not in page
    assert "src=" not in page
    assert 'href="http' not in page
    assert "igcf evaluate &lt;x&gt;" in page
    assert set(re.findall(r"var\((--\w+)\)", page)) == set(re.findall(r"(--\w+):", page))  # its own style, all of it
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "items.parquet", "report.html", "results.json", "results.md", "results.tex", "shown.parquet", "users.parquet",
    ]  # fmt: skip


def test_a_user_whom_several_seeds_met_is_one_user_in_the_plots() -> None:
    results = evaluate(log(), setup(split="time"), ("random",), seeds=(0, 1))
    one, two = (row.curves["precision"] for row in results.rows)
    means = [np.mean(each, axis=0) for each in by_user(results.rows, "precision").values()]
    np.testing.assert_allclose(means, (one + two) / 2)
    np.testing.assert_allclose(list(user_scores(results.rows, "precision", 5).values()), ((one + two) / 2)[:, 4])


def test_tables_mark_the_best_and_show_the_spread_of_seeds() -> None:
    table = results_tables(evaluate(log(), setup(), FAST, seeds=(0, 1)))[0]
    text = as_markdown(table)
    assert text.count("\n") == 2 + 2 + len(FAST)
    assert "**" in text.splitlines()[-1]  # pca-gp is the best at the end
    assert " ± " in text
    assert r"\begin{tabular}" in as_latex(table)
    assert r"$\pm$" in as_latex(table)


def test_our_models_are_compared_with_the_best_baseline() -> None:
    results = evaluate(log(), setup(), ("random", "pop", "pca-gp"))
    assert {(each.method, each.reference) for each in results.comparisons} == {("random", "pca-gp"), ("pop", "pca-gp")}
    assert all(each.difference < 0 and each.p_value >= each.p_uncorrected for each in results.comparisons)


def test_in_an_ablation_every_variant_is_compared_with_the_full_model_of_its_method() -> None:
    ablation = setup("ablation")
    (outcomes,) = run_jobs(log(), [Job("random", ablation, 0, (Play("random", {}),))])
    renamed = [
        replace(each, method=method, label=label)
        for method, label in (("a", "a"), ("a", "a - meta"), ("b", "b"), ("b", "b - meta"))
        for each in outcomes
    ]
    found = collect(ablation, renamed).comparisons
    assert {(each.method, each.reference) for each in found} == {("a - meta", "a"), ("b - meta", "b")}


def test_a_grid_shares_fits_among_online_settings() -> None:
    method = METHODS["pca-gp"]
    points = grid_points(method.settings(), method.grid)
    found = grid_jobs(method, setup(), 0, points)
    n_fits = len(method.grid["dim"])
    assert len(points) == n_fits * len(method.grid["noise_var"])
    assert len(found) == n_fits
    assert {job.users for job in found} == {"validation"}


@pytest.mark.parametrize("name", ["mf", "icf-ucb", "icf-ts", "pca-gp", "igcf-paper", "igcf-graph", "igcf"])
def test_where_tastes_drift_all_methods_search_the_same_forgetting_and_exploration(name: str) -> None:
    method = METHODS[name]
    assert {"forgetting"} <= method.online
    *drift, own = protocol_named("taste-drift").grids(method)
    forgetting, *exploration = drift
    assert forgetting == {"forgetting": (1.0, 0.995, 0.99, 0.98, 0.96, 0.94)}
    assert exploration == ([{"nu": (0.0, 0.1, 0.5)}] if "nu" in method.defaults else [])
    (elsewhere,) = protocol_named("cold-start").grids(method)
    assert own == {name: values for name, values in elsewhere.items() if name != "nu"}


def test_where_tastes_drift_the_other_settings_are_searched_with_the_best_forgetting() -> None:
    (found,) = evaluate(log(), setup("taste-drift"), ("pca-gp",), grid="quick").tuning
    names = ("dim", "noise_var", "nu", "forgetting")
    tried = {tuple(each["settings"][name] for name in names): each["score"] for each in found["tried"]}
    assert len(tried) == 6 + 2 + 3 * 7 - 1
    (dim, noise, nu, _) = (METHODS["pca-gp"].settings()[name] for name in names)
    forgetting = max((1.0, 0.995, 0.99, 0.98, 0.96, 0.94), key=lambda value: tried[dim, noise, nu, value])
    nu = max((0.0, 0.1, 0.5), key=lambda value: tried[dim, noise, value, forgetting])
    assert sum(point[2:] == (nu, forgetting) for point in tried) == 3 * 7


def test_a_value_that_was_found_elsewhere_is_tried_with_all_others() -> None:
    method = METHODS["igcf-paper"]
    points = grid_points(method.settings({"gamma": 100.0}), method.grid)
    assert len({(point["nu"], point["noise_var"]) for point in points if point["gamma"] == 100.0}) == 3 * 3


def test_the_papers_grid_is_searched_when_asked_for() -> None:
    method = METHODS["igcf-paper"]
    (grid,) = protocol_named("cold-start").grids(method, paper=True)
    points = grid_points(method.settings(), grid)
    assert len(points) == 4 * 3 * 6 * 5 * 2  # sizes, gammas, rates, nus, and both rules of the paper
    assert len(grid_jobs(method, setup(), 0, points)) == 4 * 6


def test_tuning_chooses_the_best_point_on_validation_users(tmp_path: Path) -> None:
    results = evaluate(
        log(), setup(), ("pop", "pca-gp"), grid="quick", execution=Execution(command="igcf evaluate --tune")
    )
    pop, pca = results.tuning
    assert pop["tried"] == []
    assert pca["score"] == max(point["score"] for point in pca["tried"])
    chosen = [row.outcome.settings for row in results.rows if row.method == "pca-gp"]
    assert chosen == [pca["settings"]]
    write_results(results, log(), tmp_path)
    document = json.loads((tmp_path / "settings.json").read_text())
    assert document["cold-start"]["pca-gp"]["settings"] == pca["settings"]
    assert document["cold-start"]["pca-gp"]["command"] == "igcf evaluate --tune"


def test_tuning_without_validation_users_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"no validation users are left beside .* test users; pass a smaller --users"):
        evaluate(log(), replace(setup(), n_users=10_000, min_reactions=1), ("pca-gp",), grid="quick")


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ConfigError, match="name each method once, got pop, pop"):
        evaluate(log(), setup(), ("pop", "pop"))
    with pytest.raises(ConfigError, match="settings are given for icf-ucb, which is not among the methods"):
        evaluate(log(), setup(), ("pop",), settings={"icf-ucb": {"dim": 3}})
    with pytest.raises(ConfigError, match="pop has no ablations"):
        evaluate(log(), setup("ablation"), ("pop",))


def test_a_log_without_a_name_is_split_by_what_it_has() -> None:
    data: Interactions = Interactions.from_arrays(
        users=np.repeat(np.arange(40), 10), items=np.tile(np.arange(20), 20), values=np.tile([1.0, 5.0], 200)
    )
    results = evaluate(data, setup_without_name(data), ("pop", "random"))
    assert results.n_users == 10  # the other ten new users are for validation
    assert results.setup.satisfied == 5.0


def setup_without_name(data: Interactions) -> Any:
    from igcf.lab.evaluate import setup_for

    return setup_for(data, "cold-start", rounds=5)


def test_experiments_with_one_split_share_a_fit_and_show_what_they_show_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    setups = (setup(rounds=6), setup("top-k", slate=3, rounds=2), setup("ablation", rounds=6))
    work = [
        Job(name, each, 0, (Play(name, METHODS[name].defaults),)) for name in ("icf-ucb", "nicf") for each in setups
    ]
    assert [sharing_key(job, "log") == sharing_key(work[0], "log") for job in work] == [True] * 3 + [False] * 3
    assert sharing_key(work[3], "log") != sharing_key(
        work[4], "log"
    )  # its fit chooses in sessions with the same slates
    assert sharing_key(replace(work[0], seed=1), "log") != sharing_key(work[0], "log")
    apart = [run_jobs(log(), [job])[0][0] for job in work[:3]]
    method, fits = METHODS["icf-ucb"], list[Task]()

    def counted(task: Task, *given: Any) -> Any:
        fits.append(task)
        return method.fit(task, *given)

    monkeypatch.setitem(METHODS, "icf-ucb", replace(method, fit=counted))
    together = run_jobs(log(), work[:3])
    assert len(fits) == 1
    for own, others in zip(apart, together, strict=True):
        np.testing.assert_array_equal(own.shown.rows, others[0].shown.rows)
