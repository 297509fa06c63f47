"""From the options of `igcf serve` to a running server: check everything that can be checked before listening."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from igcf.online import read_rules
from igcf.service.http.authentication import Keys
from igcf.service.server import bound_socket, run
from igcf.service.serving.current_model import CurrentModel
from igcf.service.serving.pictures import Pictures
from igcf.service.serving.served_model import ServedModel
from igcf.service.settings import ServiceSettings
from igcf.service.store.store import Store
from igcf.service.store.urls import database_url, is_missing_file, printed_url

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Ready:
    """A server that is bound and about to run."""

    url: str
    store: str
    model: str
    """Folder of the model that is served."""
    is_exposed: bool
    run: Callable[[], int]


def start(model: Path, settings: ServiceSettings, *, is_override: bool = False) -> Ready:
    """Check the keys, the folders, the model and the store, migrate the store, and bind the address.

    What the store says is to be served comes before `model`, unless `is_override` makes `model` what it says.
    """
    if settings.api_key_file is not None:
        Keys.from_file(Path(settings.api_key_file))
    if settings.images is not None:
        Pictures(settings.images)
    host = settings.host
    settings = settings.changed(
        models_root=settings.models_root or str(model.resolve().parent),
        allowed_hosts=settings.allowed_hosts or (LOOPBACK if host in LOOPBACK else ()),
    )
    current = _first_model(model, settings, is_override=is_override)
    if settings.rules is not None:
        read_rules(Path(settings.rules)).compiled(current.served.catalogue)
    bound = bound_socket(host, settings.port)
    name = f"[{host}]" if ":" in host else host
    return Ready(
        url=f"http://{name}:{bound.getsockname()[1]}",
        store=printed_url(database_url(settings.store)),
        model=current.served.folder,
        is_exposed=host not in LOOPBACK and settings.api_key_file is None,
        run=lambda: run(str(model.resolve()), current, settings, bound),
    )


def _first_model(model: Path, settings: ServiceSettings, *, is_override: bool) -> CurrentModel:
    if is_missing_file(settings.store) or is_override:
        ServedModel.from_folder(model, settings)  # before the store: a mistake here leaves no file behind
    store = Store(settings.store)
    try:
        if is_override:
            served = ServedModel.from_folder(model, settings)
            if store.generation()[1] != served.folder:
                store.announce(served.folder, served.model_id)
        return CurrentModel.announced(store, model, settings)
    finally:
        store.close()
