"""Replacing the model in service without dropping a request, on every server that shares the store."""

import logging
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from igcf.errors import IgcfError, ModelError
from igcf.service.context import ServiceContext
from igcf.service.models.model_responses import ModelLoaded
from igcf.service.serving.served_model import ServedModel
from igcf.service.settings import ServiceSettings

log = logging.getLogger("igcf.service")
LOOK_EVERY_S = 0.5


def load_and_announce(context: ServiceContext, folder: str) -> ModelLoaded:
    """Serve the model in `folder` from now on, here and on all servers; a bad one is refused and the old one stays."""
    with context.current_model.lock:  # one at a time; answers go on meanwhile
        served = ServedModel.from_folder(_allowed(context.settings, folder), context.settings)
        generation = context.store.announce(served.folder, served.model_id)
        _replace(context, served, generation)
    return ModelLoaded(model=served.model_id, items=served.model.n_items, generation=generation)


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


class Follower:
    """A thread that looks for what other servers have announced (models, items, deletions) and saves beliefs."""

    def __init__(self, context: ServiceContext, others: Mapping[str, Callable[[], None]] | None = None) -> None:
        """Start to look; `others` are further things to look at, each with what to say when that fails."""
        self._context = context
        self._others = dict(others or {})
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="igcf-follow", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop looking."""
        self._stop.set()
        self._thread.join(timeout=10)

    def _run(self) -> None:
        told: dict[str, str] = {}
        while not self._stop.wait(LOOK_EVERY_S):
            self._try("cannot follow to the announced model", self._follow, told)
            self._try("cannot look for changed items", self._look, told)
            self._try("cannot look for deleted users", self._forget, told)
            self._try("cannot save beliefs", self._context.users.save, told)
            self._try("cannot count", self._context.observe, told)
            for message, look in self._others.items():
                self._try(message, look, told)

    def _try(self, message: str, look: Callable[[], None], told: dict[str, str]) -> None:
        """Look once; whatever goes wrong is logged (once, not twice a second) and tried again in the next turn."""
        try:
            look()
            told.pop(message, None)
        except Exception as error:  # the thread must outlive any error: nobody else looks
            reason = f"{type(error).__name__}: {error}"
            if told.get(message) != reason:
                log.error(message, extra={"reason": reason}, exc_info=not isinstance(error, IgcfError))
                told[message] = reason

    def _follow(self) -> None:
        follow(self._context)

    def _look(self) -> None:
        self._context.items.look()
        self._context.items_from_log.look(self._context.current_model.served)

    def _forget(self) -> None:
        self._context.users.forget_hashed(set(self._context.audit.follow()))


def _replace(context: ServiceContext, served: ServedModel, generation: int) -> None:
    context.items.install(served, lambda extended: context.current_model.replace(extended, generation))
    context.users.keep_only(context.current_model.served)
    log.info("model in service", extra={"model": served.model_id, "generation": generation})


def _allowed(settings: ServiceSettings, folder: str) -> Path:
    if "\x00" in folder:
        raise ModelError("a folder name cannot contain a NUL character")
    path, root = Path(folder).resolve(), settings.models_root
    if root is None or not path.is_relative_to(Path(root).resolve()):
        raise ModelError(
            f"{folder!r} is outside the folder from which this server may load models; "
            "`igcf serve --models-root` names another"
        )
    return path
