"""`igcf experiment`: plan, start, watch and end an experiment."""

import click

from igcf.cli.options import AS_JSON
from igcf.cli.output import echo, emit_json


@click.group()
def experiment() -> None:
    """Compare models or settings on the users of a service, by chance.

    \b
    Examples:
      igcf experiment plan --lift 0.05 --rate 0.3
    """


@experiment.command()
@click.option("--lift", type=float, required=True, help="Relative difference to find, such as 0.05.")
@click.option("--rate", type=float, required=True, help="Mean of the metric now, by user.")
@click.option("--std", type=float, help="Its spread from user to user [default: that of a yes or no].")
@click.option("--share", type=float, default=0.5, show_default=True, help="Share of the new arm.")
@click.option("--power", type=float, default=0.9, show_default=True, help="Chance of finding the difference.")
@AS_JSON
def plan(lift: float, rate: float, std: float | None, share: float, power: float, as_json: bool) -> None:
    """Say how many users it takes to find a difference, however often you look before the end."""
    from igcf.experiments import planning

    found = planning.plan(lift, rate, std=std, share=share, power=power)
    if as_json:
        emit_json(vars(found))
    else:
        echo(
            f"{found.users:,} users, of both arms together, find a difference of {found.difference:.4g} "
            f"({lift:+.1%} of {rate:g}) with probability {power:g}"
        )
