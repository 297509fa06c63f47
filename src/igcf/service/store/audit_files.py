"""The audit in a folder: one Parquet file per process and hour, beside the journals of answers that are in none yet.

An answer is first appended to the journal of its process and hour, durably. When the hour is over, any process may turn
the journal into a Parquet file: written under another name, made durable, renamed, and only then the journal removed. A
reader meets every answer once, in the one or in the other. Whoever changes a file holds a lock on it.
"""

import fcntl
import json
import os
import socket
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from glob import glob
from pathlib import Path
from typing import IO, Any

from pydantic_core import to_json

from igcf.errors import StoreError
from igcf.service.store.audit_reading import COLUMNS, JOURNAL, TABLE, Answer, read_answers_of, readable, whole_lines
from igcf.service.store.durable import make_durable

HOUR_S = 3600.0
GRACE_S = 60.0
"""How long after an hour its journals still wait for answers that were given in it."""
LARGEST_JOURNAL = 64_000_000
"""Bytes at which a journal is made a Parquet file before its hour is over: so much is held in memory for that."""
PART = ".part"
Line = Mapping[str, Any]


class AuditFolder:
    """The answers of all servers that share the folder, which is on one machine or on a file system with `flock`."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = self.folder / ".lock"
            self._lock.touch()
        except OSError as error:
            raise StoreError(f"cannot write the audit to {self.folder}: {error.strerror or error}") from error
        self._process = f"{socket.gethostname()}-{os.getpid()}"
        self._journals: dict[str, Path] = {}
        self._turn = threading.Lock()

    @classmethod
    def existing(cls, folder: str | Path) -> "AuditFolder":
        """Open a folder that a server has written."""
        if not (Path(folder) / ".lock").is_file():
            raise StoreError(f"{folder} is no folder of an audit; `igcf serve --audit {folder}` writes one")
        return cls(folder)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold while answers are sorted out and appended: a deletion waits for those who began before it."""
        with _told("write the audit", self.folder), self._lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            yield

    def append(self, answers: Sequence[Line]) -> None:
        """Add answers; they are durable when this returns, or nothing was added to the journal that failed."""
        of_hour: defaultdict[str, list[Line]] = defaultdict(list)
        for answer in answers:
            of_hour[hour_name(answer["time"])].append(answer)
        with _told("write the audit", self.folder), self._turn:
            for hour, lines in of_hour.items():
                content = b"".join(to_json(line, inf_nan_mode="null") + b"\n" for line in lines)
                while not _appended(self._journal(hour), content):
                    del self._journals[hour]  # another process has made it a Parquet file

    def finish(self) -> None:
        """Turn journals into Parquet files: those of hours that are over, and own ones that have grown large.

        One that cannot be read does not keep the others from it, and is told at the end.
        """
        over = hour_name(time.time() - HOUR_S - GRACE_S)
        damaged: list[StoreError] = []
        with _told("write the audit", self.folder), self._turn:
            self._remove_left_over()
            large = [path for path in self._journals.values() if _size(path) > LARGEST_JOURNAL]
            for path in self._files(JOURNAL):
                if path.parent.name <= over or path in large:
                    try:
                        _finish(path)
                    except StoreError as error:
                        damaged.append(error)
            self._journals = {hour: path for hour, path in self._journals.items() if path.exists()}
        if damaged:
            raise damaged[0]

    def delete_before(self, moment: float) -> int:
        """Delete the files of hours that ended before a moment; returns how many there were."""
        over, n = hour_name(moment - HOUR_S), 0
        with _told("delete old answers of the audit", self.folder):
            for path in (*self._files(JOURNAL), *self._files(TABLE)):
                if path.parent.name <= over:
                    with _locked(path) as file:
                        if file is not None:
                            path.unlink()
                            n += 1
                    with suppress(OSError):  # others are still in it
                        path.parent.rmdir()
        return n

    def delete_user(self, user_id: str) -> None:
        """Remove all answers to a user, whose deletion is known to those who write from now on."""
        self._change(user_id, None)

    def rename_user(self, user_id: str, becomes: str) -> None:
        """Let all answers to a user be answers to another one."""
        self._change(user_id, becomes)

    def answers(self, since: float | None = None) -> Iterator[list[Answer]]:
        """Read all answers, or those of the hours from a moment on, file by file: each answer once."""
        first, read = "" if since is None else hour_name(since), set[str]()
        for ending in (JOURNAL, TABLE):  # a journal that becomes a table meanwhile is met in one of them at least
            for path in self._files(ending):
                if path.parent.name < first or path.stem in read:
                    continue
                with suppress(FileNotFoundError):
                    yield read_answers_of(path)
                    read.add(path.stem)

    def _journal(self, hour: str) -> Path:
        path = self._journals.get(hour)
        if path is None:
            folder = self.folder / hour
            folder.mkdir(exist_ok=True)
            path = self._journals[hour] = folder / f"{self._process}-{uuid.uuid4().hex[:12]}{JOURNAL}"
            path.touch()
            make_durable(folder)
            make_durable(self.folder)
        return path

    def _files(self, ending: str) -> list[Path]:
        return sorted(self.folder / name for name in glob(f"hour=*/*{ending}", root_dir=self.folder))

    def _remove_left_over(self) -> None:
        """Remove what a process was writing when it was killed: it may hold answers to users who are deleted later."""
        for name in glob(f"hour=*/.*{PART}", root_dir=self.folder):
            part = self.folder / name
            path = part.with_name(part.name.removeprefix(".").removesuffix(PART))
            # Whoever writes it holds one of these.
            with _locked(path.with_suffix(JOURNAL)), _locked(path.with_suffix(TABLE)):
                part.unlink(missing_ok=True)

    def _change(self, user_id: str, becomes: str | None) -> None:
        with _told("change the audit", self.folder):
            with self._lock.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX)  # those who did not know of it yet have written
            self._remove_left_over()
            for path in self._files(JOURNAL):
                _change_journal(path, user_id, becomes)
            for path in self._files(TABLE):  # after the journals, which may have become tables meanwhile
                _change_table(path, user_id, becomes)


def hour_name(moment: float) -> str:
    """Name the folder of the hour (UTC) that a moment is in."""
    return f"hour={datetime.fromtimestamp(moment, UTC):%Y-%m-%dT%H}"


def _appended(path: Path, content: bytes) -> bool:
    """Append to a journal; False where it is a table by now, or ends with a part of a line that could not be undone."""
    with _locked(path) as file:
        if file is None or path.with_suffix(TABLE).exists():
            return False
        before = file.seek(0, os.SEEK_END)
        if before and os.pread(file.fileno(), 1, before - 1) != b"\n":
            return False
        try:
            left = memoryview(content)
            while left:
                left = left[file.write(left) :]
            os.fsync(file.fileno())
        except OSError:
            file.truncate(before)
            raise
        return True


def _finish(path: Path) -> None:
    from igcf.tabular.records import lines_to_parquet

    with _locked(path) as file:
        if file is None:
            return
        if not path.with_suffix(TABLE).exists():  # it does where a process was killed before it removed the journal
            content = whole_lines(file.read())
            with readable(path):
                if content:
                    order = ("user_id", "time")
                    _replace(path.with_suffix(TABLE), lambda part: lines_to_parquet(content, COLUMNS, part, order))
        path.unlink()


def _change_journal(path: Path, user_id: str, becomes: str | None) -> None:
    name = to_json(user_id)
    with _locked(path) as file:
        if file is None:
            return
        content = file.read()
        if name not in content:
            return
        kept = []
        for line in content[: content.rfind(b"\n") + 1].splitlines(keepends=True):
            answer = _answer(line) if name in line else {}
            if answer is None:  # damaged, and about this user perhaps
                continue
            if answer.get("user_id") != user_id:
                kept.append(line)
            elif becomes is not None:
                kept.append(to_json(answer | {"user_id": becomes}) + b"\n")
        _replace(path, lambda part: part.write_bytes(b"".join(kept)))


def _answer(line: bytes) -> dict[str, Any] | None:
    """Read a line of a journal; None where it is damaged."""
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None


def _change_table(path: Path, user_id: str, becomes: str | None) -> None:
    from igcf.tabular.records import changed_copy, count_equal

    with _locked(path) as file, readable(path):
        if file is None:
            return
        n_theirs, n_rows = count_equal(path, "user_id", user_id)
        if n_theirs == n_rows and becomes is None:
            path.unlink()
        elif n_theirs:
            _replace(path, lambda part: changed_copy(path, part, "user_id", user_id, becomes))


@contextmanager
def _locked(path: Path) -> Iterator[IO[bytes] | None]:
    """Open a file and keep others from changing it; None where it is not there any more."""
    while True:
        try:
            file = path.open("r+b", buffering=0)
        except FileNotFoundError:
            yield None
            return
        with file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if _is_at(path, file):  # not replaced while we waited
                yield file
                return


def _size(path: Path) -> int:
    """Bytes of a file; none where another process has turned it into a table."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _is_at(path: Path, file: IO[bytes]) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _replace(path: Path, write: Callable[[Path], object]) -> None:
    """Put a file in its place whole and durable, or leave what is there."""
    part = path.with_name(f".{path.name}{PART}")
    try:
        write(part)
        make_durable(part)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    make_durable(path.parent)


@contextmanager
def _told(what: str, folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(f"cannot {what} in {folder}: {error.strerror or error}") from error
