"""`igcf recommend-all`: recommendations for every user of a store, in one file."""

import time
from pathlib import Path

import click

from igcf.cli.options import COUNT, NEW, PATH
from igcf.cli.output import Answer, answers
from igcf.cli.service_options import CONFIG, STORE, context_of
from igcf.progress import show_progress
from igcf.threads import prefer_one_thread


@click.command("recommend-all")
@click.argument("model", type=PATH)
@STORE
@CONFIG
@click.option("--out", required=True, type=NEW, help="Parquet file to write; it must not exist.")
@click.option("-k", "k", default=10, show_default=True, type=COUNT, help="Items per user.")
@answers
def recommend_all(model: Path, store: str | None, config: Path | None, out: Path, k: int) -> Answer:
    """Write the best items of every user of a store to a Parquet file, for e-mail and other batch jobs.

    Columns: user, rank, item, score, chance. Run the same command again to resume an interrupted run. Nothing is
    logged as shown; report what users did with POST /v1/feedback.

    \b
    Examples:
      igcf recommend-all model/ --store igcf.db --out recs.parquet
      igcf recommend-all model/ --store postgresql://igcf@db/igcf -k 5 --out recs.parquet
    """
    prefer_one_thread()  # before NumPy
    from igcf.service.batch import recommend_all as write_batch

    started = time.perf_counter()
    with context_of(model, store, config) as context, show_progress() as report:
        batch = write_batch(context, out, k, report=report)
    seconds = time.perf_counter() - started
    resumed = f", {batch.resumed:,} of them by an earlier run" if batch.resumed else ""
    return Answer(
        {"out": str(out), **batch._asdict(), "seconds": seconds},
        note=f"{out}: {batch.rows:,} recommendations for {batch.users:,} users{resumed}; {seconds:.1f} s",
    )
