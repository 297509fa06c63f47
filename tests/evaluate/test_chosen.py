import json
from importlib.resources import files

import pytest

from igcf.baselines import METHODS
from igcf.errors import ConfigError
from igcf.evaluate.chosen import chosen_settings, parse_changes


def test_settings_kept_as_data_belong_to_known_methods_and_name_their_command() -> None:
    for file in files("igcf.evaluate").joinpath("settings").iterdir():
        for methods in json.loads(file.read_text()).values():
            for name, entry in methods.items():
                METHODS[name].settings(entry["settings"])
                assert entry["command"].startswith("igcf evaluate ")


def test_a_log_that_nobody_tuned_takes_the_defaults() -> None:
    assert chosen_settings("my-shop", "top-k", "icf-ucb") == METHODS["icf-ucb"].settings()


def test_changes_are_read_as_json_or_words() -> None:
    found = parse_changes(("icf-ucb:penalty=20", "icf-ucb:estimate=mean", "nicf:attention=true"))
    assert found == {"icf-ucb": {"penalty": 20, "estimate": "mean"}, "nicf": {"attention": True}}
    with pytest.raises(ConfigError, match="cannot read 'penalty=20'; expected METHOD:NAME=VALUE"):
        parse_changes(("penalty=20",))
