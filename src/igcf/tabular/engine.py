"""The one database in memory that reads and writes files for a process; nothing is kept in it."""

import os
import re
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from errno import EIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from igcf.threads import reading_threads

if TYPE_CHECKING:
    import duckdb

SETTINGS: dict[str, Any] = {
    "autoinstall_known_extensions": False,  # nothing is fetched and nothing is loaded, whatever a file asks for
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,
    "python_enable_replacements": False,  # a name in a query is never a variable of the program
    "pandas_analyze_sample": 0,  # Python objects are text
    "preserve_insertion_order": True,
    "temp_directory": "",  # nothing is left on a disk
}
OWN_DESCRIPTORS = Path("/proc/self/fd")
PARQUET = "FORMAT parquet, COMPRESSION zstd, USE_TMP_FILE false"
PATTERN_SIGNS = re.compile(r"[*?\[]")

_lock = threading.Lock()
_opened: "list[duckdb.DuckDBPyConnection]" = []
"""The database of this process, once there is one."""


class TableFileError(Exception):
    """A file that is not what it was read as, or cannot be written; its message is one line."""


class Session:
    """One caller's use of the database: a connection with temporary tables of its own."""

    def __init__(self, connection: "duckdb.DuckDBPyConnection") -> None:
        self._connection = connection

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Run a query and return its rows as Python objects."""
        return self._connection.execute(query, list(values)).fetchall()

    def arrays(self, query: str, *values: object) -> list[npt.NDArray[Any]]:
        """Run a query and return its columns, in the order of the table; masked where entries are missing."""
        return list(self._connection.execute(query, list(values)).fetchnumpy().values())

    def write(self, query: str, path: Path) -> None:
        """Write what a query says as a Parquet file; raises OSError where that fails, as writing any file does."""
        import duckdb

        target = literal(os.path.abspath(path))
        try:
            self._connection.execute(f"COPY ({query}) TO {target} ({PARQUET})")
        except duckdb.Error as error:
            raise OSError(EIO, _one_line(str(error))) from error

    def lend(self, name: str, columns: Mapping[str, npt.NDArray[Any]]) -> None:
        """Let queries read arrays as the table `name`; those of objects hold text and None."""
        self._connection.register(name, dict(columns))


@contextmanager
def session() -> Iterator[Session]:
    """Open a session; what the database refuses becomes a `TableFileError`."""
    import duckdb

    connection = _connection(reading_threads())
    try:
        connection.execute("SET TimeZone = 'UTC'")
        yield Session(connection)
    except duckdb.Error as error:
        if isinstance(error, (duckdb.FatalException, duckdb.InternalException)):  # the database would refuse all others
            with _lock:
                _opened.clear()
        raise TableFileError(_one_line(str(error))) from error
    finally:
        connection.close()


def _connection(n_threads: int) -> "duckdb.DuckDBPyConnection":
    import duckdb

    with _lock:
        if not _opened:
            _opened.append(duckdb.connect(":memory:", config=SETTINGS))
        if _opened[0].execute("SELECT current_setting('threads')").fetchall() != [(n_threads,)]:
            _opened[0].execute(f"SET threads = {n_threads:d}")
        return _opened[0].cursor()


def _before_fork() -> None:
    """Let go of the database: its threads would not be there in the child, which would wait for them for ever."""
    _lock.acquire()
    _opened.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_lock.release, after_in_child=_lock.release)


def _one_line(message: str) -> str:
    """Return what is wrong without the line of data that it is about and without advice on options."""
    lines = [line.strip() for line in message.strip().split("\n")]
    first = lines[0].split(": ", 1)[-1] if ": " in lines[0] else lines[0]
    if "CSV Error on Line" not in lines[0]:
        return first
    told = next(
        (line for line in lines[1:] if re.match(r"Expected Number|Invalid unicode|Value with|The par", line)), ""
    )
    return f"line {first.split(':')[-1].strip()}: {told}" if told else first


def plain_path(path: Path) -> str:
    """Return an absolute path as the database takes it for this one file: signs of patterns stand for themselves."""
    return PATTERN_SIGNS.sub(lambda sign: f"[{sign[0]}]", os.path.abspath(path))


@contextmanager
def as_file(content: bytes) -> Iterator[Path]:
    """Make bytes a file that is gone afterwards; where the system allows, one that has no name even meanwhile."""
    if OWN_DESCRIPTORS.is_dir():
        with tempfile.TemporaryFile() as file:
            file.write(content)
            file.flush()
            yield OWN_DESCRIPTORS / str(file.fileno())
        return
    with tempfile.TemporaryDirectory(prefix="igcf-") as folder:
        path = Path(folder) / "content"
        path.write_bytes(content)
        yield path


def literal(text: str) -> str:
    """Quote text for a query."""
    return "'" + text.replace("'", "''") + "'"


def identifier(name: str) -> str:
    """Quote a name for a query."""
    return '"' + name.replace('"', '""') + '"'
