"""`igcf serve`: a model over HTTP."""

import os
import threading
import webbrowser
from pathlib import Path
from typing import Any

import click

from igcf.cli.output import AS_JSON, echo, emit_json, note
from igcf.cli.service_options import CONFIG, FLAGS, GroupedCommand, given, setting_options
from igcf.errors import ConfigError
from igcf.threads import prefer_one_thread


@click.command(cls=GroupedCommand)
@click.argument("model", metavar="[DIR]", required=False)
@click.option("--demo", is_flag=True, help="Serve the embedded catalogue; learned at the first call.")
@CONFIG
@click.option("--print-config", is_flag=True, help="Print the settings and where each comes from, and exit.")
@setting_options
@click.option("--model-override", is_flag=True, help="Announce DIR even if the store names another model.")
@click.option("--import", "log", metavar="LOG", help="Import the reactions of a log first, each once (igcf import).")
@click.option("--open", "opens_browser", is_flag=True, help="Open the page in a browser.")
@AS_JSON
def serve(
    demo: bool,
    config: Path | None,
    print_config: bool,
    model_override: bool,
    log: str | None,
    opens_browser: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Serve the model in DIR over HTTP until stopped; the page is at the address printed.

    Every setting is an option, a variable (IGCF_MAX_K for --max-k) or a line of the file of --config (max_k = 50);
    an option comes before a variable, and a variable before the file.

    \b
    Examples:
      igcf serve model/
      igcf serve model/ --workers 4 --store postgresql://igcf@db/igcf --store-password-file secret --api-key-file keys
      igcf serve --config igcf.toml --print-config
      igcf serve model/ --import ratings.csv
      igcf serve --demo --open
    """
    prefer_one_thread()  # before NumPy: requests are what runs side by side here

    from igcf.model.files import saved_metadata
    from igcf.service.server import start
    from igcf.service.sources import load_settings

    loaded = load_settings(given(options), file=config, flags=FLAGS)
    for text in loaded.notes:
        note(text)
    if print_config:
        emit_json(loaded.described()) if as_json else echo(loaded.toml().rstrip())
        return
    settings = loaded.settings
    folder = _folder(settings.model, demo=demo)
    if demo and loaded.origins["store"] == "default":
        settings = settings.changed(store=str(folder.parent / "demo.db"))
    if log is not None:
        from igcf.cli.import_log import import_into

        import_into(settings.store, log, model=folder)
    served = start(folder, settings, is_override=model_override)
    if as_json:
        emit_json({"url": served.url, "pid": os.getpid(), "workers": settings.workers, "store": served.store})
    if Path(served.model) != folder.resolve():
        note(f"The store says to serve {served.model}, not {folder}; --model-override changes that")
        folder = Path(served.model)
    if success := saved_metadata(folder).get("success"):  # a model that was trained elsewhere has none
        note(success["sentence"])
    note(f"Serving {folder} on {served.url} (store {served.store}); stop with Ctrl-C")
    if served.is_exposed:
        note("Anybody who reaches this address may read and change everything: set --api-key-file")
    if opens_browser:
        threading.Timer(1.0, webbrowser.open, [served.url]).start()
    raise SystemExit(served.run())


def _folder(model: str | None, *, demo: bool) -> Path:
    if demo == (model is not None):
        raise ConfigError("name the model folder to serve, or --demo for the embedded catalogue, and not both")
    if model is not None:
        return Path(model)
    from platformdirs import user_cache_path

    from igcf.lab.demo import demo_model

    return demo_model(user_cache_path("igcf"))
