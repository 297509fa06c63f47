import json
from importlib.resources import files

import pytest

from igcf.baselines import METHODS
from igcf.errors import ConfigError
from igcf.evaluate.tuned_settings import parse_changes, tuned_settings


def test_settings_kept_as_data_belong_to_known_methods_and_name_their_command() -> None:
    for file in files("igcf.evaluate").joinpath("settings").iterdir():
        for methods in json.loads(file.read_text()).values():
            for name, entry in methods.items():
                METHODS[name].settings(entry["settings"])
                assert entry["command"].startswith("igcf evaluate ")


def test_a_log_that_nobody_tuned_takes_the_defaults() -> None:
    assert tuned_settings("my-shop", "top-k", "icf-ucb") == METHODS["icf-ucb"].settings()


def test_a_protocol_adds_its_own_settings_to_those_of_cold_start(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {
        "cold-start": {"pca-gp": {"settings": {"dim": 12, "noise_var": 0.2}}},
        "taste-drift": {"pca-gp": {"settings": {"forgetting": 0.98}}},
    }
    monkeypatch.setattr("igcf.evaluate.tuned_settings._read", lambda dataset: known)
    expected = {**METHODS["pca-gp"].settings(), "dim": 12, "noise_var": 0.2}
    assert tuned_settings("shop", "top-k", "pca-gp") == expected
    assert tuned_settings("shop", "taste-drift", "pca-gp") == {**expected, "forgetting": 0.98}


def test_changes_are_read_as_json_or_words() -> None:
    found = parse_changes(("icf-ucb:penalty=20", "icf-ucb:estimate=mean", "nicf:attention=true"))
    assert found == {"icf-ucb": {"penalty": 20, "estimate": "mean"}, "nicf": {"attention": True}}
    with pytest.raises(ConfigError, match="cannot read 'penalty=20'; expected METHOD:NAME=VALUE"):
        parse_changes(("penalty=20",))
