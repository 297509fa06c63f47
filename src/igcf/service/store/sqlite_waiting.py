"""Waiting for other processes that use the same SQLite file, where SQLite itself waits too long or not at all."""

import sqlite3
import time
from typing import Any

import sqlalchemy as sa

LOOK_AGAIN_S = 0.0005
"""Pause between two looks whether other processes have finished writing a SQLite file."""


def begin_to_write(connection: sa.Connection, wait_s: float) -> None:
    """Begin to write as soon as other processes let us.

    SQLite itself looks again after up to 0.1 s, by which time they may have written a dozen times.
    """
    raw: Any = connection.connection.dbapi_connection
    until = time.monotonic() + wait_s
    while time.monotonic() < until:
        try:
            raw.execute("BEGIN IMMEDIATE")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                break
            time.sleep(LOOK_AGAIN_S)
    connection.exec_driver_sql("BEGIN IMMEDIATE")  # says what is wrong


def use_write_ahead_log(connection: Any, wait_s: float) -> bool:
    """Switch to a write-ahead log, and tell whether there is one: some file systems cannot have it.

    SQLite does not wait by itself while another process switches a blank file.
    """
    until = time.monotonic() + wait_s
    while True:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
            return bool(mode == "wal")
        except sqlite3.OperationalError:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)
