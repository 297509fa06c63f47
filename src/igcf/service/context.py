"""What a running service consists of, put together once and closed once."""

from dataclasses import dataclass
from pathlib import Path

from igcf.online import Rules
from igcf.service.metrics import Metrics
from igcf.service.serving.experiments import Experiments, Place
from igcf.service.serving.group_commit import GroupCommit
from igcf.service.serving.learning import ItemsFromLog
from igcf.service.serving.live_items import LiveItems
from igcf.service.serving.served_model import CurrentModel, ServedModel
from igcf.service.serving.users import UsersInMemory
from igcf.service.settings import ServiceSettings
from igcf.service.store.audit import AuditLog
from igcf.service.store.database import StoreEvents
from igcf.service.store.items import ItemStore
from igcf.service.store.store import Store, VersionReader


@dataclass(frozen=True)
class ServiceContext:
    """The settings, the store, the model in service, the users in memory, the audit log and the counters."""

    settings: ServiceSettings
    store: Store
    current_model: CurrentModel
    users: UsersInMemory
    audit: AuditLog
    metrics: Metrics
    versions: VersionReader
    rules: Rules | None  # rules that every answer keeps to
    items: LiveItems  # what changed in the catalogue since the model was trained
    items_from_log: ItemsFromLog  # what all users told of new items
    reactions: GroupCommit
    experiments: Experiments

    @classmethod
    def open(
        cls,
        model: Path | ServedModel,
        settings: ServiceSettings,
        *,
        generation: int | None = None,
        metrics_folder: str | None = None,
    ) -> "ServiceContext":
        """Load the model, open the store (migrating it where needed) and start the audit log.

        Models announced after `generation` are followed; None: those announced from now on.
        """
        served = model if isinstance(model, ServedModel) else ServedModel.from_folder(model, settings)
        if settings.models is None:
            settings = settings.changed(models=str(Path(served.folder).parent))
        store = Store(settings.store, connections=settings.threads + 3, wait_s=settings.store_wait_s)
        current = CurrentModel(served, store.generation()[0] if generation is None else generation)
        metrics = Metrics(metrics_folder)
        store.database.events = StoreEvents(metrics.commit.observe, metrics.store_retries.inc, metrics.store_errors.inc)
        users = UsersInMemory(store, settings, metrics.count_session)
        items = LiveItems(ItemStore(store.database), current, users.keep_only)
        return cls(
            settings=settings,
            store=store,
            current_model=current,
            users=users,
            audit=AuditLog(store, size=settings.audit_queue, wait_s=settings.store_wait_s, days=settings.audit_days),
            metrics=metrics,
            versions=VersionReader(store),
            items_from_log=ItemsFromLog(store),
            items=items,
            experiments=Experiments(store, settings, items, users),
            rules=settings.read_rules(),
            reactions=GroupCommit(settings.store_wait_s),
        )

    def place(self, user_id: str) -> Place:
        """Find what a user is served: that of their arm where an experiment runs."""
        served = self.current_model.served
        common = Place(served, served.policy, self.settings.explore, self.rules)
        return self.experiments.place(user_id) or common

    def observe(self) -> None:
        """Set the gauges to their current values."""
        self.metrics.erasure_pending.set(self.store.database.erase())
        self.metrics.audit_waiting.set(self.audit.waiting)
        self.metrics.generation.set(self.current_model.generation)

    def close(self) -> None:
        """Write what is queued, close the connections."""
        self.reactions.close()
        self.audit.close()
        self.store.close()
