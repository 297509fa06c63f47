"""Where a scenario runs: a folder, a store, models, and the clients' ledger; removed at the end."""

import random
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from igcf.service.store.maintenance import check_store
from igcf.service.store.store import Store
from tests.service.postgres import Cluster
from tools.torture.check import check
from tools.torture.ledger import Ledger
from tools.torture.worlds import save_models


@dataclass
class Place:
    """A store and what is known of it."""

    folder: Path
    url: str
    models: tuple[Path, Path]
    rng: random.Random
    cluster: Cluster | None = None
    ledger: Ledger = field(default_factory=Ledger)

    @property
    def name(self) -> str:
        """The kind of the store."""
        return "PostgreSQL" if self.cluster else "SQLite"

    def check(self, *ports: int, is_whole: bool = False) -> list[str]:
        """Ask the checker."""
        store = Store(self.url)
        try:
            return check(self.ledger, store, ports, self.models, is_whole=is_whole)
        finally:
            store.close()


@contextmanager
def place(seed: int, cluster: Cluster | None = None, within: str | None = None) -> Iterator[Place]:
    """Make an empty store and two models; all files are removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="igcf-torture-", dir=within))
    try:
        url = str(folder / "store.db") if cluster is None else cluster.new_store()
        yield Place(folder, url, save_models(folder), random.Random(seed), cluster)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def check_whole_store(url: str) -> list[str]:
    """Find what is wrong with the store by itself: its file and its invariants."""
    return [f"store: {problem}" for problem in check_store(url)]
