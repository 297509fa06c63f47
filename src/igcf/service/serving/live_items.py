"""Items that came, changed or went since the model was trained: followed from the store, laid over the model's."""

import threading
import time
from collections.abc import Callable

from igcf.item import Item
from igcf.model.catalogue import Catalogue
from igcf.service.serving.current_model import CurrentModel
from igcf.service.serving.served_model import ServedModel
from igcf.service.store.items import ItemStore, StoredItem

STALE_S = 0.8
"""An answer looks at the store itself where the last look is longer ago than this."""


class LiveItems:
    """The changes of all servers as far as they are known here; each is in force when `look` returns."""

    def __init__(self, store: ItemStore, current: CurrentModel) -> None:
        self.store = store
        self._current = current
        self._lock = threading.Lock()
        self._stored: dict[str, StoredItem] = {}
        self._looked = float("-inf")
        self.revision = 0
        """Revision of the catalogue that is in force here."""
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
                self._stored |= {item.item_id: item for item in fresh}
                self._lay_over(self._current.served, fresh)
                self.revision = max(item.revision for item in fresh)
            self._looked = max(self._looked, started)
        return bool(fresh)

    def install(self, served: ServedModel, replace: Callable[[], None]) -> None:
        """Lay all changes over another model, then let `replace` put it into service; no change falls in between."""
        with self._lock:
            self._lay_over(served, list(self._stored.values()))
            replace()

    def is_known(self, item_id: str) -> bool:
        """Whether the model in service has an item."""
        return self._current.served.model.known_row(item_id) is not None

    def stored(self, item_id: str) -> StoredItem | None:
        """Return what the store says of an item."""
        return self._stored.get(item_id)

    def waiting(self) -> list[Item]:
        """Return the items that the model in service does not know, as they are described."""
        unknown = [item for item in list(self._stored.values()) if not self.is_known(item.item_id)]
        return [item.described() for item in unknown]

    @staticmethod
    def _lay_over(served: ServedModel, changes: list[StoredItem]) -> None:
        base: Catalogue = served.model.catalogue
        rows = {row: item for item in changes if (row := served.model.known_row(item.item_id)) is not None}
        described = {row: item.described(base.item(row)) for row, item in rows.items()}
        served.recommender.catalogue = served.catalogue.changed(described)
