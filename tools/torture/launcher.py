"""A process that has imported the service and forks servers from itself, so that a restart costs a tenth of a second.

Run as `python -m tools.torture.launcher LOG`; each line on standard input is a JSON document with the model's folder
and the settings, each line on standard output names the process and the port of the server that was started.
"""

import ctypes
import json
import os
import signal
import socket
import sys
from typing import Any

import uvicorn  # noqa: F401 - what a server imports when it starts is imported here, once

import igcf.service.context
import igcf.service.http.application
import igcf.service.http.connections
import igcf.service.http.logs  # noqa: F401
from igcf.service.server import bound_socket, run
from igcf.service.settings import ServiceSettings

PR_SET_PDEATHSIG = 1
"""Linux: ask for a signal when the parent has died."""


def serve(folder: str, settings: dict[str, Any], bound: socket.socket, log: str) -> None:
    """Be a server until told to stop: the same function that `igcf serve` runs; does not return."""
    code = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # no server outlives a torture that was ended
    try:
        for number, flags in ((0, os.O_RDONLY), (1, os.O_WRONLY), (2, os.O_WRONLY | os.O_APPEND | os.O_CREAT)):
            os.dup2(os.open(log if number == 2 else os.devnull, flags), number)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        code = run(folder, ServiceSettings(**settings), bound)
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
    finally:
        os._exit(code)


def launch(log: str) -> None:
    """Fork a server for every line."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the dead need nobody to fetch them
    for line in sys.stdin:
        asked = json.loads(line)
        bound = bound_socket("127.0.0.1", 0)
        pid = os.fork()
        if pid == 0:
            serve(asked["folder"], asked["settings"], bound, log)
        print(json.dumps({"pid": pid, "port": bound.getsockname()[1]}), flush=True)
        bound.close()


if __name__ == "__main__":
    launch(sys.argv[1])
