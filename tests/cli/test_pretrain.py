import json
from pathlib import Path

import pytest

from igcf.config import GraphConfig, parse_settings
from igcf.data import synthetic_catalogue
from igcf.errors import ModelError
from igcf.model import Model
from tests.cli.test_main import assert_one_line_error, run


@pytest.fixture
def log(tmp_path: Path) -> Path:
    data = synthetic_catalogue(n_users=80, n_items=40)
    lines = [f"u{u},i{i},{v:g}" for u, i, v in zip(data.user_idx, data.item_idx, data.values, strict=True)]
    path = tmp_path / "log.csv"
    path.write_text("\n".join(["who,what,stars", *lines]))
    return path


@pytest.mark.slow
def test_a_log_becomes_a_model_folder(log: Path, tmp_path: Path) -> None:
    columns = ("--user", "who", "--item", "what", "--value", "stars")
    quick = ("--method", "graph", "--dim", "4", "--epochs", "6", "--seed", "1", "--set", "validate_every=3")
    result = run("pretrain", "--dataset", str(log), *columns, *quick, "--out", str(tmp_path / "model"), "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["settings"]["dim"] == 4
    assert Model.load(tmp_path / "model").n_items == 40


@pytest.mark.slow
@pytest.mark.parametrize(("feedback", "reward"), [("continuous", "raw"), ("binary", "satisfied")])
def test_the_paper_s_model_is_one_option(tmp_path: Path, feedback: str, reward: str) -> None:
    changes = ("--feedback", feedback, "--dim", "4", "--epochs", "2")
    result = run(
        "pretrain", "--dataset", "synthetic", "--preset", "paper", *changes, "--out", str(tmp_path / "m"), "--json"
    )
    assert result.exit_code == 0, result.stderr
    settings = json.loads(result.stdout)["settings"]
    expected = GraphConfig.paper(feedback, dim=4, epochs=2).as_dict()  # type: ignore[arg-type]
    assert settings == expected | {"satisfied": settings["satisfied"]}
    assert settings["reward"] == reward
    picks = run("recommend", str(tmp_path / "m"), "--policy", "info-ucb", "--json")
    assert len(json.loads(picks.stdout)["items"]) == 5


def test_an_existing_folder_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    result = run("pretrain", "--dataset", "nothing.csv", "--out", str(tmp_path))
    assert_one_line_error(result, "already exists")


def test_bad_logs_and_settings_are_refused_and_nothing_is_written(log: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "model")
    empty, text = tmp_path / "empty.csv", tmp_path / "text.csv"
    empty.write_text("")
    text.write_text("user,item,value\na,b,good\n")
    infinite = tmp_path / "inf.csv"
    infinite.write_text("user,item,value\na,b,3\na,c,inf\n")
    cases = [
        (("--dataset", str(log), "--user", "user"), ("'user'", "'who', 'what', 'stars'", "with --user, --item")),
        (("--dataset", str(log), "--satisfied", "9"), ("at least 9", "between 1 and 5", "pass another --satisfied")),
        (("--dataset", str(log), "--kinds", "like"), ("--kinds like", "view=1,like=4")),
        (("--dataset", str(empty)), ("empty",)),
        (("--dataset", str(text)), ("good",)),
        (("--dataset", str(infinite)), ("inf",)),
        (("--dataset", "no-such-set"), ("no-such-set",)),
        (("--dataset", "synthetic", "--method", "graph", "--dim", "0"), ("dim must be at least 1, got 0",)),
        (
            ("--dataset", "synthetic", "--preset", "paper", "--method", "experts"),
            ("method=experts does not fit config",),
        ),
        (("--dataset", "synthetic", "--set", "colour=red"), ("colour=red", "NAME=VALUE")),
        ((), ("--dataset or --from-store",)),
    ]
    for arguments, words in cases:
        assert_one_line_error(run("pretrain", *arguments, "--out", out), *words)
    assert not Path(out).exists()


def test_a_misspelt_folder_to_go_on_from_is_refused_before_anything_is_read_or_written(tmp_path: Path) -> None:
    out, wrong = str(tmp_path / "model"), tmp_path / "sttae"
    for options in ((), ("--method", "graph"), ("--shards", "2")):
        given = ("--dataset", "nothing.csv", "--out", out, "--resume", "--checkpoint", str(wrong), *options)
        assert_one_line_error(run("pretrain", *given), f"no checkpoint folder {wrong}", "train without resume")
    assert_one_line_error(run("pretrain", "--dataset", "nothing.csv", "--out", out, "--resume"), "needs the checkpoint")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("options", [("--shards", "2"), ("--checkpoint", "state"), ("--checkpoint", "other")])
def test_what_has_nothing_to_go_on_from_says_that_it_begins_anew(
    options: tuple[str, ...], log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, file in (("state", "nothing.txt"), ("other", "final.safetensors")):  # of the other method
        Path(name).mkdir()
        (Path(name) / file).touch()
    asked: list[bool] = []

    def learn(*_: object, resume: bool, **__: object) -> None:
        asked.append(resume)
        raise ModelError("far enough")

    monkeypatch.setattr("igcf.training.pretrain", learn)
    columns = ("--user", "who", "--item", "what", "--value", "stars")
    result = run("pretrain", "--dataset", str(log), *columns, "--out", "model", "--resume", *options)
    place = options[1] if options[0] == "--checkpoint" else "model.state"
    assert f"--resume: nothing to resume in {place}; training begins anew\n" in result.stderr
    assert asked == [False]


def test_settings_are_typed_by_their_fields() -> None:
    pairs = (
        "layers=3",
        "layer-weights=0.1,0.2,0.3,0.4",
        "gamma=0.5",
        "tune=false",
        "batch_size=none",
        "edges=satisfied",
    )
    assert parse_settings(pairs) == {
        "layers": 3,
        "layer_weights": (0.1, 0.2, 0.3, 0.4),
        "gamma": 0.5,
        "tune": False,
        "batch_size": None,
        "edges": "satisfied",
    }


@pytest.mark.parametrize("row", ["a,,3,50", "a,3,lots,50"])
def test_a_log_that_cannot_be_used_names_the_command_that_lists_every_defect(tmp_path: Path, row: str) -> None:
    log = tmp_path / "log.csv"
    log.write_text(f"user,item,value,time\na,1,4,10\nb,2,3,20\n{row}\n")
    result = run("pretrain", "--dataset", str(log), "--out", str(tmp_path / "model"))
    assert_one_line_error(result, "row 3", "`igcf data validate` with the same options lists every defect")


@pytest.mark.slow
def test_a_command_to_copy_is_never_broken_into_two_lines(tmp_path: Path) -> None:
    out = tmp_path / ("long" * 20) / "model"
    out.parent.mkdir()
    log = tmp_path / "log.csv"
    log.write_text("user,item,value\n" + "".join(f"u{n % 40},i{n * 7 % 23},{n % 5 + 1}\n" for n in range(600)))
    result = run("pretrain", "--dataset", str(log), "--out", str(out))
    assert f"try it with: igcf recommend {out}\n" in result.stderr


@pytest.mark.slow
def test_a_table_of_users_becomes_a_part_of_the_model_and_its_worth_is_said(tmp_path: Path) -> None:
    data = synthetic_catalogue(n_users=120, n_items=40)
    rows = zip(data.user_idx, data.item_idx, data.values, strict=True)
    (tmp_path / "log.csv").write_text("\n".join(["user,item,value", *(f"u{u},i{i},{v:g}" for u, i, v in rows)]))
    people = ["user,country,age", *(f"u{n},{('NZ', 'DE')[n % 2]},{20 + n % 40}" for n in range(120))]
    (tmp_path / "people.csv").write_text("\n".join(people))
    where = ("pretrain", "--dataset", str(tmp_path / "log.csv"), "--users", str(tmp_path / "people.csv"))
    result = run(*where, "--without", "age", "--out", str(tmp_path / "m"), "--json")
    assert result.exit_code == 0, result.stderr
    assert list(json.loads(result.stdout)["attributes"]) == ["country"]
    assert "users: id = user; categories: country; not used: age" in result.stderr
    prior = Model.load(tmp_path / "m").attribute_prior
    assert prior is not None
    assert set(prior.encoder.names) | set(prior.encoder.unused) == {"country"}
    assert_one_line_error(run(*where, "--without", "height", "--out", str(tmp_path / "n")), "no column 'height'")
    assert_one_line_error(run(*where, "--context", "season", "--out", str(tmp_path / "n")), "no column 'season'")
