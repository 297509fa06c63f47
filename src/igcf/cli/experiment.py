"""`igcf experiment`: plan, start, watch and end an experiment."""

from pathlib import Path

import click

from igcf.cli.models import tell_promoted
from igcf.cli.options import AS_JSON, EXISTING
from igcf.cli.output import echo, emit_json, note
from igcf.cli.service_options import in_store
from igcf.errors import ConfigError
from igcf.experiments import differences
from igcf.service.experiment_report import report_experiment
from igcf.service.models.experiments import ExperimentReport
from igcf.service.serving.experiment_changes import (
    change_shares,
    experiment_states,
    promote_arm,
    read_definition,
    start_experiment,
    stop_experiment,
)
from igcf.service.store.store import Store


@click.group()
def experiment() -> None:
    """Compare models or settings on randomly assigned users of a service.

    \b
    Examples:
      igcf experiment plan --lift 0.05 --rate 0.3
      igcf experiment start experiment.toml --store igcf.db
      igcf experiment shares current=0.5 candidate=0.5 --store igcf.db
      igcf experiment report --store igcf.db
      igcf experiment promote candidate --store igcf.db
    """


@experiment.command()
@click.option("--lift", type=float, required=True, help="Relative difference to find, such as 0.05.")
@click.option("--rate", type=float, required=True, help="Current mean of the metric per user.")
@click.option("--std", type=float, help="Its standard deviation over users [default: of a yes-or-no metric].")
@click.option("--share", type=float, default=0.5, show_default=True, help="Share of the new arm.")
@click.option("--power", type=float, default=0.9, show_default=True, help="Chance of finding the difference.")
@AS_JSON
def plan(lift: float, rate: float, std: float | None, share: float, power: float, as_json: bool) -> None:
    """Compute how many users it takes to find a difference, however often you look."""
    found = differences.plan(lift, rate, std=std, share=share, power=power)
    if as_json:
        emit_json(vars(found))
    else:
        echo(
            f"{found.users:,} users, of both arms together, find a difference of {found.difference:.4g} "
            f"({lift:+.1%} of {rate:g}) with probability {power:g}"
        )


@experiment.command()
@click.argument("file", type=EXISTING)
@in_store
@AS_JSON
def start(file: Path, store: Store, as_json: bool) -> None:
    """Start the experiment in FILE on all servers of the store; they follow within a second."""
    start_experiment(store.database, read_definition(file))
    _tell_state(store, as_json=as_json)


@experiment.command()
@click.argument("given", nargs=-1, required=True, metavar="ARM=SHARE...")
@in_store
@AS_JSON
def shares(given: tuple[str, ...], store: Store, as_json: bool) -> None:
    """Change the shares of the arms of the running experiment; as few users as possible change their arm."""
    try:
        wanted = {name: float(share) for name, share in (each.rsplit("=", 1) for each in given)}
    except ValueError:
        raise ConfigError(f"got {' '.join(given)!r}; expected ARM=SHARE for every arm, such as new=0.5") from None
    change_shares(store.database, wanted)
    _tell_state(store, as_json=as_json)


@experiment.command()
@in_store
@AS_JSON
def stop(store: Store, as_json: bool) -> None:
    """End the running experiment; everybody gets the model in service again."""
    stop_experiment(store.database)
    _tell_state(store, as_json=as_json)


@experiment.command()
@click.argument("arm")
@in_store
@AS_JSON
def promote(arm: str, store: Store, as_json: bool) -> None:
    """Serve the model of ARM to everybody, on all servers of the store, and end the experiment.

    Policy, exploration and rules of the arm are options of `igcf serve`; they are not promoted.
    """
    tell_promoted(promote_arm(store.database, arm), as_json=as_json)


@experiment.command()
@click.option("--name", help="Experiment [default: the latest].")
@click.option("--value", "columns", multiple=True, help="Also compare a number of the items; `value`: the reactions.")
@in_store
@AS_JSON
def report(name: str | None, columns: tuple[str, ...], store: Store, as_json: bool) -> None:
    """Report how the arms differ, by user; the intervals are valid however often you look."""
    found = report_experiment(store, name, columns)
    if as_json:
        emit_json(found.model_dump())
    else:
        _print_report(found)


def _print_report(found: ExperimentReport) -> None:
    echo(f"experiment {found.name!r}, {found.state}; control: {found.control}")
    for arm in found.arms:
        echo(f"{arm.arm:20} {arm.users:>9,} users  {arm.answers:>10,} answers  share {arm.share:.1%}")
    for each in found.metrics:
        ends = "no interval yet" if each.low is None else f"{each.low:+.4f} to {each.high:+.4f}"
        echo(f"{each.arm:20} {each.metric:22} {each.mean:.4f}, control {each.control:.4f}: {ends}  {each.verdict}")
    if found.left_out:
        note(f"Left out: {found.left_out:,} users whose arm has changed")
    if not found.is_assignment_sound:
        note(
            f"Do not trust the comparison: the arms do not have their shares (e-value {found.assignment:.3g}); look "
            "for a server that fails, or one that does not follow the experiment"
        )


def _tell_state(store: Store, *, as_json: bool) -> None:
    state = experiment_states(store.database)[0]
    if as_json:
        emit_json(state.model_dump())
    else:
        arms = ", ".join(f"{each.arm} {each.share:.1%} ({each.folder})" for each in state.arms)
        note(f"Experiment {state.name!r} {'has' if state.state == 'ended' else 'is'} {state.state}: {arms}")
