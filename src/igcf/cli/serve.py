"""`igcf serve`: a model over HTTP."""

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import click

from igcf.cli.output import console, emit_json, note
from igcf.errors import ConfigError, ModelError
from igcf.threads import prefer_one_thread


@click.command()
@click.argument("model", type=click.Path(path_type=Path), metavar="[DIR]", required=False)
@click.option("--demo", is_flag=True, help="Serve the embedded catalogue; its model is learned at the first call.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65535), help="0: any free port.")
@click.option(
    "--store",
    envvar="IGCF_STORE",
    help="SQLite file [default: igcf.db], or postgresql://USER:PASSWORD@HOST/DB; IGCF_STORE in the environment keeps "
    "the password out of the process list.",
)
@click.option("--workers", default=1, show_default=True, type=click.IntRange(1, 64), help="Server processes.")
@click.option("--api-key-file", type=click.Path(path_type=Path), help="Lines of 'client KEY' and 'admin KEY'.")
@click.option("--cors-origin", "cors_origins", multiple=True, help="Origin of pages that may call; may be repeated.")
@click.option("--policy", help="ucb, info-ucb, thompson or greedy [default: as the model says].")
@click.option("--nu", type=float, help="Exploration of ucb [default: as the model says].")
@click.option("--forgetting", default=1.0, show_default=True, help="Weight that old reactions keep; 1 never forgets.")
@click.option("--skip-rounds", default=20, show_default=True, help="Reactions for which a skipped item is put aside.")
@click.option("--skip-hours", default=24.0, show_default=True, help="Hours for which it is, if they are over first.")
@click.option("--rules", type=click.Path(path_type=Path), help="JSON file of rules that every answer keeps to.")
@click.option(
    "--models-root",
    type=click.Path(path_type=Path),
    help="POST /v1/model loads from below this folder only [default: the folder that holds DIR].",
)
@click.option("--model-override", is_flag=True, help="Announce DIR, though the store says to serve another model.")
@click.option(
    "--allowed-host",
    "allowed_hosts",
    multiple=True,
    help="Name under which the server may be called; may be repeated [default: loopback names on loopback, else any].",
)
@click.option(
    "--log-level", default="info", show_default=True, type=click.Choice(["debug", "info", "warning", "error"])
)
@click.option("--import", "log", metavar="LOG", help="Store the reactions of a log first, each once (igcf import).")
@click.option("--open", "opens_browser", is_flag=True, help="Open the page in a browser.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document with the address on stdout.")
def serve(  # noqa: PLR0913  (one parameter per option)
    model: Path | None,
    demo: bool,
    host: str,
    port: int,
    store: str | None,
    workers: int,
    log: str | None,
    model_override: bool,
    opens_browser: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Serve the model in DIR over HTTP until stopped; the page is at the address printed.

    \b
    Examples:
      igcf serve model/
      igcf serve model/ --workers 4 --store postgresql://igcf:secret@db/igcf --api-key-file keys
      igcf serve model/ --import ratings.csv
      igcf serve --demo --open
    """
    if demo == (model is not None):
        raise ConfigError("name the model folder to serve, or --demo for the embedded catalogue, and not both")
    folder = _demo_model() if model is None else model
    prefer_one_thread()  # before NumPy: requests are what runs side by side here

    from igcf.service.settings import ServiceSettings
    from igcf.service.start import start

    store = store or (str(folder.parent / "demo.db") if demo else "igcf.db")
    texts: dict[str, Any] = {name: str(value) if isinstance(value, Path) else value for name, value in options.items()}
    settings = ServiceSettings(store=store, **texts)
    if log is not None:
        from igcf.cli.import_log import import_into

        import_into(store, folder, log, None, None)
    served = start(folder, settings, host=host, port=port, workers=workers, is_override=model_override)
    if as_json:
        emit_json({"url": served.url, "pid": os.getpid(), "workers": workers, "store": served.store})
    if Path(served.model) != folder.resolve():
        console.print(f"The store says to serve {served.model}, not {folder}; --model-override changes that")
        folder = Path(served.model)
    _tell_success(folder)
    console.print(f"Serving {folder} on {served.url} (store {served.store}); stop with Ctrl-C", highlight=False)
    if served.is_exposed:
        console.print("Anybody who reaches this address may read and change everything: set --api-key-file")
    if opens_browser:
        threading.Timer(1.0, _open, [served.url]).start()
    raise SystemExit(served.run())


def _tell_success(folder: Path) -> None:
    """Say what counts as a success in the log of a model; one that was not trained here does not tell."""
    from igcf.model.files import saved_metadata

    success = saved_metadata(folder).get("success")
    if success:
        note(success["sentence"])


def _demo_model() -> Path:
    """Return the folder of the embedded catalogue's model, learned once, in another process."""
    from platformdirs import user_cache_path

    from igcf.version import __version__

    folder = user_cache_path("igcf") / f"demo-{__version__}" / "model"
    if not folder.exists():
        console.print("Learning the embedded catalogue, once")
        command = [sys.executable, "-m", "igcf", "pretrain", "--dataset", "synthetic", "--out", str(folder)]
        if subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode:  # noqa: S603
            raise ModelError("the embedded catalogue could not be learned; run `igcf demo` to see why")
    return folder


def _open(url: str) -> None:
    import webbrowser

    webbrowser.open(url)
