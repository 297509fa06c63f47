"""Replacing the model in service without dropping a request, on every server that shares the store."""

import logging
from pathlib import Path

from igcf.errors import ModelError
from igcf.service.context import ServiceContext
from igcf.service.errors import CatalogueMismatchError
from igcf.service.models.model_responses import ModelLoaded
from igcf.service.serving.served_model import ServedModel
from igcf.service.settings import ServiceSettings

log = logging.getLogger("igcf.service")
LEAST_OVERLAP = 0.5
"""Share of the items in service that the next model must know, unless it is forced."""


def load_and_announce(context: ServiceContext, folder: str, *, force: bool = False) -> ModelLoaded:
    """Serve the model in `folder` from now on, here and on all servers; a bad one is refused and the old one stays."""
    with context.current_model.lock:  # one at a time; answers go on meanwhile
        served = ServedModel.from_folder(_allowed(context.settings, folder), context.settings)
        if not force:
            refuse_other_catalogue(context.current_model.served, served)
        generation = context.store.announce(served.folder, served.model_id)
        _replace(context, served, generation)
    return ModelLoaded(model=served.model_id, items=served.model.n_items, generation=generation)


def refuse_other_catalogue(now: ServedModel, then: ServedModel) -> None:
    """Refuse a model that knows less than half of the items in service, or whose values have another scale."""
    known = set(then.model.item_ids)
    items = now.trained.model.item_ids
    n_shared = sum(item_id in known for item_id in items)
    if n_shared < LEAST_OVERLAP * len(items):
        raise CatalogueMismatchError(
            f"the model knows {n_shared} of the {len(items)} items in service "
            f"({n_shared / len(items):.0%}); set 'force' to serve it all the same"
        )
    before, after = (
        (each.model.reward.kind, each.model.reward.low, each.model.reward.high, each.model.reward.is_implicit)
        for each in (now, then)
    )
    if before != after:
        raise CatalogueMismatchError(
            f"the scale of the values changes from {_scale(*before)} to {_scale(*after)} "
            f"(it knows {n_shared / len(items):.0%} of the items in service); set 'force' to serve it all the same"
        )


def _scale(kind: str, low: float, high: float, is_implicit: bool) -> str:
    return f"{kind}, {low:g} to {high:g}{', implicit' if is_implicit else ''}"


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
    context.users.keep_only(context.current_model.served)
    log.info("model in service", extra={"model": served.model_id, "generation": generation})


def _allowed(settings: ServiceSettings, folder: str) -> Path:
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
