import json
from dataclasses import MISSING, fields, replace
from typing import Any, get_args

import pytest

from igcf.config import (
    Config,
    ExpertsConfig,
    GraphConfig,
    checked_setting,
    configured,
    field_types,
    parse_settings,
)
from igcf.errors import ConfigError
from tests.cli.test_main import assert_one_line_error, run

KINDS: tuple[type[Config], ...] = (GraphConfig, ExpertsConfig)
EVERY_FIELD = [(kind, name, hint) for kind in KINDS for name, hint in field_types(kind).items()]
OTHER_VALUES: dict[str, Any] = {"layer_weights": (0.25, 0.75), "graph": "sgc", "teleport": 0.25}


def in_range(name: str, hint: Any) -> Any:
    """A value of the field's type that its range allows."""
    if name in OTHER_VALUES:
        return OTHER_VALUES[name]
    parts = get_args(hint)
    if parts and all(isinstance(part, str) for part in parts):
        return parts[-1]
    kind = parts[0] if parts else hint
    return {bool: True, int: 3, float: 0.25}[kind]


def as_text(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


@pytest.mark.parametrize(("kind", "name", "hint"), EVERY_FIELD)
def test_every_setting_can_be_written_on_the_command_line_in_a_file_and_in_python(
    kind: type[Config], name: str, hint: Any
) -> None:
    value = in_range(name, hint)
    from_text = parse_settings((f"{name.replace('_', '-')}={as_text(value)}",))[name]
    from_file = checked_setting(kind, name, json.loads(json.dumps(value)))
    from_python = checked_setting(kind, name, value)
    for found in (from_text, from_file, from_python):
        assert found == value
        assert type(found) is type(value)


@pytest.mark.parametrize(("kind", "name", "hint"), EVERY_FIELD)
def test_none_is_taken_exactly_where_a_field_may_be_none(kind: type[Config], name: str, hint: Any) -> None:
    if type(None) in get_args(hint):
        assert parse_settings((f"{name}=none",)) == {name: None}
        assert checked_setting(kind, name, None) is None
        return
    with pytest.raises(ConfigError, match=f"{name} must be"):
        checked_setting(kind, name, None)
    if hint is not str and "none" not in get_args(hint):
        with pytest.raises(ConfigError, match=f"--set {name}=none: {name} must be"):
            parse_settings((f"{name}=none",))


@pytest.mark.parametrize(("kind", "name", "hint"), [each for each in EVERY_FIELD if each[2] is not str])
def test_a_value_of_another_type_is_refused_by_the_name_of_its_field(kind: type[Config], name: str, hint: Any) -> None:
    for wrong in ("banana", ["banana"], object()):
        with pytest.raises(ConfigError, match=f"{name} must be"):
            checked_setting(kind, name, wrong)


@pytest.mark.parametrize(("kind", "name", "hint"), EVERY_FIELD)
def test_every_default_has_the_type_of_its_field(kind: type[Config], name: str, hint: Any) -> None:
    (default,) = (field.default for field in fields(kind) if field.name == name)
    assert default is not MISSING
    assert checked_setting(kind, name, default) == default


def test_numbers_truth_values_and_words_are_not_mixed_up() -> None:
    for kind, name, wrong in (
        (ExpertsConfig, "grades", 1),
        (ExpertsConfig, "iterations", True),
        (ExpertsConfig, "iterations", 1.5),
        (ExpertsConfig, "penalty", float("nan")),
        (GraphConfig, "dim", "6.5"),
        (GraphConfig, "graph", "GCN"),
    ):
        with pytest.raises(ConfigError, match=f"{name} must be"):
            checked_setting(kind, name, wrong)


def test_text_in_python_settings_means_the_same_as_on_the_command_line() -> None:
    assert configured(None, {"grades": "false", "linear_dim": "24"}) == ExpertsConfig(grades=False, linear_dim=24)
    assert replace(GraphConfig(), layers=1, layer_weights=[0.5, 0.5]).layer_weights == (0.5, 0.5)  # type: ignore[arg-type]


def test_an_error_on_the_command_line_is_one_line_with_the_option_as_it_was_written(tmp_path: Any) -> None:
    start = ("pretrain", "--dataset", "synthetic", "--out", str(tmp_path / "model"))
    for options, words in (
        (("--set", "grades=perhaps"), ("--set grades=perhaps:", "true or false")),
        (("--set", "linear_dim=many"), ("--set linear_dim=many:", "a whole number")),
        (("--set", "edges=all"), ("--set edges=all:", "one of observed, satisfied")),
        (("--set", "layer_weights=1,two"), ("--set layer_weights=1,two:", "numbers with commas")),
        (("--set", "newcomers=true"), ("--set newcomers=true:", "expected NAME=VALUE")),
        (("--dim", "8"), ("dim is a setting of the graph model", "--method graph")),
        (("--method", "graph", "--learning-rate", "-1"), ("--learning-rate:", "a positive number, got -1")),
    ):
        assert_one_line_error(run(*start, *options), *words)


def test_settings_of_a_saved_model_train_the_same_model() -> None:
    for config in (ExpertsConfig(linear_dim=24), GraphConfig(dim=8)):
        assert configured(None, config.as_dict()) == config
