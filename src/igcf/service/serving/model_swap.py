"""Model swaps on every server that shares the store, and the threads that follow announcements of other servers."""

import itertools
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from igcf.errors import IgcfError, ModelError, StoreError
from igcf.model import Model, Reward
from igcf.model.files import model_id
from igcf.service.context import ServiceContext
from igcf.service.errors import CatalogueMismatchError, ModelConflictError
from igcf.service.models.responses import ModelLoaded
from igcf.service.serving.served_model import ServedModel
from igcf.service.settings import ServiceSettings
from igcf.service.store.audit import count_ignored
from igcf.service.store.decisions import Announcement, announcements, note_first, way_back
from igcf.service.store.store import Store

log = logging.getLogger("igcf.service")
LOOK_EVERY_S = 0.5
READY_EVERY = 10  # turns between two looks at the readiness, for its gauge


class Repeated:
    """A thread that does some things again and again; each comes with what to log when it fails."""

    def __init__(self, name: str, tasks: Mapping[str, Callable[[], object]]) -> None:
        self._tasks = tasks
        self._failures: dict[str, str] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop after the turn that is under way."""
        self._stop.set()
        self._thread.join(timeout=10)

    def _run(self) -> None:
        while not self._stop.wait(LOOK_EVERY_S):
            for message, task in self._tasks.items():
                try:
                    task()
                    self._failures.pop(message, None)
                except Exception as error:  # the thread must outlive any error: no other thread does this
                    reason = f"{type(error).__name__}: {error}"
                    if self._failures.get(message) != reason:  # logged once, not twice a second
                        is_expected = isinstance(error, IgcfError | OSError)
                        log.error(message, extra={"reason": reason}, exc_info=not is_expected)
                        self._failures[message] = reason


def background(context: ServiceContext, quick: Mapping[str, Callable[[], object]]) -> list[Repeated]:
    """Start the threads of a service; `quick` are further things to do that never wait for store or learning."""
    turns = itertools.count()
    _note_first(context)
    with suppress(IgcfError):  # told by the readiness, and tried again in every turn
        context.experiments.follow()

    def look_ready() -> None:
        if next(turns) % READY_EVERY == 0:
            readiness(context)

    def learn() -> None:
        context.items_from_log.look(context.current_model.served)
        context.experiments.learn()

    follows: dict[str, Callable[[], object]] = {
        "cannot follow to the announced model": lambda: follow(context),
        "cannot follow the experiment": context.experiments.follow,
        "cannot look for deleted users": lambda: context.users.forget_hashed(context.audit.follow()),
        "cannot look for changed items": context.items.look,
        "cannot count what was ignored": lambda: learn_ignored(context),
        "cannot set gauges": context.observe,
        "cannot look for health": look_ready,
    }
    return [
        Repeated("igcf-keys", {**quick, "cannot share metrics with the other workers": context.metrics.share}),
        Repeated("igcf-follow", follows),
        Repeated("igcf-learn", {"cannot learn new items": learn}),
    ]


def learn_ignored(context: ServiceContext) -> None:
    """Count what was shown and drew nothing in time, for all servers of the store."""
    for user_id, appended in count_ignored(context.store.database, time.time()).items():
        context.users.publish(context.place(user_id).served, user_id, appended)
        context.metrics.feedback.labels("none").inc(len(appended.fresh))


def readiness(context: ServiceContext) -> list[str]:
    """Find what keeps this process from answering well; empty when nothing does."""
    found = (context.current_model.problem, context.experiments.problem, _store_problem(context.store))
    problems = [problem for problem in found if problem is not None]
    if len(context.current_model.served.model.added) and not context.items_from_log.has_read:
        problems.append("the reactions to new items are not read yet")
    if context.audit.waiting >= context.settings.audit_queue:
        problems.append(f"{context.audit.waiting} answers wait to be written to the audit log")
    context.metrics.ready.set(not problems)
    return problems


def _store_problem(store: Store) -> str | None:
    checks = {"did not answer": store.database.check_readable, "cannot be written": store.database.check_writable}
    for found, check in checks.items():
        try:
            check()
        except StoreError as error:
            log.error("store failed", extra={"reason": str(error)})
            return f"the store {found}"
    return None


LEAST_OVERLAP = 0.5  # share of the items in service that the next model must know, unless it is forced


def load_and_announce(context: ServiceContext, folder: str, *, force: bool = False) -> ModelLoaded:
    """Serve the model in `folder` from now on, here and on all servers; a bad one is refused and the old one stays."""
    with context.current_model.lock:  # one swap at a time; requests are still answered
        served = ServedModel.from_folder(allowed_folder(context.settings, folder), context.settings)
        if not force:
            refuse_other_catalogue(context.current_model.served.trained.model, served.model)
        _note_first(context)
        return _announce(context, served)


def _announce(context: ServiceContext, served: ServedModel, *, after: int | None = None) -> ModelLoaded:
    generation = context.store.announce(served.folder, served.model_id, after=after)
    _replace(context, served, generation)
    return ModelLoaded(model=served.model_id, items=served.model.n_items, generation=generation)


def _note_first(context: ServiceContext) -> None:
    """Record the model that this server was started with if none is announced, so that a rollback can return to it."""
    current = context.current_model
    if current.generation == 0:
        with suppress(StoreError):  # serving can do without it
            note_first(context.store.database, current.served.folder, current.served.model_id)


def roll_back(context: ServiceContext) -> ModelLoaded:
    """Serve the previous model again, here and on all servers; users keep their reactions."""
    with context.current_model.lock:
        known = announcements(context.store.database)
        served = ServedModel.from_folder(previous_folder(known), context.settings)
        return _announce(context, served, after=known[0].generation)


def previous_folder(newest_first: Sequence[Announcement]) -> Path:
    """Find the folder of the model before the one in service, or refuse if it is missing or has changed."""
    way = way_back(newest_first)
    if not way:
        raise ModelConflictError("there is no model before the one in service; `igcf models promote` takes another")
    folder = Path(way[0].folder)
    if (found := model_id(folder)) != way[0].model:
        raise ModelError(f"{folder} holds the model {found}, not {way[0].model} that was served; put that one back")
    return folder


def refuse_other_catalogue(now: Model, then: Model) -> None:
    """Refuse a model that knows less than half of the items in service, or has another scale of values."""
    n_shared = sum(item_id in then.row_of for item_id in now.item_ids)
    share, anyway = f"{n_shared / now.n_items:.0%}", "force the swap to serve it all the same"
    if n_shared < LEAST_OVERLAP * now.n_items:
        raise CatalogueMismatchError(
            f"the model knows {n_shared} of the {now.n_items} items in service ({share}); {anyway}"
        )
    if (before := _scale(now.reward)) != (after := _scale(then.reward)):
        raise CatalogueMismatchError(
            f"the scale of the values changes from {before} to {after} "
            f"(it knows {share} of the items in service); {anyway}"
        )


def _scale(reward: Reward) -> str:
    return f"{reward.kind}, {reward.low:g} to {reward.high:g}{', implicit' if reward.is_implicit else ''}"


def follow(context: ServiceContext) -> bool:
    """Load the model that another server announced, if there is a newer one; True when it was replaced."""
    current = context.current_model
    generation, folder = context.store.generation()
    if generation <= current.generation:
        return False
    with current.lock:
        if generation <= current.generation:
            return False
        try:
            served = ServedModel.from_folder(Path(folder), context.settings)
        except Exception:
            current.problem = f"model generation {generation} cannot be loaded here; see the log"
            raise
        _replace(context, served, generation)
    return True


def _replace(context: ServiceContext, served: ServedModel, generation: int) -> None:
    context.items.install(served, lambda extended: context.current_model.replace(extended, generation))
    log.info("model in service", extra={"model": served.model_id, "generation": generation})


def allowed_folder(settings: ServiceSettings, folder: str) -> Path:
    """Resolve a folder against the one below which models may be loaded."""
    if "\x00" in folder:
        raise ModelError("a folder name cannot contain a NUL character")
    root = Path(settings.models or ".").resolve()
    path = (root / folder).resolve()
    if settings.models is None or not path.is_relative_to(root):
        raise ModelError(
            f"{folder!r} is outside the folder from which this server may load models; "
            "`igcf serve --models` names another"
        )
    return path
