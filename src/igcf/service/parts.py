"""What a running service consists of, put together once and closed once."""

import threading
from dataclasses import dataclass
from pathlib import Path

from igcf.service.audit import AuditLog
from igcf.service.catalogue import Served
from igcf.service.metrics import Metrics
from igcf.service.sessions import Sessions
from igcf.service.settings import ServiceSettings
from igcf.service.store import Store
from igcf.service.versions import VersionReader


class ModelSlot:
    """Holds the model in service; replacing it is one assignment, so every answer sees exactly one."""

    def __init__(self, served: Served, generation: int) -> None:
        self.current = served
        self.generation = generation
        self.problem: str | None = None
        """Why a newer model that was announced is not the one in service."""
        self.lock = threading.Lock()


@dataclass(frozen=True)
class Parts:
    """The store, the model in service, the users in memory, the audit log and the counters."""

    settings: ServiceSettings
    store: Store
    slot: ModelSlot
    sessions: Sessions
    audit: AuditLog
    metrics: Metrics
    versions: VersionReader

    def close(self) -> None:
        """Write what is queued, close the connections."""
        self.audit.close()
        self.store.close()


def open_parts(model: Path | Served, settings: ServiceSettings, *, generation: int | None = None) -> Parts:
    """Load the model, open the store (migrating it where needed) and start the audit log.

    Args:
        model: the model to serve first, or its folder.
        settings: limits and places.
        generation: models announced after this one are followed; None: those announced from now on.
    """
    served = model if isinstance(model, Served) else Served.from_folder(model, settings)
    store = Store(settings.store, connections=settings.threads + 3)
    metrics = Metrics()
    slot = ModelSlot(served, store.generation()[0] if generation is None else generation)
    sessions = Sessions(store, settings, metrics.count_session)
    audit = AuditLog(store, size=settings.audit_queue)
    return Parts(settings, store, slot, sessions, audit, metrics, VersionReader(store))
