"""Running the application: one process, or a supervisor with several worker processes on one socket."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from igcf.errors import ConfigError, IgcfError
from igcf.service.serving.served_model import ServedModel
from igcf.service.settings import ServiceSettings

MISTAKE = 2
"""Exit code of a worker that cannot start because of a user's mistake: the others are stopped too."""
GRACE_S = 15
RESTART_PAUSE_S = 0.5
SWITCH_S = 0.001
"""How long the thread that writes the audit log may keep the interpreter from the one that answers."""


@dataclass(frozen=True)
class Place:
    """What a worker needs to know beside the settings."""

    folder: str
    generation: int
    socket_fd: int
    parent_fd: int | None = None


def bound_socket(host: str, port: int) -> socket.socket:
    """A listening socket, or one sentence about why there is none."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        bound = socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"cannot listen on {host}:{port}: {error}; choose another --host or --port") from error
    bound.set_inheritable(True)
    return bound


def run(served: ServedModel, settings: ServiceSettings, bound: socket.socket, *, workers: int, generation: int) -> int:
    """Serve until told to stop; returns the exit code."""
    place = Place(served.folder, generation, bound.fileno())
    if workers == 1:
        return work(place, settings, served)
    return Supervisor(place, settings, workers).run()


def work(place: Place, settings: ServiceSettings, served: ServedModel | None = None) -> int:
    """One worker, in this process; `served` where the model is loaded already."""
    import uvicorn

    from igcf.service.context import ServiceContext
    from igcf.service.http.application import create_app
    from igcf.service.http.logs import configure

    configure(settings.log_level)
    sys.setswitchinterval(SWITCH_S)
    served = served or ServedModel.from_folder(Path(place.folder), settings)
    app = create_app(ServiceContext.open(served, settings, generation=place.generation))
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=GRACE_S - 5,
        lifespan="on",
    )
    server = uvicorn.Server(config)
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


class Supervisor:
    """Starts workers, starts them again when they die, stops them together."""

    def __init__(self, place: Place, settings: ServiceSettings, workers: int) -> None:
        self._place, self._settings, self._count = place, settings, workers
        self._workers: list[subprocess.Popen[bytes]] = []
        self._stopping = threading.Event()

    def run(self) -> int:
        """Until a signal or a worker's mistake."""
        read_fd, write_fd = os.pipe()
        with tempfile.TemporaryDirectory(prefix="igcf-metrics-") as metrics:
            environment = os.environ | {"PROMETHEUS_MULTIPROC_DIR": metrics, "IGCF_WORKERS": str(self._count)}
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, self._stop)
            self._workers = [self._start(environment, read_fd) for _ in range(self._count)]
            code = 0
            while not self._stopping.wait(0.1):
                for place, worker in enumerate(self._workers):
                    if worker.poll() is None:
                        continue
                    if worker.returncode == MISTAKE:
                        code = MISTAKE
                        self._stopping.set()
                        break
                    line = json.dumps({"level": "error", "message": "worker died", "code": worker.returncode})
                    print(line, file=sys.stderr)  # noqa: T201
                    time.sleep(RESTART_PAUSE_S)
                    self._workers[place] = self._start(environment, read_fd)
            self._end_all()
        os.close(read_fd)
        os.close(write_fd)
        return code

    def _start(self, environment: dict[str, str], parent_fd: int) -> subprocess.Popen[bytes]:
        place = json.dumps(vars(self._place) | {"parent_fd": parent_fd})
        command = [sys.executable, "-m", "igcf.service.server", place, self._settings.to_json()]
        # A group of their own: Ctrl-C reaches the supervisor alone, which then stops them in order.
        return subprocess.Popen(  # noqa: S603
            command, env=environment, pass_fds=(self._place.socket_fd, parent_fd), process_group=0
        )

    def _stop(self, _: int, __: FrameType | None) -> None:
        self._stopping.set()

    def _end_all(self) -> None:
        for worker in self._workers:
            if worker.poll() is None:
                worker.terminate()
        deadline = time.monotonic() + GRACE_S
        for worker in self._workers:
            try:
                worker.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()


def main(place: str, settings: str) -> int:
    """What a worker process runs."""
    try:
        return work(Place(**json.loads(place)), ServiceSettings.from_json(settings))
    except IgcfError as error:
        print(f"Error: {error}", file=sys.stderr)  # noqa: T201
        return MISTAKE


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
