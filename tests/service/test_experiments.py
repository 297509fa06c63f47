"""Experiments in the service: arms of users, what they are served, what is decided, and the report."""

import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from fastapi.testclient import TestClient

from igcf.cli.main import cli
from igcf.errors import ConfigError, IgcfError
from igcf.model.files import model_id
from igcf.online import Recommender
from igcf.service.context import ServiceContext
from igcf.service.errors import ExperimentConflictError
from igcf.service.experiment_report import report_experiment
from igcf.service.http.application import create_app
from igcf.service.models.experiments import ExperimentReport
from igcf.service.serving.experiment_changes import (
    read_definition,
    start_experiment,
    stop_experiment,
)
from igcf.service.serving.model_swap import follow, load_and_announce
from tests.service.conftest import OpenService, small_model
from tests.toys import attributed, contextual

USERS = [f"user-{n}" for n in range(60)]


def arms_of(model_folder: Path, second_folder: Path, share: float = 0.5, more: str = "") -> str:
    return (
        f"[arms.old]\nshare = {1 - share}\nmodel = '{model_folder}'\n"
        f"[arms.new]\nshare = {share}\nmodel = '{second_folder}'\npolicy = 'greedy'\nexplore = 0.2\n{more}"
    )


def written(file: Path, arms: str, name: str = "newer", more: str = "") -> Path:
    file.write_text(f"name = '{name}'\n{more}\n{arms}", encoding="utf-8")
    return file


@pytest.fixture
def file(tmp_path: Path, model_folder: Path, second_folder: Path) -> Path:
    return written(tmp_path / "experiment.toml", arms_of(model_folder, second_folder))


def started(context: ServiceContext, file: Path) -> TestClient:
    start_experiment(context.store.database, read_definition(file))
    context.experiments.follow()
    return TestClient(create_app(context))


def answer(client: TestClient, user: str, k: int = 2) -> dict[str, Any]:
    found: dict[str, Any] = client.post(f"/v1/users/{user}/recommendations", json={"k": k}).json()
    return found


def arms(client: TestClient) -> dict[str, str]:
    return {user: answer(client, user)["arm"] for user in USERS}


def like(client: TestClient, user: str, item: str) -> None:
    client.post(f"/v1/users/{user}/feedback", json={"item": item, "value": 5.0}).raise_for_status()


def test_users_get_the_model_of_their_arm_the_same_on_all_servers_and_after_a_restart(
    open_service: OpenService, file: Path, model_folder: Path, second_folder: Path
) -> None:
    one, two = open_service(), open_service()
    client = started(one, file)
    two.experiments.follow()
    found = {user: answer(client, user) for user in USERS}
    seen = {(each["experiment"], each["arm"], each["model"]) for each in found.values()}
    assert seen == {("newer", "old", model_id(model_folder)), ("newer", "new", model_id(second_folder))}
    for each in found.values():
        assert each["policy"] == {"name": "ucb", "nu": 0.5} or each["policy"] == {"name": "greedy", "explore": 0.2}
        assert (each["policy"]["name"] == "greedy") is (each["arm"] == "new")
    assert 15 <= Counter(each["arm"] for each in found.values())["new"] <= 45
    again = open_service()
    again.experiments.follow()
    for context in (two, again):
        assert arms(TestClient(create_app(context))) == {user: each["arm"] for user, each in found.items()}


def test_reactions_are_learned_by_the_model_of_the_arm_and_kept_through_swap_and_end(
    open_service: OpenService, file: Path, second_folder: Path
) -> None:
    context = open_service()
    client = started(context, file)
    ids = {user: answer(client, user)["model"] for user in USERS}
    user = next(user for user, arm in arms(client).items() if arm == "old")
    like(client, user, "item-3")
    state = client.get(f"/v1/users/{user}").json()
    assert (state["model"], [each["item"] for each in state["history"]]) == (ids[user], ["item-3"])
    load_and_announce(context, str(second_folder))  # of no effect on arms
    assert {user: answer(client, user)["model"] for user in USERS} == ids
    like(client, user, "item-4")
    client.post("/v1/experiments", json={"action": "stop"}).raise_for_status()
    after = answer(client, user)
    assert (after["model"], "arm" in after) == (model_id(second_folder), False)
    assert [each["item"] for each in client.get(f"/v1/users/{user}").json()["history"]] == ["item-3", "item-4"]


def test_an_item_that_is_retired_leaves_the_answers_of_every_arm(open_service: OpenService, file: Path) -> None:
    context = open_service()
    client = started(context, file)
    best = {each["item"] for user in USERS[:10] for each in answer(client, user)["items"]}
    for item in best:
        client.delete(f"/v1/items/{item}").raise_for_status()
    for user in USERS:
        assert not best & {each["item"] for each in answer(client, user)["items"]}
    client.post("/v1/experiments", json={"action": "stop"}).raise_for_status()
    assert not best & {each["item"] for each in answer(client, USERS[0])["items"]}


def test_arms_of_one_model_may_differ_in_policy_alone(
    open_service: OpenService, tmp_path: Path, model_folder: Path
) -> None:
    context = open_service()
    client = started(context, written(tmp_path / "e.toml", arms_of(model_folder, model_folder)))
    found = {(each["arm"], each["policy"]["name"]) for each in (answer(client, user) for user in USERS)}
    assert found == {("old", "ucb"), ("new", "greedy")}
    assert context.experiments.running is not None
    assert len({id(arm.current) for arm in context.experiments.running.arms.values()}) == 1


def test_users_of_an_arm_that_does_not_shrink_stay_in_it_while_shares_change(
    open_service: OpenService, tmp_path: Path, model_folder: Path, second_folder: Path
) -> None:
    client = started(open_service(), written(tmp_path / "e.toml", arms_of(model_folder, second_folder, 0.1)))
    before = arms(client)
    shares = {"action": "shares", "shares": {"old": 0.5, "new": 0.5}}
    client.post("/v1/experiments", json=shares).raise_for_status()
    after = arms(client)
    assert Counter(after.values())["new"] > Counter(before.values())["new"]
    assert all(after[user] == "new" for user in USERS if before[user] == "new")
    listed = client.get("/v1/experiments").json()["experiments"]
    assert [(each["state"], [arm["share"] for arm in each["arms"]]) for each in listed] == [("running", [0.5, 0.5])]


def test_an_experiment_runs_from_its_start_to_its_end(
    open_service: OpenService, tmp_path: Path, model_folder: Path, second_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both, now = arms_of(model_folder, second_folder), time.time()
    file = written(tmp_path / "e.toml", both, more=f"start = {now + 100}\nend = {now + 200}")
    context = open_service()
    client = started(context, file)

    def arm_at(moment: float) -> bool:
        with monkeypatch.context() as patch:
            patch.setattr("igcf.service.serving.experiments.time.time", lambda: moment)
            return "arm" in answer(client, "ann")

    assert [arm_at(now + seconds) for seconds in (0, 101, 199, 201)] == [False, True, True, False]
    assert client.get("/v1/experiments").json()["experiments"][0]["state"] == "planned"


def test_promoting_an_arm_serves_its_model_to_everybody_and_ends_the_experiment(
    open_service: OpenService, store_url: str, file: Path, second_folder: Path
) -> None:
    context = open_service()
    client = started(context, file)
    assert run("promote", "new", store=store_url).exit_code == 0
    follow(context)
    context.experiments.follow()
    assert {answer(client, user)["model"] for user in USERS} == {model_id(second_folder)}
    assert client.get("/v1/experiments").json()["experiments"][0]["state"] == "ended"
    with pytest.raises(ExperimentConflictError, match="has ended"):
        start_experiment(context.store.database, read_definition(file))


def test_the_report_compares_users_and_leaves_out_those_who_changed_arms(
    open_service: OpenService, tmp_path: Path, model_folder: Path, second_folder: Path
) -> None:
    context = open_service()
    file = written(tmp_path / "e.toml", arms_of(model_folder, second_folder, 0.4), more="users = 150")
    client = started(context, file)
    for number in range(150):
        user = f"user-{number}"
        found = answer(client, user)
        if found["arm"] == "new" or number % 5 == 0:
            like(client, user, found["items"][0]["item"])
        client.post(f"/v1/users/{user}/feedback", json={"item": "item-7", "value": 1.0})  # was shown to few
    context.audit.flush()
    report = report_experiment(context.store, columns=["value"])
    rows = {(each.metric, each.arm): each for each in report.metrics}
    success = rows["successes per answer", "new"]
    assert (success.verdict, success.mean) == ("better", 1.0)
    assert success.control < 0.4
    assert rows["value per user", "new"].verdict == "better"
    assert report.is_assignment_sound
    assert (sum(arm.users for arm in report.arms), report.left_out) == (150, 0)
    moved = {"action": "shares", "shares": {"old": 0.2, "new": 0.8}}
    client.post("/v1/experiments", json=moved).raise_for_status()
    report = ExperimentReport(**client.get("/v1/experiments/newer").json())
    assert report.left_out > 0
    assert [arm.share for arm in report.arms] == pytest.approx([1 / 3, 2 / 3])
    assert sum(arm.users for arm in report.arms) == 150 - report.left_out


def run(*arguments: str, store: str) -> Result:
    return CliRunner().invoke(cli, ["experiment", *arguments, "--store", store])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("share = 0.5\nmodel", "share = 0.4\nmodel", "the shares of the arms add up to 0.8; expected 1"),
        ("model = '{second}'\n", "", "arm 'new' has no model; name the folder of one"),
        ("model = '{second}'", "model = 'gone'", "arm 'new': "),
        ("'greedy'", "'gredy'", "arm 'new': policy 'gredy' is not known"),
        ("explore = 0.2", "explore = 2", "arms.new.explore"),
        ("explore = 0.2", "rules = {filters = 1}", "arm 'new': "),
        ("name = 'newer'", "name = 'newer'\nend = 2020-01-01T00:00:00Z", "has ended; set another end"),
        ("[arms.old]", "[arms.old", "cannot read the experiment of"),
        ("[arms.old]", "[arm.old]", "arms must have at least 2 items"),
    ],
)
def test_a_bad_file_is_refused_in_one_sentence_and_nothing_is_started(
    open_service: OpenService, store_url: str, file: Path, second_folder: Path, old: str, new: str, message: str
) -> None:
    context = open_service()
    text = file.read_text(encoding="utf-8")
    changed = text.replace(old.format(second=second_folder), new)
    assert changed != text
    file.write_text(changed, encoding="utf-8")
    result = run("start", str(file), store=store_url)
    assert (result.exit_code, len(result.stderr.strip().splitlines())) == (2, 1)
    assert message in result.stderr
    assert TestClient(create_app(context)).get("/v1/experiments").json() == {"experiments": []}


def test_a_file_that_changed_while_running_is_refused_and_the_same_one_is_started_once(
    open_service: OpenService, file: Path
) -> None:
    context = open_service()
    started(context, file)
    start_experiment(context.store.database, read_definition(file))
    text = file.read_text(encoding="utf-8")
    for old, new, message in (
        ("explore = 0.2", "explore = 0.3", r"'newer' is running with another arms\.new\.explore; stop it first"),
        ("share = 0.5", "share = 0.50", None),
        ("'newer'", "'other'", "'newer' is running; stop it first"),
    ):
        file.write_text(text.replace(old, new), encoding="utf-8")
        if message is None:
            start_experiment(context.store.database, read_definition(file))
        else:
            with pytest.raises(ExperimentConflictError, match=message):
                start_experiment(context.store.database, read_definition(file))
    (state,) = TestClient(create_app(context)).get("/v1/experiments").json()["experiments"]
    assert [arm["share"] for arm in state["arms"]] == [0.5, 0.5]


def test_what_cannot_be_changed_is_refused(open_service: OpenService, file: Path, tmp_path: Path) -> None:
    context = open_service()
    client = TestClient(create_app(context))
    for body in ({"action": "stop"}, {"action": "shares", "shares": {"a": 1}}, {"action": "promote", "arm": "a"}):
        assert client.post("/v1/experiments", json=body).status_code == 409
    assert client.post("/v1/experiments", json={"action": "start"}).status_code == 422
    outside = {"name": "x", "arms": {name: {"share": 0.5, "model": str(tmp_path)} for name in "ab"}}
    assert client.post("/v1/experiments", json={"action": "start", "experiment": outside}).status_code == 422
    started(context, file)
    assert client.post("/v1/experiments", json={"action": "shares", "shares": {"new": 1}}).status_code == 422
    assert client.post("/v1/experiments", json={"action": "promote", "arm": "a"}).status_code == 422
    assert client.get("/v1/experiments/other").status_code == 404


def test_a_request_names_what_only_another_arm_knows(
    open_service: OpenService, tmp_path: Path, model_folder: Path
) -> None:
    """Attributes, a context and an item that only the new model knows do not turn users of the old one away."""
    model = contextual(attributed(small_model(180)))
    ids = ["novel", *model.item_ids[1:]]
    model.changed(item_ids=ids).save(tmp_path / "knows-more")
    context = open_service()
    client = started(context, written(tmp_path / "e.toml", arms_of(model_folder, tmp_path / "knows-more")))
    by_arm = {arm: user for user, arm in arms(client).items()}
    for arm, user in by_arm.items():
        url, said = f"/v1/users/{user}", {"device": "phone"}
        client.put(f"{url}/attributes", json={"attributes": {"gender": "f"}}).raise_for_status()
        assert client.get(url).json()["attributes"] == {"gender": "f"}, "kept for the day on which the user moves"
        ask = {"k": 1, "context": said, "attributes": {"income": 90}, "candidates": ["novel", "item-7"]}
        found = client.post(f"{url}/recommendations", json=ask).json()["items"]
        assert arm == "new" or found[0]["item"] == "item-7"
        for item in ("novel", "item-9"):
            told = {"item": item, "value": 5.0, "context": said}
            client.post(f"{url}/feedback", json=told).raise_for_status()
        assert client.post(f"{url}/recommendations", json={"context": {"mood": "x"}}).status_code == 422
        assert client.post(f"{url}/feedback", json={"item": "nowhere", "value": 5.0}).status_code == 404
    client.post("/v1/experiments", json={"action": "shares", "shares": {"old": 0, "new": 1}}).raise_for_status()
    reactions = [("novel", 5.0), ("item-9", 5.0)]
    recommender = Recommender(model.changed(item_ids=ids))
    contexts = {item: {"device": "phone"} for item, _ in reactions}
    expected = recommender.session(reactions, attributes={"gender": "f"}, contexts=contexts).belief.mean
    for user in by_arm.values():
        found = client.get(f"/v1/users/{user}").json()
        assert found["belief"]["mean"] == pytest.approx(expected, abs=1e-9)


def test_a_server_that_cannot_load_an_arm_is_not_ready_and_says_so(
    open_service: OpenService, tmp_path: Path, model_folder: Path, second_folder: Path
) -> None:
    import shutil

    own = tmp_path / "own"
    shutil.copytree(second_folder, own)
    context = open_service()
    start_experiment(context.store.database, read_definition(written(tmp_path / "e.toml", arms_of(model_folder, own))))
    shutil.rmtree(own)
    for _ in range(3):
        with pytest.raises(IgcfError):
            context.experiments.follow()
    assert len(context.items._joined) == 1, "the arms that could be loaded are not kept with every try"
    client = TestClient(create_app(context))
    assert "cannot be followed here" in client.get("/readyz").json()["problems"][0]
    stop_experiment(context.store.database)
    context.experiments.follow()
    assert client.get("/readyz").json().get("problems", []) == []
    assert "arm" not in answer(client, "ann")


def test_a_number_that_no_item_has_is_refused(open_service: OpenService, file: Path) -> None:
    context = open_service()
    started(context, file)
    with pytest.raises(ConfigError, match="no item has the number 'margin'"):
        report_experiment(context.store, columns=["margin"])
