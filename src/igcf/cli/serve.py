"""`igcf serve`: a model over HTTP."""

import os
from pathlib import Path
from typing import Any

import click

from igcf.cli.output import console, emit_json


@click.command()
@click.argument("model", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65535), help="0: any free port.")
@click.option(
    "--store", default="igcf.db", show_default=True, help="SQLite file, or postgresql://USER:PASSWORD@HOST/DB."
)
@click.option("--workers", default=1, show_default=True, type=click.IntRange(1, 64), help="Server processes.")
@click.option("--api-key-file", type=click.Path(path_type=Path), help="Lines of 'client KEY' and 'admin KEY'.")
@click.option("--cors-origin", "cors_origins", multiple=True, help="Origin of pages that may call; may be repeated.")
@click.option("--policy", default="ucb", show_default=True, help="ucb, info-ucb, thompson or greedy.")
@click.option("--nu", default=0.5, show_default=True, help="Exploration of ucb.")
@click.option("--forgetting", default=1.0, show_default=True, help="Weight that old reactions keep; 1 never forgets.")
@click.option(
    "--models-root", type=click.Path(path_type=Path), help="POST /v1/model loads from below this folder only."
)
@click.option(
    "--log-level", default="info", show_default=True, type=click.Choice(["debug", "info", "warning", "error"])
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document with the address on stdout.")
def serve(model: Path, host: str, port: int, workers: int, as_json: bool, **options: Any) -> None:
    """Serve the model in DIR over HTTP until stopped; the page is at the address printed."""
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")  # before NumPy: requests are what runs side by side here

    from igcf.service.start import start

    served = start(model, host=host, port=port, workers=workers, **options)
    if as_json:
        emit_json({"url": served.url, "pid": os.getpid(), "workers": workers, "store": served.store})
    console.print(f"Serving {model} on {served.url} (store {served.store}); stop with Ctrl-C", highlight=False)
    if served.is_exposed:
        console.print("Anybody who reaches this address may read and change everything: set --api-key-file")
    raise SystemExit(served.run())
