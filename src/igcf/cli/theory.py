"""`igcf theory`: the guarantees, simulated."""

from pathlib import Path

import click

from igcf.cli.options import OUT_FOLDER, SEED
from igcf.cli.output import Answer, answers, measured, parts_display


@click.command()
@click.option("--dim", default=8, show_default=True, help="Size d of user and item vectors.")
@click.option("--n-items", default=500, show_default=True, help="Size N of the catalogue.")
@click.option("--rounds", default=400, show_default=True, help="Rounds T per user.")
@click.option("--n-users", default=200, show_default=True, help="Simulated users per curve.")
@click.option("--delta", default=0.05, show_default=True, help="Failure probability of the confidence bound.")
@click.option("--noise-var", default=0.25, show_default=True, help="Variance of the noise on a reward.")
@click.option("--cov-low", default=0.1, show_default=True, help="Smallest eigenvalue of the population covariance.")
@click.option("--cov-high", default=1.0, show_default=True, help="Largest eigenvalue of the population covariance.")
@click.option("--mean-norm", default=1.0, show_default=True, help="Norm m of the population mean.")
@click.option("--radius", default=1.5, show_default=True, help="Largest norm a of an item vector.")
@SEED
@click.option("--out", type=OUT_FOLDER, help="Also write theory.json into this folder.")
@answers
def theory(out: Path | None, **options: float) -> Answer:
    """Check the confidence bound, the regret bound and the estimated prior by simulation.

    \b
    Examples:
      igcf theory
      igcf theory --delta 0.2 --dim 16 --json
      igcf theory --out docs/figures/
    """
    from igcf.lab.theory.report import PARTS, run_theory
    from igcf.lab.theory.tables import as_text
    from igcf.lab.theory.world import TheorySettings

    settings = TheorySettings(**options)  # type: ignore[arg-type]  # click converts by the type of each default
    with parts_display(list(PARTS)) as step:
        document = run_theory(settings, step=step)
    return measured(document, as_text(document), out and out / "theory.json")
