"""`igcf index`: the index of a large catalogue."""

import time
from pathlib import Path

import click

from igcf.cli.options import AS_JSON, PATH
from igcf.cli.output import emit_json, note
from igcf.threads import prefer_one_thread


@click.command()
@click.argument("model", type=PATH)
@AS_JSON
def index(model: Path, as_json: bool) -> None:
    """Build the index of the items of MODEL and store it in the model's folder, in place of any that is there.

    `igcf serve` asks it for candidates instead of scoring every item; all processes of a machine share one copy. Needs
    faiss: pip install 'igcf[index]'. Serving from a stored index does not.

    \b
    Examples:
      igcf index model/
      igcf serve model/ --index faiss
    """
    prefer_one_thread()  # before NumPy

    from igcf.model.files import load_model
    from igcf.online.index import build_lists, save_lists

    loaded = load_model(model)
    begun = time.perf_counter()
    lists = build_lists(loaded)
    folder = save_lists(lists, model)
    seconds, size = time.perf_counter() - begun, sum(path.stat().st_size for path in folder.iterdir())
    if as_json:
        counts = {"items": len(lists.rows), "lists": lists.n_lists, "bytes": size, "seconds": seconds}
        emit_json({"folder": str(folder), **counts})
        return
    told = f"{len(lists.rows):,} items in {lists.n_lists:,} lists, {size / 1e6:,.1f} MB, {seconds:.1f} s"
    note(f"Index written to {folder}: {told}")
