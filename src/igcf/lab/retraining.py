"""Training of a candidate: the settings of the model in service, the current log, and the verdict of the gate."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from igcf.config import Config, ExpertsConfig, GraphConfig, configured, field_types
from igcf.data import Interactions
from igcf.lab.gate import judge, judged_on, split
from igcf.lab.judgement import Check, Judgement
from igcf.model import Model
from igcf.training import pretrain


def retrain(
    log: Interactions,
    current: Model | None,
    settings: Mapping[str, Any],
    *,
    evidence: Callable[[Model], Sequence[Check]] = lambda _: (),
    progress: bool = True,
) -> tuple[Model, Judgement | None]:
    """Train on all users but the held-out ones and compare with the model in service, if there is one.

    The verdict with its evidence is in the metadata of the candidate as `gate`.

    Args:
        log: all reactions.
        current: the model in service, with the items that it has been given since.
        settings: settings that differ from those that `current` was trained with, such as the seed.
        evidence: finds further evidence about the candidate, such as an off-policy estimate.
        progress: whether to show how far training is.
    """
    train, held, share = split(log)
    if current is not None:
        judged_on(held, current)  # too little to compare is refused before the training, not after
        train = replace(train, kinds=train.kinds or current.kinds)
    model = pretrain(train, config=configured(_settings_of(current), settings), progress=progress)
    model.metadata["held_out"] = share
    found = None if current is None else judge(model, current, held, evidence(model))
    model.metadata["gate"] = {"verdict": "first"} if found is None else found.as_dict()
    return model, found


def _settings_of(current: Model | None) -> Config | None:
    """Return the settings that a model was trained with, as far as they are known."""
    saved = {} if current is None else dict(current.metadata.get("settings", {}))
    kind = GraphConfig if saved.pop("method", None) == "graph" else ExpertsConfig
    known = field_types(kind)
    return configured(kind(), {name: value for name, value in saved.items() if name in known}) if saved else None
