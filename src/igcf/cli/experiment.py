"""`igcf experiment`: plan, start, watch and end an experiment."""

from collections.abc import Iterator
from pathlib import Path

import click

from igcf.cli.models import promoted
from igcf.cli.options import EXISTING
from igcf.cli.output import Answer, answers
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
@answers
def plan(lift: float, rate: float, std: float | None, share: float, power: float) -> Answer:
    """Compute how many users it takes to find a difference, however often you look."""
    found = differences.plan(lift, rate, std=std, share=share, power=power)
    difference = f"{found.difference:.4g} ({lift:+.1%} of {rate:g})"
    sentence = f"{found.users:,} users, of both arms together, find a difference of {difference} with probability"
    return Answer(vars(found), [f"{sentence} {power:g}"])


@experiment.command()
@click.argument("file", type=EXISTING)
@in_store
@answers
def start(file: Path, store: Store) -> Answer:
    """Start the experiment in FILE on all servers of the store; they follow within a second."""
    start_experiment(store.database, read_definition(file))
    return _latest(store)


@experiment.command()
@click.argument("given", nargs=-1, required=True, metavar="ARM=SHARE...")
@in_store
@answers
def shares(given: tuple[str, ...], store: Store) -> Answer:
    """Change the shares of the arms of the running experiment; as few users as possible change their arm."""
    try:
        wanted = {name: float(share) for name, share in (each.rsplit("=", 1) for each in given)}
    except ValueError:
        raise ConfigError(f"got {' '.join(given)!r}; expected ARM=SHARE for every arm, such as new=0.5") from None
    change_shares(store.database, wanted)
    return _latest(store)


@experiment.command()
@in_store
@answers
def stop(store: Store) -> Answer:
    """End the running experiment; everybody gets the model in service again."""
    stop_experiment(store.database)
    return _latest(store)


@experiment.command()
@click.argument("arm")
@in_store
@answers
def promote(arm: str, store: Store) -> Answer:
    """Serve the model of ARM to everybody, on all servers of the store, and end the experiment.

    Policy, exploration and rules of the arm are options of `igcf serve`; they are not promoted.
    """
    return promoted(*promote_arm(store.database, arm))


@experiment.command()
@click.option("--name", help="Experiment [default: the latest].")
@click.option("--value", "columns", multiple=True, help="Also compare a number of the items; `value`: the reactions.")
@in_store
@answers
def report(name: str | None, columns: tuple[str, ...], store: Store) -> Answer:
    """Report how the arms differ, by user; the intervals are valid however often you look."""
    found = report_experiment(store, name, columns)
    notes = []
    if found.left_out:
        notes.append(f"Left out: {found.left_out:,} users whose arm has changed")
    if not found.is_assignment_sound:
        notes.append(
            f"Do not trust the comparison: the arms do not have their shares (e-value {found.assignment:.3g}); look "
            "for a server that fails, or one that does not follow the experiment"
        )
    return Answer(found.model_dump(), _report_lines(found), "\n".join(notes))


def _report_lines(found: ExperimentReport) -> Iterator[str]:
    yield f"experiment {found.name!r}, {found.state}; control: {found.control}"
    for arm in found.arms:
        yield f"{arm.arm:20} {arm.users:>9,} users  {arm.answers:>10,} answers  share {arm.share:.1%}"
    for each in found.metrics:
        ends = "no interval yet" if each.low is None else f"{each.low:+.4f} to {each.high:+.4f}"
        yield f"{each.arm:20} {each.metric:22} {each.mean:.4f}, control {each.control:.4f}: {ends}  {each.verdict}"


def _latest(store: Store) -> Answer:
    """Describe the experiment that was started last."""
    state = experiment_states(store.database)[0]
    arms = ", ".join(f"{each.arm} {each.share:.1%} ({each.folder})" for each in state.arms)
    verb = "has" if state.state == "ended" else "is"
    return Answer(state.model_dump(), note=f"Experiment {state.name!r} {verb} {state.state}: {arms}")
