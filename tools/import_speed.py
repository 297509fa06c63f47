"""Reactions a second: a whole log imported, beside single reactions, on the same store in one run.

`python -m tools.import_speed ml-1m MODEL STORE` prints one line for docs/design/service.md.
"""

import sys
import time
from pathlib import Path

from igcf.data import load_dataset
from igcf.service.context import ServiceContext
from igcf.service.models.requests import Feedback
from igcf.service.settings import ServiceSettings
from igcf.service.store.transfer import import_interactions
from tests.service.conftest import react

SINGLE = 500
"""Single reactions before the import, and as many after it."""


def main(dataset: str, folder: Path, store: str) -> None:
    """Measure and print."""
    data = load_dataset(dataset)
    context = ServiceContext.open(folder, ServiceSettings(store=store))
    try:
        before = _single(context, "before")
        started = time.perf_counter()
        done = import_interactions(context.store, data, context.current_model.served.model_id)
        imported = done.stored / (time.perf_counter() - started)
        started = time.perf_counter()
        again = import_interactions(context.store, data, context.current_model.served.model_id)
        repeated = again.reactions / (time.perf_counter() - started)
        after = _single(context, "after")
    finally:
        context.close()
    single, is_postgres = (before + after) / 2, context.store.database.is_postgres
    sys.stdout.write(
        f"{'PostgreSQL' if is_postgres else 'SQLite'}: {done.stored:,} reactions imported, "
        f"{imported:,.0f} a second; repeated ({again.stored} stored) {repeated:,.0f} a second; "
        f"single reactions {single:,.0f} a second (ratio {imported / single:,.0f})\n"
    )


def _single(context: ServiceContext, name: str) -> float:
    """Store single reactions of 50 users, each durable, and return how many a second."""
    items = context.current_model.served.model.item_ids
    started = time.perf_counter()
    for number in range(SINGLE):
        react(context, f"{name}-{number % 50}", Feedback(item=items[number % len(items)], value=4.0))
    return SINGLE / (time.perf_counter() - started)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
