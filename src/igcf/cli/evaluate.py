"""`igcf evaluate`: methods side by side on users whose reactions are known."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from igcf.cli.columns import FROM_STORE, ITEMS, SATISFIED, LogFormat, column_options, read_log, told
from igcf.cli.experiments import command_line, common_options, print_all, run_experiment, write_report
from igcf.cli.output import console, emit_json, note, parts_display
from igcf.errors import ConfigError

if TYPE_CHECKING:
    from igcf.lab.baselines import Method

DEFAULT_METHODS = "random,pop,pop-satisfied,mf,icf-ucb,icf-ts,pca-gp,igcf"
METHODS_OF = {
    "ablation": "igcf",
    "known-users": "pop,pop-satisfied,item-knn,ease,als,graph-filter,pca-gp,igcf-graph,igcf",
    "returning": "igcf",
}
"""Methods that run by default under protocols that have other ones."""
NEED_LOGGED = ("item-knn", "ease", "als", "graph-filter")
"""Methods that score by a history alone: not what to meet a new user with."""


@click.command()
@click.option("--dataset", default=None, help="A known name (igcf data list) or a CSV or Parquet file.")
@FROM_STORE
@click.option(
    "--protocol",
    type=click.Choice(
        ("cold-start", "taste-drift", "top-k", "ablation", "known-users", "returning", "observed", "new-items")
    ),
    default="cold-start",
    show_default=True,
    help="Who is tested and what is counted (docs/protocols.md).",
)
@click.option(
    "--methods",
    default=None,
    help=f"Names, joined by commas, or `all`. [default: {DEFAULT_METHODS}; "
    + "; ".join(f"{name}: {methods}" for name, methods in METHODS_OF.items())
    + "]",
)
@click.option(
    "--rounds", type=click.IntRange(min=1), help="Rounds per user [default: the protocol's, or what the log allows]."
)
@click.option(
    "--users",
    type=click.IntRange(min=1),
    help="Test users [default: 200, or what the log allows; known-users: 600, or a fifth of them].",
)
@click.option("--slate", type=click.IntRange(min=1), help="Items per round.")
@SATISFIED
@click.option("--split", type=click.Choice(("time", "users", "auto")), help="How training users are chosen.")
@click.option("--min-reactions", type=click.IntRange(min=1), help="Least number of reactions of a test user.")
@click.option(
    "--share",
    default=0.2,
    show_default=True,
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="known-users: share of each user's successes that is hidden and looked for; new-items: share of new items.",
)
@click.option(
    "--logged",
    default="1,5,20,100",
    show_default=True,
    help="returning: numbers of logged reactions, joined by commas.",
)
@click.option(
    "--part",
    type=click.Choice(("random", "earliest")),
    default="random",
    show_default=True,
    help="returning: which reactions of a user are logged.",
)
@click.option(
    "--new",
    type=click.Choice(("lot", "newest")),
    default="lot",
    show_default=True,
    help="new-items: which items are hidden from training.",
)
@click.option(
    "--price",
    default=0.01,
    show_default=True,
    type=click.FloatRange(0, 1),
    help="new-items: share of what known items bring that trials of new ones may cost.",
)
@click.option(
    "--thin",
    type=click.FloatRange(0, 1, min_open=True),
    help="Keep only this share of the log's rows, drawn with --seed, before anything else.",
)
@column_options
@ITEMS
@common_options
def evaluate(  # noqa: PLR0913  (one parameter per option)
    dataset: str | None,
    from_store: str | None,
    protocol: str,
    methods: str | None,
    rounds: int | None,
    users: int | None,
    slate: int | None,
    satisfied: float | None,
    split: str | None,
    min_reactions: int | None,
    share: float,
    logged: str,
    part: Literal["random", "earliest"],
    new: Literal["lot", "newest"],
    price: float,
    thin: float | None,
    log_format: LogFormat,
    items: Path | None,
    **common: Any,
) -> None:
    """Compare methods on users whose reactions are known.

    On a log of your own nothing needs to be said: columns, successes, rounds and users are found and told. A run that
    was interrupted goes on where it stopped when it is started again.

    \b
    Examples:
      igcf evaluate --dataset ratings.csv
      igcf evaluate --dataset ml-1m --methods pop,icf-ucb,pca-gp,igcf
      igcf evaluate --dataset ml-1m --protocol top-k --slate 3 --seeds 5 --out results/
      igcf evaluate --dataset ratings.csv --methods pop,igcf --tune --json
      igcf evaluate --dataset ml-1m --protocol observed
      igcf evaluate --dataset ml-1m --protocol known-users --methods pop,ease,igcf
      igcf evaluate --dataset ml-1m --protocol returning --logged 1,20
      igcf evaluate --dataset ml-1m --protocol new-items --share 0.2 --new newest
      igcf evaluate --dataset ml-1m --methods all --seeds 10 --engine ray --address head:6379
      igcf evaluate --from-store igcf.db --methods pop,igcf
    """
    import numpy as np

    from igcf.data import success_in
    from igcf.lab.baselines import METHODS
    from igcf.lab.evaluate import setup_for
    from igcf.lab.evaluate.protocols import thinned
    from igcf.lab.evaluate.report import results_document
    from igcf.lab.evaluate.tables import results_tables
    from igcf.lab.evaluate.verdict import verdict

    if methods is None:
        methods = METHODS_OF.get(protocol, DEFAULT_METHODS)
    if methods == "all":
        names = all_methods(METHODS, protocol)
    else:
        names = [name.strip() for name in methods.split(",") if name.strip()]
    data = read_log(dataset, from_store, common["data_dir"], log_format, items)
    if thin is not None:
        data = thinned(data, thin, rng=np.random.default_rng(common["seed"]))
    success = success_in(data, satisfied)
    if protocol in ("observed", "new-items"):
        for line in told(data, success):
            note(line)
        choices: dict[str, Any] = {"satisfied": success.threshold, "rounds": rounds, "split": split}
        if protocol == "observed":
            evaluate_observed(data, None if methods == DEFAULT_METHODS else names, choices, common)
        else:
            choices |= {"n_users": users, "share": share, "part": new, "price": price}
            evaluate_new_items(data, choices, common)
        return
    setup = setup_for(
        data,
        protocol,  # type: ignore[arg-type]
        rounds=rounds,
        slate=slate,
        satisfied=success.threshold,
        split=split,  # type: ignore[arg-type]
        n_users=users,
        min_reactions=min_reactions,
    )
    setup = replace(setup, share=share, logged=parse_counts(logged), part=part)
    if thin is not None:
        setup = replace(setup, dataset=f"{setup.dataset}-thin-{thin:g}")  # with settings of its own
    results = run_experiment(data, setup, names, notes=[*told(data, success), setup.sentence], **common)
    if common["out"]:
        write_report(results, data, common["out"])
    if common["as_json"]:
        emit_json(results_document(results) | {"success": success.as_dict()})
    else:
        print_all(results_tables(results), common["style"])
        click.echo(verdict(results).sentence)


def evaluate_observed(data: Any, names: list[str] | None, choices: dict[str, Any], common: dict[str, Any]) -> None:
    """Run the protocol `observed`, which has methods and figures of its own, for one seed."""
    from igcf.lab.evaluate.observed import OBSERVED_METHODS, observed, observed_setup, observed_tables
    from igcf.lab.evaluate.report import write_tables

    setup = observed_setup(data, **choices)
    chosen = list(OBSERVED_METHODS) if names is None else names
    with parts_display(chosen) as step:
        results = observed(data, setup, chosen, seed=common["seed"], step=step, command=command_line())
    if common["out"]:
        write_tables(common["out"], results.as_dict(), observed_tables(results))
        console.print(f"wrote {common['out'] / 'results.md'}", highlight=False)
    if common["as_json"]:
        emit_json(results.as_dict())
    else:
        print_all(observed_tables(results), common["style"])


def evaluate_new_items(data: Any, choices: dict[str, Any], common: dict[str, Any]) -> None:
    """Run the protocol `new-items`, which has methods and figures of its own, for one seed."""
    from igcf.lab.evaluate.new_items import new_items, new_items_setup, new_items_tables
    from igcf.lab.evaluate.report import write_tables

    setup = new_items_setup(data, **choices)
    with parts_display(["frozen", "igcf", "in turn", "others", "ceiling"]) as step:
        results = new_items(data, setup, seed=common["seed"], step=step, command=command_line())
    if common["out"]:
        write_tables(common["out"], results.as_dict(), new_items_tables(results))
        console.print(f"wrote {common['out'] / 'results.md'}", highlight=False)
    if common["as_json"]:
        emit_json(results.as_dict())
    else:
        print_all(new_items_tables(results), common["style"])


def all_methods(methods: "Mapping[str, Method]", protocol: str) -> list[str]:
    """Return the methods that make sense under a protocol: from a logged history those that can use it, and others."""
    if protocol in ("known-users", "returning"):
        return [name for name, method in methods.items() if method.uses_logged]
    return [name for name in methods if name not in NEED_LOGGED]


def parse_counts(text: str) -> tuple[int, ...]:
    """Read whole numbers joined by commas, each once, smallest first."""
    try:
        counts = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        counts = (0,)
    if counts[0] < 1:
        raise ConfigError(f"--logged takes whole numbers of at least 1 joined by commas, got {text!r}")
    return counts
