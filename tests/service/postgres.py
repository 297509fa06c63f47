"""A throw-away PostgreSQL cluster on a unix socket, owned by an unprivileged user."""

import os
import shutil
import subprocess
import tempfile
import uuid
from pathlib import Path

import psycopg


class Cluster:
    """Started when made, removed by `close`."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="igcf-pg-", dir="/tmp"))
        self.data = self.folder / "data"
        if os.geteuid() == 0:
            shutil.chown(self.folder, "postgres", "postgres")
        self._run("initdb", "-D", str(self.data), "-U", "postgres", "--auth=trust", "--no-sync", "-E", "UTF8")
        self.start()

    def start(self) -> None:
        """Begin to answer."""
        options = f"-k {self.folder} -c listen_addresses='' -c fsync=off -c max_connections=200"
        self._run("pg_ctl", "-D", str(self.data), "-l", str(self.folder / "log"), "-w", "-o", options, "start")

    def stop(self) -> None:
        """Go away without a word."""
        self._run("pg_ctl", "-D", str(self.data), "-m", "immediate", "stop")

    def new_store(self) -> str:
        """The URL of an empty schema."""
        url, name = f"postgresql://postgres@/postgres?host={self.folder}", f"t{uuid.uuid4().hex}"
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        return f"{url}&options=-csearch_path%3D{name}"

    def close(self) -> None:
        """Stop the cluster and delete its files."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> None:
        user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        command = [*user, str(_binaries() / program), *arguments]
        done = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise RuntimeError(f"{program} failed: {done.stdout}{done.stderr}")


def _binaries() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("pg_ctl")
    if not found and on_path is None:
        raise RuntimeError("PostgreSQL is not installed; run `apt-get install postgresql`")
    return found[-1].parent if found else Path(str(on_path)).parent
