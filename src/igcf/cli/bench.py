"""`igcf bench`: speed as ratios."""

from pathlib import Path

import click

from igcf.cli.options import OUT_FOLDER
from igcf.cli.output import Answer, answers, measured, parts_display


@click.command()
@click.option("--quick", is_flag=True, help="Tiny sizes, in seconds, to see that it runs; the numbers are meaningless.")
@click.option("--out", type=OUT_FOLDER, help="Also write bench.json into this folder.")
@answers
def bench(quick: bool, out: Path | None) -> Answer:
    """Measure speed against the bare operations that any implementation must do, and against other libraries.

    All jobs are measured in one process, in alternation. Ratios carry over to other machines, milliseconds do not.
    Missing libraries are listed and left out: `pip install igcf[bench]`.

    \b
    Examples:
      igcf bench
      igcf bench --json > bench.json
      igcf bench --out bench/
    """
    from importlib.util import find_spec

    from igcf.errors import ConfigError
    from igcf.lab.bench import FULL, PARTS, QUICK, as_text, run_bench

    if find_spec("torch") is None or find_spec("numba") is None:
        raise ConfigError("the graph model is measured too, which needs torch and numba; pip install 'igcf[train]'")
    with parts_display(list(PARTS)) as step:
        document = run_bench(QUICK if quick else FULL, step=step)
    return measured(document, as_text(document), out and out / "bench.json")
