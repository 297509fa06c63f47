"""The experiment that runs: who is in which arm, and what that arm is served."""

import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from igcf.errors import ModelError
from igcf.experiments.assignment import Layout, point
from igcf.model.usage import PolicyChoice
from igcf.online import Rules
from igcf.service.models.requests import RecommendationRequest
from igcf.service.serving.learning import ItemsFromLog
from igcf.service.serving.live_items import LiveItems
from igcf.service.serving.served_model import CurrentModel, ServedModel
from igcf.service.serving.users import UsersInMemory
from igcf.service.settings import ServiceSettings
from igcf.service.store.decisions import ExperimentRow, experiment_rows
from igcf.service.store.store import Store


class Place(NamedTuple):
    """What one user is served: all of an answer comes from it."""

    served: ServedModel
    policy: PolicyChoice
    explore: float
    rules: Rules | None
    experiment: str | None = None
    arm: str | None = None
    arms: tuple[CurrentModel, ...] = ()
    """The models of all arms: a caller says the same to users of each, and no arm refuses what another one knows."""

    def own_part(self, kind: Literal["attribute_prior", "context_effect"], given: Mapping[str, Any]) -> dict[str, Any]:
        """Leave out the names of attributes, or of a context, that only models of other arms know."""
        models = (self.served.model, *(each.served.model for each in self.arms))
        own, *others = (set(found.encoder.names if (found := getattr(each, kind)) else ()) for each in models)
        return {name: value for name, value in given.items() if name in own or not any(name in each for each in others)}

    def knows_elsewhere(self, item_id: str) -> bool:
        """Whether only models of other arms know an item."""
        others = (each.served.model for each in self.arms)
        return item_id not in self.served.model.row_of and any(item_id in each.row_of for each in others)

    def own_request(self, ask: RecommendationRequest) -> RecommendationRequest:
        """Leave out of a request what only models of other arms know."""
        if not self.arms or not (ask.attributes or ask.context or ask.candidates):
            return ask
        own = {
            "attributes": self.own_part("attribute_prior", ask.attributes or {}),
            "context": self.own_part("context_effect", ask.context or {}),
            "candidates": ask.candidates and [item for item in ask.candidates if not self.knows_elsewhere(item)],
        }
        return ask.model_copy(update=own)


@dataclass(frozen=True, eq=False)
class Arm:
    """An arm in memory; arms of the same model share it."""

    current: CurrentModel
    items_from_log: ItemsFromLog
    policy: PolicyChoice
    explore: float
    rules: Rules | None


@dataclass(frozen=True)
class Experiment:
    """An experiment as this server follows it."""

    number: int
    name: str
    start: float
    end: float
    layout: Layout
    arms: Mapping[str, Arm]


class Experiments:
    """Follows what the store says, and finds the arms of users; replaced as a whole, so that an answer sees one."""

    def __init__(self, store: Store, settings: ServiceSettings, items: LiveItems, users: UsersInMemory) -> None:
        self._store, self._settings, self._items, self._users = store, settings, items, users
        self.running: Experiment | None = None  # the experiment that was started and has not been stopped
        self._lock = threading.Lock()
        self.problem: str | None = None  # why this server cannot follow the experiment that was started

    def place(self, user_id: str) -> Place | None:
        """Find what a user is served; None where no experiment says so."""
        running = self.running
        if running is None or not running.start <= time.time() < running.end:
            return None
        name = running.layout.arm(point(running.name, user_id))
        arm = running.arms[name]
        models = tuple(each.current for each in running.arms.values())
        return Place(arm.current.served, arm.policy, arm.explore, arm.rules, running.name, name, models)

    def follow(self) -> None:
        """Bring this server to the newest decision; what it serves changes at once and as a whole."""
        with self._lock:
            newest = next(filter(is_running, experiment_rows(self._store.database, 1)), None)
            if (newest and newest.number) != (self.running and self.running.number):
                try:
                    self.running = None if newest is None else self._opened(newest)
                except Exception:
                    assert newest is not None  # noqa: S101
                    self.problem = f"experiment {newest.name!r} cannot be followed here; see the log"
                    raise
                self._items.keep_only([arm.current for arm in self._arms()])
            self.problem = None

    def _arms(self) -> list[Arm]:
        return [] if self.running is None else list(self.running.arms.values())

    def learn(self) -> None:
        """Bring the new items of the arms' models to what the log says."""
        for arm in {id(arm.current): arm for arm in self._arms()}.values():
            arm.items_from_log.look(arm.current.served)

    def _opened(self, row: ExperimentRow) -> Experiment:
        (start, end), arms_asked = window(row), json.loads(row.definition)["arms"]
        layout = layout_of(row)
        before = self.running
        if before is not None and before.name == row.name:  # other shares
            return Experiment(row.number, row.name, start, end, layout, before.arms)
        opened: dict[str, tuple[CurrentModel, ItemsFromLog]] = {}
        arms = {}
        for name, arm in arms_asked.items():
            if arm["model"] not in opened:
                opened[arm["model"]] = CurrentModel(self._loaded(row.name, arm), 0), ItemsFromLog(self._store)
            current, items_from_log = opened[arm["model"]]
            policy = current.served.policy.changed(arm["policy"], arm["nu"])
            explore = self._settings.explore if arm["explore"] is None else arm["explore"]
            rules = self._settings.read_rules() if arm["rules"] is None else Rules.parse(arm["rules"])
            arms[name] = Arm(current, items_from_log, policy, explore, rules)
        for current, _ in opened.values():  # not before all are there: a server that cannot follow tries again
            self._items.attach(current)
        return Experiment(row.number, row.name, start, end, layout, arms)

    def _loaded(self, name: str, arm: Mapping[str, Any]) -> ServedModel:
        served = ServedModel.from_folder(Path(arm["model"]), self._settings)
        if served.model_id != arm["model_id"]:
            raise ModelError(f"{arm['model']} holds the model {served.model_id}, not {arm['model_id']} as at the start")
        served.key = f"{served.model_id}@{name}"  # sessions are those of this recommender
        return served


def window(row: ExperimentRow) -> tuple[float, float]:
    """Return from when to when an experiment is to run."""
    definition = json.loads(row.definition)
    start, end = definition["start"], definition["end"]
    return float("-inf") if start is None else start, float("inf") if end is None else end


def layout_of(row: ExperimentRow) -> Layout:
    """Return who is in which arm."""
    return Layout(tuple((length, arm) for length, arm in json.loads(row.layout)))


def is_running(row: ExperimentRow) -> bool:
    """Whether an experiment was started and has not been stopped, nor come to its end."""
    return bool(row.running) and time.time() < window(row)[1]
