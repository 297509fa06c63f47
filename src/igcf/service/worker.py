"""One worker process: the model in service, the application, and the connections to it."""

import gc
import json
import os
import signal
import socket
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from igcf.errors import IgcfError
from igcf.service.serving.current_model import CurrentModel
from igcf.service.settings import ServiceSettings

MISTAKE = 2
"""Exit code of a worker that cannot start because of a user's mistake."""
SHUTDOWN_S = 10
SWITCH_S = 0.0002
"""How long a thread may keep the interpreter from another: a commit gives it away ten times, with others in line."""


@dataclass(frozen=True)
class Place:
    """What a worker needs to know beside the settings."""

    folder: str
    """The model to serve where the store has announced none."""
    socket_fd: int
    parent_fd: int | None = None
    """Reads as ended when the supervisor is gone."""
    up_fd: int | None = None
    """Where to say, by one byte with the number of the slot, that this worker serves."""
    slot: int = 0
    is_restart: bool = False


def work(place: Place, settings: ServiceSettings, current: CurrentModel | None = None) -> int:
    """Serve in this process until told to stop; `current` where the model is loaded already."""
    import uvicorn

    from igcf.service.context import ServiceContext
    from igcf.service.http.application import create_app
    from igcf.service.http.connections import limited_protocol
    from igcf.service.http.logs import configure
    from igcf.service.store.store import Store

    configure(settings.log_level)
    sys.setswitchinterval(SWITCH_S)
    if current is None:
        store = Store(settings.store)
        try:
            current = CurrentModel.announced(store, Path(place.folder), settings)
        finally:
            store.close()
    context = ServiceContext.open(current.served, settings, generation=current.generation)
    if place.is_restart:
        context.metrics.worker_restarts.inc()
    config = uvicorn.Config(
        create_app(context),
        http=cast("Any", limited_protocol(settings)),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=SHUTDOWN_S,
        lifespan="on",
    )

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            # What lives as long as the process is not looked through again: that takes a tenth of a second each time.
            gc.collect()
            gc.freeze()
            if self.started and place.up_fd is not None:
                os.write(place.up_fd, bytes([place.slot]))

    server = Server(config)
    if place.parent_fd is not None:
        _stop_with_parent(place.parent_fd)
    server.run(sockets=[socket.socket(fileno=os.dup(place.socket_fd))])
    return 0 if server.started else 1


def _stop_with_parent(parent_fd: int) -> None:
    """A worker whose supervisor was killed stops too: the pipe to it then reads as ended."""

    def watch() -> None:
        os.read(parent_fd, 1)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="igcf-parent", daemon=True).start()


def main(place: str) -> int:
    """Run a worker process, whose settings come through standard input."""
    try:
        return work(Place(**json.loads(place)), ServiceSettings.from_json(sys.stdin.read()))
    except IgcfError as error:
        print(f"Error: {error}", file=sys.stderr)  # noqa: T201
        return MISTAKE


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
