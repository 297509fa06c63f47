import json
from importlib.resources import files

import pytest

from igcf.data import synthetic_catalogue
from igcf.errors import ConfigError
from igcf.lab.baselines import METHODS
from igcf.lab.evaluate import setup_for
from igcf.lab.evaluate.protocols import protocol_named
from igcf.lab.evaluate.tuned_settings import parse_changes, tuned_settings

FOUND_BY = ("igcf evaluate ", "python tools/paper_search.py ", "a script, see research/log.md, ")


def test_settings_kept_as_data_belong_to_known_methods_and_name_their_command() -> None:
    for file in files("igcf.lab.evaluate").joinpath("settings").iterdir():
        for methods in json.loads(file.read_text()).values():
            for name, entry in methods.items():
                METHODS[name.partition(" ")[0]].settings(entry["settings"])
                assert entry["command"].startswith(FOUND_BY)


def test_a_log_that_nobody_tuned_takes_the_defaults() -> None:
    assert tuned_settings("my-shop", protocol_named("top-k"), "icf-ucb") == METHODS["icf-ucb"].settings()


def test_a_protocol_adds_its_own_settings_to_those_of_cold_start(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {
        "cold-start": {"pca-gp": {"settings": {"dim": 12, "noise_var": 0.2}}},
        "taste-drift": {"pca-gp": {"settings": {"forgetting": 0.98}}},
    }
    monkeypatch.setattr("igcf.lab.evaluate.tuned_settings._read", lambda dataset: known)
    expected = {**METHODS["pca-gp"].settings(), "dim": 12, "noise_var": 0.2}
    assert tuned_settings("shop", protocol_named("top-k"), "pca-gp") == expected
    assert tuned_settings("shop", protocol_named("taste-drift"), "pca-gp") == {**expected, "forgetting": 0.98}


def test_a_row_of_an_ablation_takes_what_was_found_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"ablation": {"igcf-paper K = 1": {"settings": {"gamma": 10.0, "learning_rate": 0.5}}}}
    monkeypatch.setattr("igcf.lab.evaluate.tuned_settings._read", lambda dataset: known)
    setup = setup_for(synthetic_catalogue(n_users=80, n_items=200), "ablation", rounds=5)
    plays = setup.protocol.plays(METHODS["igcf-paper"], METHODS["igcf-paper"].settings(), setup.dataset)
    found = {play.label: (play.settings["layers"], play.settings["gamma"]) for play in plays}
    assert found["igcf-paper K = 1"] == (1, 10.0)
    assert found["igcf-paper K = 2"] == (2, 1.0)


def test_changes_are_read_as_json_or_words() -> None:
    found = parse_changes(("icf-ucb:penalty=20", "icf-ucb:reward=satisfied", "nicf:mask_target=true"))
    assert found == {"icf-ucb": {"penalty": 20, "reward": "satisfied"}, "nicf": {"mask_target": True}}
    assert parse_changes(("igcf:objective=liking", "igcf-paper:batch_size=null"))["igcf"] == {"objective": "liking"}
    with pytest.raises(ConfigError, match=r"penalty of icf-ucb is 20\.0 unless set; expected a number, got 'much'"):
        parse_changes(("icf-ucb:penalty=much",))
    with pytest.raises(
        ConfigError, match=r"mask_target of nicf is False unless set; expected true or false, got '\[1\]'"
    ):
        parse_changes(("nicf:mask_target=[1]",))
    with pytest.raises(ConfigError, match="cannot read 'penalty=20'; expected METHOD:NAME=VALUE"):
        parse_changes(("penalty=20",))
