"""Start an experiment, change its shares, stop it, promote an arm: checked first, then one row that all follow."""

import json
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from igcf.errors import ConfigError, IgcfError, ModelError, refuse_other_than_file
from igcf.experiments.assignment import PARTS, Layout
from igcf.model import Model
from igcf.model.files import load_model, model_id
from igcf.online import Rules
from igcf.online.exploration import checked_share
from igcf.online.policies import named_policy
from igcf.online.rules import read_rules
from igcf.service.context import ServiceContext
from igcf.service.errors import CatalogueMismatchError, ExperimentConflictError, RequestError
from igcf.service.models import experiments
from igcf.service.models.validation_messages import mistake
from igcf.service.serving.experiments import is_running, layout_of, window
from igcf.service.serving.model_swap import allowed_folder, follow, refuse_other_catalogue
from igcf.service.store.database import Database
from igcf.service.store.decisions import ExperimentRow, announce, decide, experiment_rows


def read_definition(file: Path) -> experiments.ExperimentDefinition:
    """Read an experiment from a TOML file; the folders and files that it names are relative to it."""
    try:
        refuse_other_than_file(file)
        given: Any = tomllib.loads(file.read_text(encoding="utf-8"))
        for arm in given.get("arms", {}).values():
            if isinstance(arm.get("model"), str):
                arm["model"] = str((file.parent / arm["model"]).resolve())
            if isinstance(arm.get("rules"), str):
                read_rules(file.parent / arm["rules"])
                arm["rules"] = json.loads((file.parent / arm["rules"]).read_text(encoding="utf-8"))
        return experiments.ExperimentDefinition.model_validate(given)
    except ValidationError as error:
        raise ConfigError(f"{file}: {mistake(error.errors(include_url=False))}") from error
    except (OSError, ValueError, AttributeError) as error:
        raise ConfigError(f"cannot read the experiment of {file}: {error}") from error


def start_experiment(
    database: Database, asked: experiments.ExperimentDefinition, folder: Callable[[str], Path] = Path
) -> None:
    """Start an experiment on all servers of a store; the same one twice is started once.

    `folder` finds the folder of a model, and refuses one that may not be served.
    """
    layout = Layout.first({name: arm.share for name, arm in asked.arms.items()})
    definition = asked.model_dump()
    if asked.end is not None and asked.end <= max(time.time(), asked.start or 0.0):
        raise ConfigError(f"experiment {asked.name!r} ends before it starts, or has ended; set another end")
    models = [_checked_arm(name, arm, folder) for name, arm in asked.arms.items()]
    for (name, arm), (path, model) in zip(definition["arms"].items(), models, strict=True):
        try:
            refuse_other_catalogue(models[0][1], model)
        except CatalogueMismatchError as error:
            raise CatalogueMismatchError(f"arm {name!r} beside the control: {error}") from error
        arm |= {"model": str(path), "model_id": model_id(path)}
    reward = models[0][1].reward
    definition["satisfied"] = reward.low if reward.is_implicit else reward.threshold

    def change(rows: Sequence[ExperimentRow]) -> ExperimentRow | None:
        if rows and is_running(rows[0]) and rows[0].name != asked.name:
            raise ExperimentConflictError(f"experiment {rows[0].name!r} is running; stop it first")
        own = [row for row in rows if row.name == asked.name]
        if not own:
            return ExperimentRow(0, asked.name, 1, json.dumps(definition), json.dumps(layout.cells), 0.0)
        if not is_running(own[0]):
            raise ExperimentConflictError(f"experiment {asked.name!r} has ended; give the new one another name")
        if found := _difference(json.loads(own[0].definition), definition):
            raise ExperimentConflictError(
                f"experiment {asked.name!r} is running with another {found}; stop it first, or put the old value back"
            )
        return None

    decide(database, change)


def change_experiment(context: ServiceContext, ask: experiments.ExperimentRequest) -> experiments.ExperimentList:
    """Answer `POST /v1/experiments`; this server follows at once, the others within a second."""
    database = context.store.database
    needed = {"start": "experiment", "shares": "shares", "promote": "arm"}.get(ask.action)
    if needed is not None and getattr(ask, needed) is None:
        raise RequestError(f"{needed} is missing; the action {ask.action!r} needs it")
    if ask.action == "start" and ask.experiment is not None:
        start_experiment(database, ask.experiment, lambda folder: allowed_folder(context.settings, folder))
    elif ask.action == "shares" and ask.shares is not None:
        change_shares(database, ask.shares)
    elif ask.action == "promote" and ask.arm is not None:
        promote_arm(database, ask.arm)
        follow(context)
    else:
        stop_experiment(database)
    context.experiments.follow()
    return experiments.ExperimentList(experiments=experiment_states(database))


def _checked_arm(name: str, arm: experiments.ArmDefinition, folder: Callable[[str], Path]) -> tuple[Path, Model]:
    """Load the model of an arm, and refuse what could not be served."""
    if not arm.model:
        raise ConfigError(f"arm {name!r} has no model; name the folder of one")
    try:
        path = folder(arm.model).resolve()
        model = load_model(path)
        named_policy(arm.policy or model.policy.name, nu=arm.nu)
        checked_share(arm.explore or 0.0)
        Rules.parse(arm.rules or {}).compiled(model.catalogue)
    except IgcfError as error:
        raise type(error)(f"arm {name!r}: {error}") from error
    return path, model


def change_shares(database: Database, shares: Mapping[str, float]) -> None:
    """Give the arms of the running experiment other shares, moving as few users as these allow."""

    def change(rows: Sequence[ExperimentRow]) -> ExperimentRow:
        row = _running(rows)
        if shares.keys() != (arms := json.loads(row.definition)["arms"]).keys():
            named, known = ", ".join(shares) or "no arm", ", ".join(arms)
            raise ConfigError(f"the shares are those of {named}; name every arm: {known}")
        return row._replace(layout=json.dumps(layout_of(row).changed(shares).cells))

    decide(database, change)


def stop_experiment(database: Database) -> None:
    """End the running experiment: everybody gets the model in service again."""
    decide(database, lambda rows: _running(rows)._replace(running=0))


def promote_arm(database: Database, arm: str) -> tuple[str, str, int]:
    """Serve the model of an arm of the latest experiment to everybody and end it; returns folder, id and generation."""
    rows = experiment_rows(database, 1)
    if not rows:
        raise ExperimentConflictError("there has been no experiment; start one first")
    arms = json.loads(rows[0].definition)["arms"]
    if arm not in arms:
        raise ConfigError(f"experiment {rows[0].name!r} has no arm {arm!r}; its arms are {', '.join(arms)}")
    folder = Path(arms[arm]["model"])
    if (found := model_id(folder)) != arms[arm]["model_id"]:
        raise ModelError(f"{folder} holds the model {found}, not {arms[arm]['model_id']} as in the experiment")
    generation = announce(database, str(folder), found)  # before the end: nobody gets the old model in between
    if is_running(rows[0]):
        stop_experiment(database)
    return str(folder), found, generation


def experiment_states(database: Database) -> list[experiments.ExperimentState]:
    """List the experiments of a store, the latest first."""
    by_name: dict[str, list[ExperimentRow]] = {}
    for row in experiment_rows(database):
        by_name.setdefault(row.name, []).append(row)
    return [experiment_state(rows[0], rows[-1]) for rows in by_name.values()]


def experiment_state(row: ExperimentRow, first: ExperimentRow) -> experiments.ExperimentState:
    """Describe an experiment by its newest and its first row."""
    (start, end), now, cells = window(row), time.time(), layout_of(row).cells
    ended = row.time if not row.running else end if end <= now else None
    return experiments.ExperimentState(
        name=row.name,
        state="ended" if ended is not None else "planned" if now < start else "running",
        started=max(first.time, start),
        ended=ended,
        arms=[
            experiments.ExperimentArm(
                arm=name,
                share=sum(length for length, each in cells if each == name) / PARTS,
                model=arm["model_id"],
                folder=arm["model"],
            )
            for name, arm in json.loads(row.definition)["arms"].items()
        ],
    )


def _running(rows: Sequence[ExperimentRow]) -> ExperimentRow:
    if not rows or not is_running(rows[0]):
        raise ExperimentConflictError("no experiment is running; start one first")
    return rows[0]


def _difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Name the first setting that differs; empty where none does."""
    for name in [*old, *new]:
        if old.get(name) != new.get(name):
            both = isinstance(old.get(name), dict) and isinstance(new.get(name), dict)
            return f"{name}.{_difference(old[name], new[name])}" if both else name
    return "" if list(old) == list(new) else "order"
