"""From the options of `igcf serve` to a running server: check everything before listening, then let uvicorn serve."""

import gc
import inspect
import multiprocessing
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import uvicorn
from fastapi import FastAPI
from uvicorn.supervisors import Multiprocess

from igcf.errors import ConfigError, IgcfError
from igcf.service.context import ServiceContext
from igcf.service.http.application import create_app
from igcf.service.http.authentication import Keys
from igcf.service.http.connections import limited_protocol
from igcf.service.http.logs import configure
from igcf.service.serving.page import Pictures
from igcf.service.serving.served_model import CurrentModel, ServedModel
from igcf.service.settings import ServiceSettings
from igcf.service.store.store import Store
from igcf.service.store.urls import database_url, is_missing_file, printed_url

LOOPBACK = ("127.0.0.1", "localhost", "::1")
SHUTDOWN_S = 10
SWITCH_S = 0.0002
"""Interval after which a thread gives the interpreter to another: a commit waits for it about ten times."""
RESTART_PAUSE_S = 1.0  # pause of a worker that cannot start before it ends; uvicorn then starts another one
HEALTHCHECK_S = 60
"""A worker that gives no sign of life for so long is replaced; importing its packages may take a while, too."""


@dataclass(frozen=True)
class Ready:
    """A server that is bound and about to run."""

    url: str
    store: str
    model: str  # folder of the model that is served
    is_exposed: bool
    run: Callable[[], int]


def start(model: Path, settings: ServiceSettings, *, is_override: bool = False) -> Ready:
    """Check the keys, the folders, the model and the store, migrate the store, and bind the address.

    The model that the store announces is served instead of `model`, unless `is_override` announces `model`.
    """
    if settings.api_key_file is not None:
        Keys.from_file(Path(settings.api_key_file))
    if settings.images is not None:
        Pictures(settings.images)
    host = settings.host
    settings = settings.changed(
        models=settings.models or str(model.resolve().parent),
        allowed_hosts=settings.allowed_hosts or (LOOPBACK if host in LOOPBACK else ()),
    )
    current = _first_model(model, settings, is_override=is_override)
    if (rules := settings.read_rules()) is not None:
        rules.compiled(current.served.catalogue)
    bound = bound_socket(host, settings.port)
    name = f"[{host}]" if ":" in host else host
    return Ready(
        url=f"http://{name}:{bound.getsockname()[1]}",
        store=printed_url(database_url(settings.store)),
        model=current.served.folder,
        is_exposed=host not in LOOPBACK and settings.api_key_file is None,
        run=lambda: run(str(model.resolve()), settings, bound, current),
    )


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a listening socket; raise with one sentence if the address cannot be bound."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        bound = socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"cannot listen on {host}:{port}: {error}; choose another --host or --port") from error
    # Head and body of an answer are two writes; the second would wait 40 ms for the client's acknowledgement. asyncio
    # sets this itself only on sockets that name their protocol, which those of `create_server` do not.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    bound.set_inheritable(True)
    return bound


@dataclass(frozen=True)
class Worker:
    """The application of one process; sent to worker processes, which call it."""

    folder: str  # the model to serve where the store has announced none
    settings: ServiceSettings
    metrics: str | None = None  # folder in which workers share their metrics

    def __call__(self) -> FastAPI:
        """Build the application; one that cannot be built ends the worker, and uvicorn tries again."""
        configure(self.settings.log_level)
        _stop_with_parent(self.metrics)
        try:
            return self.application()
        except IgcfError as error:
            print(f"Error: {error}", file=sys.stderr)  # noqa: T201
            time.sleep(RESTART_PAUSE_S)
            sys.exit(1)

    def application(self, current: CurrentModel | None = None) -> FastAPI:
        """Build the application; `current` where the model is loaded already."""
        sys.setswitchinterval(SWITCH_S)
        if current is None:
            with closing(Store(self.settings.store)) as store:
                current = CurrentModel.announced(store, Path(self.folder), self.settings)
        context = ServiceContext.open(
            current.served, self.settings, generation=current.generation, metrics_folder=self.metrics
        )
        app = create_app(context)
        gc.collect()
        gc.freeze()  # what lives as long as the process is not scanned again, which takes a tenth of a second each time
        return app


class Supervisor(Multiprocess):
    """Workers, each replaced when it dies.

    uvicorn keeps the worker's end of the pipe open in the parent, too. One that dies while it is asked for a sign of
    life is then waited for until the time is over, and until then no signal is handled and no worker replaced.
    """

    def keep_subprocess_alive(self) -> None:
        """Replace workers that are gone or give no sign of life."""
        for process in self.processes:  # all of them have been started, and have their end
            process.child_conn.close()
        super().keep_subprocess_alive()


def run(folder: str, settings: ServiceSettings, bound: socket.socket, current: CurrentModel | None = None) -> int:
    """Serve until told to stop; returns the exit code. `folder` is for a store that has announced no model."""
    configure(settings.log_level)
    if settings.workers == 1:
        server = uvicorn.Server(_config(Worker(folder, settings).application(current), settings))
        server.run(sockets=[bound])
        return 0 if server.started else 1
    with tempfile.TemporaryDirectory(prefix="igcf-metrics-", ignore_cleanup_errors=True) as metrics:
        config = _config(Worker(folder, settings, metrics), settings, factory=True, workers=settings.workers)
        if hasattr(config, "timeout_worker_healthcheck"):
            config.timeout_worker_healthcheck = HEALTHCHECK_S
        is_older = "target" in inspect.signature(Supervisor).parameters
        more: dict[str, Any] = {"target": uvicorn.Server(config).run} if is_older else {}
        Supervisor(config, sockets=[bound], **more).run()
    return 0


def _config(app: Any, settings: ServiceSettings, **more: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=cast("Any", limited_protocol(settings)),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=SHUTDOWN_S,
        lifespan="on",
        **more,
    )


def _stop_with_parent(metrics: str | None) -> None:
    """End a worker after its parent was killed."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            shutil.rmtree(metrics or "", ignore_errors=True)
            os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="igcf-parent", daemon=True).start()


def _first_model(model: Path, settings: ServiceSettings, *, is_override: bool) -> CurrentModel:
    if is_missing_file(settings.store) or is_override:
        ServedModel.from_folder(model, settings)  # before the store: a mistake here leaves no file behind
    with closing(Store(settings.store)) as store:
        if is_override:
            served = ServedModel.from_folder(model, settings)
            if store.generation()[1] != served.folder:
                store.announce(served.folder, served.model_id)
        return CurrentModel.announced(store, model, settings)
