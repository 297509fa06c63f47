"""The state that sessions share: one immutable snapshot of the items, replaced as a whole."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from threading import RLock
from typing import Any

from igcf.errors import ModelError
from igcf.item import Item, parse_items
from igcf.model import Model
from igcf.model.new_items import ItemEvidence, UserEvidence
from igcf.online.belief import Belief
from igcf.online.chance import ChanceScale
from igcf.online.engine import ScoringEngine
from igcf.online.index import IndexedEngine, ItemLists
from igcf.online.new_items.trials import Exposure, Trials
from igcf.online.new_items.update import NewItems, user_number, weight_of, with_contribution


@dataclass(frozen=True, eq=False)
class Serving:
    """One state of the items: a model with its catalogue, the items added to it, and an engine that scores them all."""

    model: Model
    new_items: NewItems | None  # added items, at the state that the model's rows show; None: no added items
    engine: ScoringEngine  # a user at the prior, from whom all others start
    chances: ChanceScale
    evidence: tuple[ItemEvidence, ...] = ()
    """Evidence about the new items; newer than that of `new_items` until the next answer."""

    @property
    def version(self) -> int:
        """Number of the update that the rows of new items show; 0: no new items."""
        return 0 if self.new_items is None else 1 + self.new_items.version


class LiveServing:
    """The current snapshot. Every change makes another one and puts it in place by a single assignment."""

    def __init__(self, model: Model, exposure: Exposure | None = None, lists: ItemLists | None = None) -> None:
        self.exposure = Exposure() if exposure is None else exposure
        self.trials = Trials(self.exposure)
        self.from_sessions = True
        """Whether reactions in sessions count at once; otherwise `set_evidence` alone changes the new items."""
        self._lock = RLock()
        engine = ScoringEngine(model) if lists is None else IndexedEngine(model, lists)
        self._current = Serving(model, None, engine, ChanceScale(model))
        if len(model.added) and model.content is not None:
            self._current = self._with_items(NewItems.from_model(model, self.exposure.settled))

    def current(self) -> Serving:
        """Return the snapshot with all evidence in the rows of the new items."""
        serving = self._current
        if serving.new_items is None or serving.evidence is serving.new_items.evidence:
            return serving
        with self._lock:
            items = self._current.new_items
            if items is not None:
                self._current = self._with_items(items.updated(self._current.evidence))
            return self._current

    def _with_items(self, items: NewItems) -> Serving:
        """Return the snapshot with other new items."""
        if items is self._current.new_items:
            return replace(self._current, evidence=items.evidence)
        engine = self._current.engine.with_new_items(items)
        return Serving(items.model, items, engine, ChanceScale(items.model), items.evidence)

    def add_items(self, items: Iterable[Item | Mapping[str, Any]]) -> None:
        """Add items, known by their descriptions; all are added or none."""
        with self._lock:
            before = self.current()
            model = before.model.with_items(items)
            if model is not before.model:
                known = before.new_items
                new = NewItems.from_model(model, self.exposure.settled) if known is None else known.extended(model)
                self._current = self._with_items(new)

    def describe(self, items: Mapping[int, Item]) -> None:
        """Describe the items at some rows anew; the prior of a new item follows its description."""
        with self._lock:
            before = self.current()
            if before.new_items is None:
                model = before.model.with_catalogue(before.model.catalogue.changed(items))
                self._current = replace(before, model=model)
                return
            after = before.new_items.described(items)
            if after.version == before.new_items.version:  # rows stay: the engine's do too
                self._current = replace(before, model=after.model, new_items=after, evidence=after.evidence)
            else:
                self._current = self._with_items(after)

    def update_items(self, items: Iterable[Item | Mapping[str, Any]]) -> None:
        """Describe some items anew; all or none."""
        with self._lock:
            new = parse_items(items)
            rows = self.current().model.item_rows([item.id for item in new])
            self.describe(dict(zip(rows, new, strict=True)))

    def set_hidden(self, item_ids: Iterable[str], is_hidden: bool) -> None:
        """Hide some items from all answers, or show them again."""
        with self._lock:
            model = self.current().model
            rows = model.item_rows(item_ids)
            self.describe({row: replace(model.catalogue.item(row), hidden=is_hidden) for row in rows})

    def contribution(self, row: int, belief: Belief, value: float, n_known: int) -> UserEvidence:
        """Return what a reaction says about a new item: that of a user with this belief and `n_known` others."""
        items = self._current.new_items
        if items is None or row not in items:
            raise ModelError(f"row {row} is not that of an item that was added to the model")
        weight = weight_of(n_known, self.exposure.known)
        return items.learning.contribution(items.priors, items.place(row), belief, value, weight)

    def learn(self, user: Hashable, item_id: str, contribution: UserEvidence | None) -> UserEvidence | None:
        """Count a user's reaction to a new item instead of any before, which is returned; None takes it back."""
        number = user_number(user, item_id)
        with self._lock:
            serving = self._current
            place = serving.model.item_row(item_id) - serving.model.n_trained
            before = serving.evidence[place]
            after = with_contribution(before, number, contribution, self.exposure.settled)
            self.set_evidence({place: after})
            return before.contributions.get(number)

    def set_evidence(self, evidence: Mapping[int, ItemEvidence]) -> None:
        """Replace the evidence about the new items at some places; rows follow with the next answer."""
        with self._lock:
            own = list(self._current.evidence)
            for place, each in evidence.items():
                for number in each.contributions.keys() - own[place].contributions.keys():
                    self.trials.note_new(float(each.contributions[number].rewards[0]))
                own[place] = each
            if any(a is not b for a, b in zip(own, self._current.evidence, strict=True)):
                self._current = replace(self._current, evidence=tuple(own))
