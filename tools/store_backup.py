"""How long a copy of a large store takes, and how large it is: `python -m tools.store_backup --folder /tmp/x`.

Fills a SQLite store with users and their reactions, then runs `igcf store backup`,
`restore`, `check`, `export` and `import` one after the other.
"""

import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click
import numpy as np
import sqlalchemy as sa

from igcf.service.serving.served_model import ServedModel
from igcf.service.settings import ServiceSettings
from igcf.service.store.store import Store
from igcf.service.store.tables import feedback, users
from tools.load import random_model

BATCH = 2_000
"""Users in one transaction."""


def fill(url: str, model: Path, *, n_users: int, n_reactions: int, seed: int) -> None:
    """Store so many users with about so many reactions."""
    served = ServedModel.from_folder(model, ServiceSettings())
    rng = np.random.default_rng(seed)
    each = n_reactions // n_users
    store = Store(url)
    for start in range(0, n_users, BATCH):
        people, log = [], []
        for number in range(start, min(start + BATCH, n_users)):
            user_id = f"user-{number:07d}"
            items = rng.choice(served.model.n_items, size=each, replace=False)
            for revision, row in enumerate(items, start=1):
                item_id, value = served.model.item_ids[int(row)], float(rng.integers(1, 6))
                log.append(
                    {
                        "user_id": user_id,
                        "revision": revision,
                        "event_id": f"{number:x}-{revision:x}-{rng.integers(2**62):016x}",
                        "item_id": item_id,
                        "value": value,
                        "time": 1.7e9 + 60.0 * revision + number,
                        "arrived": 1.7e9 + 60.0 * revision + number,
                        "model": served.model_id,
                        "evidence": "shown",
                    }
                )
            people.append({"user_id": user_id, "incarnation": f"{number:032x}", "revision": each, "updated": 1.7e9})
        rows = ((users, people), (feedback, log))

        def work(connection: sa.Connection, rows: tuple[tuple[sa.Table, list[dict[str, Any]]], ...] = rows) -> None:
            for table, content in rows:
                connection.execute(sa.insert(table), content)

        store.database.write(work)
    store.close()


def timed(*arguments: str) -> float:
    """Run `igcf store ...` and return its seconds; what it says goes to standard error."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-m", "igcf", "store", *arguments], check=True, stdout=sys.stderr)
    return time.perf_counter() - started


@click.command()
@click.option("--folder", required=True, type=click.Path(path_type=Path), help="New folder for everything; removed.")
@click.option("--users", "n_users", default=100_000, show_default=True)
@click.option("--reactions", "n_reactions", default=1_000_000, show_default=True)
def main(folder: Path, n_users: int, n_reactions: int) -> None:
    """Print one row per command: seconds, and megabytes of what it wrote."""
    folder.mkdir(parents=True)
    try:
        model, store = folder / "model", str(folder / "store.db")
        random_model(n_items=2_000).save(model)
        fill(store, model, n_users=n_users, n_reactions=n_reactions, seed=0)
        click.echo(f"store: {size(folder / 'store.db'):.0f} MB")
        click.echo("| command | seconds | MB |\n|---|---|---|")
        again, moved = str(folder / "again.db"), str(folder / "moved.db")
        for name, arguments, written in (
            ("backup", [str(folder / "copy"), "--store", store], folder / "copy"),
            ("restore", [str(folder / "copy"), "--store", again], folder / "again.db"),
            ("check", ["--store", again], None),
            ("export", [str(folder / "export"), "--store", store], folder / "export"),
            ("import", [str(folder / "export"), "--store", moved], folder / "moved.db"),
        ):
            seconds = timed(name, *arguments)
            click.echo(f"| `{name}` | {seconds:.1f} | {'' if written is None else f'{size(written):.0f}'} |")
    finally:
        shutil.rmtree(folder)


def size(path: Path) -> float:
    """Return the megabytes of a file or of all files in a folder."""
    files = [each for each in path.rglob("*") if each.is_file()] if path.is_dir() else [path]
    return sum(each.stat().st_size for each in files) / 1e6


if __name__ == "__main__":
    main()
