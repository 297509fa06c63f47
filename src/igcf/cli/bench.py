"""`igcf bench`: speed as ratios."""

from dataclasses import replace
from pathlib import Path

import click

from igcf.cli.options import AS_JSON, PATH
from igcf.cli.output import emit_measured, parts_display, prepare_folder


@click.command()
@click.option("--quick", is_flag=True, help="Tiny sizes: see that it runs, in seconds; the numbers mean nothing.")
@click.option("--large", is_flag=True, help="Also 20 million interactions; needs 8 GB and some minutes.")
@click.option("--dataset", help="Also train on this log (ml-1m) until 99 % of its final validation precision.")
@click.option("--out", type=PATH, help="Also write bench.json into this folder.")
@AS_JSON
def bench(quick: bool, large: bool, dataset: str | None, out: Path | None, as_json: bool) -> None:
    """Measure speed beside the bare operations that any implementation must do, and beside peers.

    Everything is measured in one process, the compared jobs taking turns. Ratios travel between machines, the
    milliseconds beside them do not. Peers that are not installed are named and left out: `pip install igcf[bench]`.

    \b
    Examples:
      igcf bench
      igcf bench --json > bench.json
      igcf bench --large --dataset ml-1m --out bench/
    """
    from importlib.util import find_spec

    from igcf.data.registry import dataset_info
    from igcf.errors import ConfigError
    from igcf.lab.bench import FULL, LARGE, PARTS, QUICK, as_text, run_bench

    if find_spec("torch") is None or find_spec("numba") is None:
        raise ConfigError("the graph model is measured too, which needs torch and numba; pip install 'igcf[train]'")
    if quick and large:
        raise ConfigError("--quick and --large contradict each other; choose one")
    if dataset is not None:
        dataset_info(dataset)  # refuses an unknown name before anything is measured
    if out is not None:
        prepare_folder(out)
    sizes = replace(QUICK if quick else LARGE if large else FULL, dataset=dataset)
    with parts_display(list(PARTS)) as step:
        document = run_bench(sizes, step=step)
    emit_measured(document, as_text(document), file=out and out / "bench.json", as_json=as_json)
