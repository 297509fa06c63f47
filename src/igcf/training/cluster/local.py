"""Workers as processes of this machine; the calling process is rank 0."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO

from torch.distributed import TCPStore  # type: ignore[attr-defined]

from igcf.errors import WorkerLostError
from igcf.training.cluster.rendezvous import rendezvous, worker_threads
from igcf.training.cluster.team import Team

HOST = "127.0.0.1"
GRACE_SECONDS = 5.0


class Worker:
    """A started worker process and what it wrote to standard error."""

    def __init__(self, rank: int, n_workers: int, port: int) -> None:
        variables = {"RANK": rank, "WORLD_SIZE": n_workers, "MASTER_ADDR": HOST, "MASTER_PORT": port}
        self.rank, self.n_workers = rank, n_workers
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed in `end`)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "igcf.training.cluster.process"],
            env=os.environ
            | {name: str(value) for name, value in variables.items()}
            | {"TORCH_CPP_LOG_LEVEL": "ERROR", "PYTHONWARNINGS": "ignore"},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
        )

    def exit_reason(self) -> str | None:
        """Say in words how the process ended; None while it runs."""
        code = self.process.poll()
        if code is None:
            return None
        name = f"worker {self.rank + 1} of {self.n_workers} (process {self.process.pid})"
        if code < 0:
            return f"{name} was killed by signal {-code} ({signal.Signals(-code).name})"
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return f"{name} ended with code {code}" + (f" ({lines[-1].strip()})" if lines else "")

    def end(self, seconds: float) -> None:
        """Wait some seconds for the process to finish, then kill it."""
        assert self.process.stdin is not None  # noqa: S101
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdin.close()
        self._errors.close()


@contextmanager
def local_team(n_workers: int) -> Iterator[Team]:
    """Start the other workers; they end with the block, whatever happens in it, and with this process."""
    store = TCPStore(HOST, 0, n_workers, is_master=True, wait_for_workers=False)
    workers = [Worker(rank, n_workers, store.port) for rank in range(1, n_workers)]
    patience = 0.0

    def check() -> None:
        reasons = [reason for worker in workers if (reason := worker.exit_reason())]
        if reasons:
            raise WorkerLostError(reasons[0])

    try:
        group, threads = rendezvous(store, 0, n_workers, host=HOST, check=check)
        with worker_threads(threads):
            team = Team(group, store, n_workers=n_workers)
            yield team
        team.stop()
        patience = GRACE_SECONDS
    except WorkerLostError as error:
        raise WorkerLostError(_first_exit_reason(workers) or str(error)) from error
    finally:
        for worker in workers:
            worker.end(patience)


def _first_exit_reason(workers: Sequence[Worker]) -> str | None:
    """Return why the worker that died of a signal, or otherwise first, ended; the others lost a connection."""
    deadline = time.monotonic() + GRACE_SECONDS
    while time.monotonic() < deadline:
        ended = [worker for worker in workers if worker.process.poll() is not None]
        if ended:
            ended.sort(key=lambda worker: worker.process.returncode)  # signals are negative
            if ended[0].process.returncode != 0:
                return ended[0].exit_reason()
        time.sleep(0.02)
    return None
