"""`igcf ope`: candidates judged by what a store or a file logged."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner, Result

from igcf.cli.main import cli
from igcf.errors import ConfigError
from igcf.experiments.off_policy import evaluate
from igcf.online import Greedy, Thompson, Ucb
from igcf.online.exploration import AMONG
from igcf.service.context import ServiceContext
from igcf.service.models.requests import Feedback, RecommendationRequest
from igcf.service.off_policy import candidate_on_audit
from igcf.service.serving.recommending import recommend
from tests.service.conftest import OpenService, react, small_model

SHARE = 0.4


def served(context: ServiceContext, *, users: int = 8, rounds: int = 12, k: int = 2, **ask: Any) -> ServiceContext:
    """Let users meet a service that explores: they like even items, and skip one now and then."""
    for number in range(users * rounds):
        user = f"user-{number % users}"
        answer = recommend(context, user, RecommendationRequest(k=k, policy="greedy", **ask))
        item = answer.items[number % k].item
        said = {"kind": "skip"} if number % 5 == 4 else {"value": 5.0 if int(item.split("-")[1]) % 2 == 0 else 1.0}
        react(context, user, Feedback(item=item, recommendation_id=answer.recommendation_id, **said))
    context.audit.flush()
    return context


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["ope", *map(str, arguments)])


def test_a_candidate_is_asked_with_what_the_user_had_told_by_then(open_service: OpenService) -> None:
    """The candidate is what was served: it shows exactly the items that were not drawn but the best left."""
    found = candidate_on_audit(served(open_service(explore=SHARE)), Greedy())
    log = found.log.slates()
    assert log.rewards.shape == (96, 2)
    best = SHARE / AMONG + 1 - SHARE
    np.testing.assert_array_equal(log.candidate, np.isclose(log.propensities, best, atol=1e-5))
    assert 0.1 < log.rewards.mean() < 0.5
    result = evaluate(log)
    assert abs(result.diagnostics[0].missing) < 5 * result.diagnostics[0].missing_error + 0.05


def test_answers_that_their_request_shaped_and_those_without_propensities_are_left_out(
    open_service: OpenService,
) -> None:
    context = served(open_service(explore=SHARE), users=3, rounds=4)
    served(context, users=2, rounds=2, exclude=["item-1"])
    recommend(context, "ann", RecommendationRequest(k=2, policy="thompson", rules={"diversity": 0.5}))
    context.audit.flush()
    found = candidate_on_audit(context, Ucb(0.5))
    assert (len(found.log), found.n_shaped, found.n_unknown) == (12, 5, 0)
    with pytest.raises(ConfigError, match="draws its answers"):
        candidate_on_audit(context, Thompson())


def test_the_command_judges_a_model_by_a_store_and_exports_the_log(
    open_service: OpenService, store_url: str, model_folder: Path, second_folder: Path, tmp_path: Path
) -> None:
    served(open_service(explore=SHARE), k=1, rounds=20)
    out = tmp_path / "log.npz"
    told = run("--store", store_url, "--model", model_folder, "--policy", "greedy", "--export", out, "--json")
    assert told.exit_code == 0, told.output
    found = json.loads(told.stdout)
    assert [each["name"] for each in found["estimates"]] == ["ips, clipped", "self-normalised ips", "doubly robust"]
    assert found["answers"] == 160
    feedback = dict(np.load(out, allow_pickle=False))
    assert (feedback["n_rounds"], feedback["n_actions"]) == (160, 200)
    assert feedback["context"].shape == (160, 8)
    assert feedback["action_context"].shape == (200, 8)
    assert {len(feedback[name]) for name in ("action", "position", "reward", "pscore", "pscore_cascade")} == {160}
    assert feedback["reward"].mean() == pytest.approx(found["logged"]["value"])
    refused = run("--store", store_url, "--model", second_folder)
    assert refused.exit_code == 0, refused.output
    assert "no conclusion: " in refused.output


def write_log(path: Path, n: int = 3_000, *, seed: int = 0) -> Path:
    """Answers of one item each, out of ten that are drawn with equal probability."""
    rng = np.random.default_rng(seed)
    rows = [
        {"user": f"u{number}", "item": f"item-{item}", "value": 5.0 if item % 2 else 1.0, "propensity": 0.1}
        for number, item in enumerate(rng.integers(10, size=n))
    ]
    pl.DataFrame(rows).write_csv(path)
    return path


def test_a_log_file_with_propensities_is_enough(tmp_path: Path) -> None:
    small_model(10, 3).save(tmp_path / "model")
    found = run("--log", write_log(tmp_path / "log.csv"), "--model", tmp_path / "model", "--json")
    assert found.exit_code == 0, found.output
    best = small_model(10, 3).expected(small_model(10, 3).prior_mean).argmax()
    result = json.loads(found.stdout)
    assert result["refusal"] is None
    for each in result["estimates"]:
        assert each["value"] == pytest.approx(float(best % 2), abs=0.2)
    assert result["verdict"] == ("better" if best % 2 else "worse")
    text = run("--log", tmp_path / "log.csv", "--model", tmp_path / "model").output
    assert "effective size" in text


def test_slots_of_one_answer_are_rows_with_its_name(tmp_path: Path) -> None:
    small_model(10, 3).save(tmp_path / "model")
    rng, rows = np.random.default_rng(0), []
    for number in range(3_000):
        for slot, item in enumerate(rng.permutation(10)[:2]):
            odds = {"propensity": 1 / (10 - slot), "slot_propensity": 0.1}
            rows.append({"answer": number, "user": f"u{number}", "item": f"item-{item}", "value": 5.0, **odds})
    pl.DataFrame(rows).write_parquet(tmp_path / "log.parquet")
    found = run("--log", tmp_path / "log.parquet", "--model", tmp_path / "model", "--json")
    result = json.loads(found.stdout)
    assert result["logged"]["value"] == 2.0
    assert [each["kind"] for each in result["diagnostics"]] == ["item-position", "cascade"]
    assert result["estimates"][2]["value"] == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.drop("propensity"), "has no column 'propensity'"),
        (lambda frame: frame.with_columns(pl.lit(0.0).alias("propensity")), "row 1 has the propensity 0.0; expected"),
        (lambda frame: frame.with_columns(slot_propensity=pl.lit(0.0)), "row 1 has the slot_propensity 0.0; expected"),
        (lambda frame: frame.with_columns(slot_propensity=pl.lit("x")), "row 1 has the slot_propensity 'x'; expected"),
        (lambda frame: frame.with_columns(item=pl.lit(None)), "row 1 has no user or no item"),
        (lambda frame: frame.with_columns(answer=pl.lit(1)), "answer 1 has rows of several users"),
        (lambda frame: frame.with_columns(pl.lit(9.0).alias("value")), "row 1: "),
    ],
)
def test_a_bad_log_is_refused_in_one_sentence(tmp_path: Path, change: Any, message: str) -> None:
    small_model(10, 3).save(tmp_path / "model")
    change(pl.read_csv(write_log(tmp_path / "log.csv", 5))).write_csv(tmp_path / "bad.csv")
    found = run("--log", tmp_path / "bad.csv", "--model", tmp_path / "model")
    assert found.exit_code == 2
    assert message in found.output
    assert found.output.count("\n") == 1


def test_one_log_is_named(tmp_path: Path) -> None:
    assert "name one log: --store or --log" in run("--model", tmp_path).output
    both = run("--model", tmp_path, "--store", "a.db", "--log", tmp_path / "log.csv")
    assert "name one log" in both.output
