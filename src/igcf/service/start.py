"""From the options of `igcf serve` to a running server: check everything that can be checked before listening."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from igcf.service.http.authentication import Keys
from igcf.service.server import bound_socket, run
from igcf.service.serving.served_model import ServedModel
from igcf.service.settings import ServiceSettings
from igcf.service.store.database import database_url
from igcf.service.store.store import Store

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Ready:
    """A server that is bound and about to run."""

    url: str
    store: str
    is_exposed: bool
    run: Callable[[], int]


def start(model: Path, settings: ServiceSettings, *, host: str, port: int, workers: int) -> Ready:
    """Check the keys, the model and the store, migrate the store, and bind the address."""
    if settings.api_key_file is not None:
        Keys.from_file(Path(settings.api_key_file))
    served = ServedModel.from_folder(model, settings)  # before the store: a mistake here leaves no file behind
    opened = Store(settings.store)
    generation = opened.generation()[0]
    opened.close()
    bound = bound_socket(host, port)
    name = f"[{host}]" if ":" in host else host
    return Ready(
        url=f"http://{name}:{bound.getsockname()[1]}",
        store=database_url(settings.store).render_as_string(hide_password=True),
        is_exposed=host not in LOOPBACK and settings.api_key_file is None,
        run=lambda: run(served, settings, bound, workers=workers, generation=generation),
    )
