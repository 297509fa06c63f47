"""Where a store is: a SQLite file or the URL of a PostgreSQL database, read, checked and printed."""

from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import exc

from igcf.errors import StoreError

PASSWORDS = ("password", "sslpassword")
"""Parts of a URL's query that are never printed."""
EXPECTED = "expected a file name, sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DB"


def database_url(store: str) -> sa.URL:
    """A URL for SQLAlchemy; a text without `://` is the path of a SQLite file."""
    if "://" not in store:
        return sa.URL.create("sqlite", database=str(Path(store).expanduser()))
    try:
        url = sa.make_url(store)
    except (exc.ArgumentError, ValueError) as error:
        raise StoreError(f"the store URL cannot be read; {EXPECTED}") from error
    if url.drivername in ("postgresql", "postgres", "postgresql+psycopg"):
        return url.set(drivername="postgresql+psycopg")
    if url.drivername == "sqlite" and url.database not in (None, "", ":memory:"):
        return url
    raise StoreError(f"store {printed_url(url)!r} is not supported; {EXPECTED}")


def is_missing_file(store: str) -> bool:
    """Whether a store is a SQLite file that is not there, in a folder that is."""
    url = database_url(store)
    path = Path(str(url.database))
    return url.drivername == "sqlite" and path.parent.is_dir() and not path.exists()


def printed_url(url: sa.URL) -> str:
    """Write a URL as it may be printed and logged, without passwords."""
    return url.difference_update_query(PASSWORDS).render_as_string(hide_password=True)


def printed_store(store: str) -> str:
    """Write a store as it may be printed, also one that cannot be opened."""
    if "://" not in store:
        return store
    try:
        return printed_url(sa.make_url(store))
    except (exc.ArgumentError, ValueError):
        return "(no URL of a store)"
