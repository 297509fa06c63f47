"""`thin-log`: new users after training on a part of the log only."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from igcf.data import Interactions
from igcf.errors import ConfigError
from igcf.lab.baselines import Method
from igcf.lab.evaluate.protocols.base import Case, Play, Session, Setup, Users
from igcf.lab.evaluate.protocols.cold import ColdStart, places


@dataclass(frozen=True)
class ThinLog(ColdStart):
    """Cold start after training on a part of the log only; validation and test users are whole.

    Choices are made on the validation users, and no method learns from them: their records are longer than the
    thinnest logs.
    """

    name: ClassVar[str] = "thin-log"
    methods: ClassVar[tuple[str, ...]] = ("pop-satisfied", "pca-gp", "igcf-graph", "igcf")
    tuned_under: ClassVar[tuple[str, ...]] = ()
    GRAPHS: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        **{f"K = {layers}": {"graph": "lightgcn", "layers": layers} for layers in range(4)},
        "SGC, K = 2": {"graph": "sgc", "layers": 2},
        "APPNP, K = 2": {"graph": "appnp", "layers": 2},
    }
    keep: float | None = None
    """Share of the training reactions that is kept."""
    per_user: int | None = None
    """Largest number of reactions that is kept of a training user."""

    def __post_init__(self) -> None:
        """Refuse a log that is not thinned in exactly one way."""
        if (self.keep is None) == (self.per_user is None):
            raise ConfigError("thin-log needs --keep SHARE or --per-user N, not both")

    def prepare(self, data: Interactions, setup: Setup, seed: int, users: Users) -> Case:
        """Thin the training log of cold start."""
        case, rng = super().prepare(data, setup, seed, users), np.random.default_rng(seed)
        train = case.task.train
        part = kept_share(train, self.keep, rng) if self.keep else at_most(train, self.per_user or 1, rng)
        return replace(case, task=replace(case.task, train=part, may_refit=False))

    def plays(self, method: Method, settings: Mapping[str, Any], dataset: str) -> list[Play]:
        """Return the graph model with several graphs, the others as they are."""
        if not {"graph", "layers"} <= set(settings):
            return super().plays(method, settings, dataset)
        return [Play(f"{method.name}, {words}", {**settings, **graph}) for words, graph in self.GRAPHS.items()]

    def shape(self, session: Session) -> str:
        """Say what is kept."""
        kept = f"{self.keep:.0%} of the training log" if self.keep else f"at most {self.per_user} reactions per user"
        return f"{session}, {kept}"


def kept_share(log: Interactions, share: float, rng: np.random.Generator) -> Interactions:
    """Keep each reaction with this probability; users who lose all of them are gone."""
    part = log.subset(rng.random(len(log)) < share)
    return part.only_users(np.unique(part.user_idx))


def at_most(log: Interactions, n: int, rng: np.random.Generator) -> Interactions:
    """Keep at most n reactions of every user, drawn."""
    order = np.lexsort((rng.random(len(log)), log.user_idx))
    return log.subset(places(log, order) < n)
