"""Items that came, changed or went since the model was trained: followed from the store, laid over the model's."""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from igcf.item import Item
from igcf.service.serving.served_model import CurrentModel, ServedModel
from igcf.service.store.items import ItemStore, StoredItem

STALE_S = 0.8  # an answer looks at the store itself where the last look is longer ago than this


class LiveItems:
    """The changes of all servers as far as they are known here; each is in force when `look` returns.

    Items that the model was not trained with join it, known by their content, where the model has a content prior; in
    the order of their ids, so that all servers have the same model.
    """

    def __init__(self, store: ItemStore, current: CurrentModel, when_replaced: Callable[..., None]) -> None:
        """Look for the first time; `when_replaced` gets all models in service when new items have joined one."""
        self.store, self._current, self._when_replaced = store, current, when_replaced
        self._lock = threading.Lock()
        self._stored: dict[str, StoredItem] = {}
        self._joined: dict[CurrentModel, dict[str, Item]] = {current: {}}
        """The items that joined each model in service, by what their vectors were made of."""
        self._looked = float("-inf")
        self.revision = 0  # revision of the catalogue that is in force here
        self.look()

    @property
    def is_stale(self) -> bool:
        """Whether the last look is so long ago that an answer must not rely on it."""
        return time.monotonic() - self._looked > STALE_S

    def look(self) -> bool:
        """Bring what changed in the store into force; True where something did."""
        started = time.monotonic()
        changes = self.store.changes(self.revision)
        with self._lock:
            fresh = [item for item in changes if item.revision > self.revision]
            if fresh:
                self._bring_into_force(fresh)
                self.revision = max(item.revision for item in fresh)
            self._looked = max(self._looked, started)
        return bool(fresh)

    def install(self, served: ServedModel, replace_current: Callable[[ServedModel], None]) -> None:
        """Lay all changes over another model, then put it into service; no change falls in between."""
        with self._lock:
            replace_current(self._extended(self._current, served))
            self._tell()

    def attach(self, current: CurrentModel) -> None:
        """Lay all changes, now and later, over one more model."""
        with self._lock:
            current.served = self._extended(current, current.served)

    def keep_only(self, currents: Sequence[CurrentModel]) -> None:
        """Leave alone the models that are no longer among those attached; the one in service stays."""
        with self._lock:
            kept = {self._current, *currents}
            self._joined = {each: joined for each, joined in self._joined.items() if each in kept}
            self._tell()

    def _tell(self) -> None:
        self._when_replaced(*(each.served for each in self._joined))

    def is_known(self, item_id: str) -> bool:
        """Whether the model in service has an item."""
        return self._current.served.model.known_row(item_id) is not None

    def is_trained(self, item_id: str) -> bool:
        """Whether the model was trained with an item."""
        return self._current.served.trained.model.known_row(item_id) is not None

    def stored(self, item_id: str) -> StoredItem | None:
        """Return what the store says of an item."""
        return self._stored.get(item_id)

    def waiting(self) -> list[Item]:
        """Return the items that the model in service does not know, as they are described."""
        return [item.described() for item in list(self._stored.values()) if not self.is_known(item.item_id)]

    def _bring_into_force(self, fresh: list[StoredItem]) -> None:
        self._stored |= {item.item_id: item for item in fresh}
        for current, joined in list(self._joined.items()):
            trained = current.served.trained.model
            is_same = all(trained.known_row(item.item_id) is not None for item in fresh)
            if is_same or self._to_join(current.served) == joined:
                _lay_over(current.served, fresh)
            else:
                current.served = self._extended(current, current.served)
                self._tell()

    def _extended(self, current: CurrentModel, served: ServedModel) -> ServedModel:
        """Return a model with all changes, to be put into service as `current`."""
        self._joined[current] = self._to_join(served)
        extended = served.with_items(list(self._joined[current].values()))
        _lay_over(extended, self._stored.values())
        return extended

    def _to_join(self, served: ServedModel) -> dict[str, Item]:
        """Find the items that the model was not trained with, without what may change from hour to hour."""
        model = served.trained.model
        if model.content is None:
            return {}
        plain: dict[str, Any] = {"hidden": False, "available_from": None, "available_until": None, "image": None}
        unknown = sorted(item_id for item_id in self._stored if item_id not in model.row_of)
        return {item_id: replace(self._stored[item_id].described(), **plain) for item_id in unknown}


def _lay_over(served: ServedModel, changes: Iterable[StoredItem]) -> None:
    base = served.model.catalogue
    rows = {row: item for item in changes if (row := served.model.known_row(item.item_id)) is not None}
    described = {row: item.described(base.item(row)) for row, item in rows.items()}
    served.recommender._live.describe(described)
