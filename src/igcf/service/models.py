"""Replacing the model in service without dropping a request, on every server that shares the store."""

import logging
import threading
from pathlib import Path
from typing import Any

from igcf.errors import IgcfError, ModelError, StoreError
from igcf.service.catalogue import Served
from igcf.service.parts import Parts

log = logging.getLogger("igcf.service")
LOOK_EVERY_S = 0.5


def load_and_announce(parts: Parts, folder: str) -> dict[str, Any]:
    """Serve the model in `folder` from now on; a bad one is refused and the old one stays."""
    with parts.slot.lock:  # one at a time; answers go on meanwhile
        served = Served.from_folder(_allowed(parts, folder), parts.settings)
        generation = parts.store.announce(served.folder, served.model_id)
        _replace(parts, served, generation)
    return {"model": served.model_id, "items": served.model.n_items, "generation": generation}


def follow(parts: Parts) -> bool:
    """Load the model that another server announced, if there is a newer one; True when it was replaced."""
    generation, folder = parts.store.generation()
    if generation <= parts.slot.generation:
        return False
    with parts.slot.lock:
        if generation <= parts.slot.generation:
            return False
        try:
            served = Served.from_folder(Path(folder), parts.settings)
        except IgcfError:
            parts.slot.problem = f"model generation {generation} cannot be loaded here; see the log"
            raise
        _replace(parts, served, generation)
    return True


def drop_forgotten(parts: Parts) -> None:
    """Drop from memory the users whom another server has forgotten in the last minute."""
    parts.sessions.forget_hashed(parts.store.forgotten())


class Follower:
    """A thread that looks for announced models and forgotten users."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="igcf-follow", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop looking."""
        self._stop.set()
        self._thread.join(timeout=10)

    def _run(self) -> None:
        told = ""
        while not self._stop.wait(LOOK_EVERY_S):
            try:
                follow(self._parts)
                drop_forgotten(self._parts)
                told = ""
            except (ModelError, StoreError) as error:
                if str(error) != told:  # once, not twice a second
                    log.error("cannot follow to the announced model", extra={"reason": str(error)})
                    told = str(error)


def _replace(parts: Parts, served: Served, generation: int) -> None:
    parts.slot.current, parts.slot.generation, parts.slot.problem = served, generation, None
    parts.sessions.keep_only(served)
    log.info("model in service", extra={"model": served.model_id, "generation": generation})


def _allowed(parts: Parts, folder: str) -> Path:
    if "\x00" in folder:
        raise ModelError("a folder name cannot contain a NUL character")
    path, root = Path(folder).resolve(), parts.settings.models_root
    if root is not None and not path.is_relative_to(Path(root).resolve()):
        raise ModelError(f"{folder!r} is outside the folder from which this server may load models")
    return path
