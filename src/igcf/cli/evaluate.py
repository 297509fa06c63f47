"""`igcf evaluate`: methods side by side on users with known reactions."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from igcf.cli.experiments import common_options, in_style, run_experiment, write_report
from igcf.cli.options import COUNT, SATISFIED, SHARE, log_options, names_in, read_log, with_users
from igcf.cli.output import Answer, answers
from igcf.errors import ConfigError

if TYPE_CHECKING:
    from igcf.data import Interactions
    from igcf.data.columns import Columns

PROTOCOL_NAMES = (
    "cold-start", "taste-drift", "top-k", "ablation", "known-users", "returning", "next", "observed", "new-items",
    "thin-log",
)  # fmt: skip
OWN = "own"
"""What `--users` calls the table of users that comes with a known data set."""


@click.command()
@log_options
@click.option("--train", type=click.Path(exists=True, dir_okay=False), help="Training file of a published split.")
@click.option("--test", type=click.Path(exists=True, dir_okay=False), help="Test file of a published split.")
@click.option("--protocol", type=click.Choice(PROTOCOL_NAMES), default="cold-start", show_default=True,
              help="Who is tested and what is counted (docs/protocols.md).")  # fmt: skip
@click.option("--methods", help="Names or import paths (my.module:METHOD), or `all` [default: the protocol's].")
@click.option("--rounds", type=COUNT, help="Rounds per user [default: the protocol's, or what the log allows].")
@click.option("--users", multiple=True, metavar="NUMBER|FILE|own",
              help="A number: test users [default: 200, or what the log allows; known-users: 600, or a fifth of them]. "
              "A file: their attributes (`own`: those of a known data set); igcf is then played with and without them. "
              "May be repeated.")  # fmt: skip
@click.option("--slate", type=COUNT, help="Items per round.")
@SATISFIED
@click.option("--split", type=click.Choice(("time", "users", "auto")), help="How training users are chosen.")
@click.option("--min-reactions", type=COUNT, help="Least number of reactions of a test user.")
@click.option("--share", type=SHARE, help="known-users, new-items: share of successes, of items hidden [default: 0.2].")
@click.option("--moment", type=SHARE, help="next: share of the reactions before the moment [default: 0.8].")
@click.option("--logged", help="returning: numbers of logged reactions, joined by commas [default: 1,5,20,100].")
@click.option("--part", type=click.Choice(("random", "earliest")), help="returning: what is logged [default: random].")
@click.option("--new", type=click.Choice(("random", "newest")), help="new-items: which are hidden [default: random].")
@click.option("--price", type=click.FloatRange(0, 1), help="new-items: share that trials may cost [default: 0.01].")
@click.option("--keep", type=click.FloatRange(0, 1, min_open=True), help="thin-log: share of the reactions kept.")
@click.option("--per-user", type=COUNT, help="thin-log: most reactions kept of a training user.")
@click.option("--objective-weight", metavar="NUMBER",
              help="Instead of a comparison, weigh successes by this number of the items, such as a margin, with "
              "growing strength on the validation users, and plot successes against value.")  # fmt: skip
@click.option("--thin", type=click.FloatRange(0, 1, min_open=True), help="Use only this share of the log's rows.")
@common_options
@answers
def evaluate(
    dataset: str | None,
    from_store: str | None,
    columns: "Columns",
    items: Path | None,
    train: str | None,
    test: str | None,
    methods: str | None,
    satisfied: float | None,
    thin: float | None,
    **options: Any,
) -> Answer:
    """Compare methods on users with known reactions.

    A log of your own needs no options: columns, successes, rounds and users are detected and reported.
    Start an interrupted run again to resume it.

    \b
    Examples:
      igcf evaluate --dataset ratings.csv
      igcf evaluate --dataset ml-1m --methods pop,icf-ucb,pca-gp,igcf
      igcf evaluate --dataset ml-1m --protocol top-k --slate 3 --seeds 5 --out results/
      igcf evaluate --dataset ratings.csv --methods pop,igcf --users people.csv
      igcf evaluate --dataset ml-1m --methods my.module:METHOD,igcf --jobs 2
      igcf evaluate --dataset ml-1m --protocol known-users --methods pop,ease,igcf
      igcf evaluate --train gowalla/train.csv --test gowalla/test.csv
      igcf evaluate --dataset ml-1m --protocol returning --logged 1,20
      igcf evaluate --dataset ml-1m --protocol new-items --share 0.2 --new newest
      igcf evaluate --dataset ml-1m --methods all --seeds 10 --engine ray --address head:6379
      igcf evaluate --from-store igcf.db --methods pop,igcf
      igcf evaluate --dataset ratings.csv --items items.csv --objective-weight margin --out report/
    """
    import numpy as np

    from igcf.data import load_dataset, success_in
    from igcf.data.findings import report_of
    from igcf.lab.baselines import METHODS
    from igcf.lab.evaluate import setup_for
    from igcf.lab.evaluate.protocols import protocol_named, thinned
    from igcf.lab.evaluate.report import results_document
    from igcf.lab.evaluate.tables import results_tables, verdict
    from igcf.lab.evaluate.trade_off import trade_off

    if (train is None) != (test is None):
        raise ConfigError("a published split needs both --train and --test")
    if train is not None and dataset is not None:
        raise ConfigError("--train and --test take the place of --dataset; leave one of them out")
    n_users, table = parse_users(options.pop("users"))
    of_setup = {name: options.pop(name) for name in ("rounds", "slate", "split", "min_reactions")}
    of_protocol = {name: options.pop(name) for name in ("share", "moment", "part", "new", "price", "keep", "per_user")}
    of_protocol |= {"test": test, "fingerprint": load_dataset(test).fingerprint() if test else None}
    of_protocol |= {"logged": parse_counts(options.pop("logged")), "attributes": None if table is None else True}
    protocol, weight, style = (options.pop(name) for name in ("protocol", "objective_weight", "style"))
    own = protocol_named("split" if train else protocol, **of_protocol)
    every = [name for name, method in METHODS.items() if own.accepts(method)]
    names = every if methods == "all" else names_in(methods) or list(own.methods)
    data = with_table(read_log(train or dataset, from_store, options["data_dir"], columns, items), table)
    if thin is not None:
        data = thinned(data, thin, rng=np.random.default_rng(options["seed"]))
    success = success_in(data, satisfied)
    said = report_of(data, success, train or dataset or data.name)
    setup = setup_for(data, own, satisfied=success.threshold, n_users=n_users, **of_setup)
    if thin is not None:
        setup = replace(setup, dataset=f"{setup.dataset}-thin-{thin:g}")  # with settings of its own
    out = options["out"]
    if weight is not None:
        study = trade_off(data, setup, weight, seed=options["seed"])
        if out:
            study.write(out, "trade-off")
        return Answer(study.points, in_style(study.tables, style))
    results = run_experiment(data, setup, names, notes=[*said.lines(), setup.sentence], **options)
    if out:
        write_report(results, data, out)
    document = results_document(results) | {"success": success.as_dict(), "reading": said.as_dict()}
    return Answer(document, [*in_style(results_tables(results), style), verdict(results).sentence])


def parse_users(given: tuple[str, ...]) -> tuple[int | None, Path | None]:
    """Return the number of test users and the table of their attributes out of the values of `--users`."""
    numbers = [int(each) for each in given if each.isdigit()]
    tables = [Path(each) for each in given if not each.isdigit()]
    if len(numbers) > 1 or len(tables) > 1 or 0 in numbers:
        expected = "a number of at least 1, a table of users, or one of each"
        raise ConfigError(f"--users takes {expected}, got {', '.join(given)}")
    if tables and str(tables[0]) != OWN and not tables[0].exists():
        raise ConfigError(f"--users {tables[0]}: neither a number nor a file; pass a number of test users or a table")
    return next(iter(numbers), None), next(iter(tables), None)


def with_table(data: "Interactions", table: Path | None) -> "Interactions":
    """Give a log the table of users that `--users` names."""
    if table is None or str(table) != OWN:
        return with_users(data, table)
    if data.users is None:
        raise ConfigError(f"{data.name} has no table of users of its own; name a file with --users FILE")
    return data


def parse_counts(text: str | None) -> tuple[int, ...] | None:
    """Read whole numbers joined by commas, each once, smallest first; None of nothing."""
    if text is None:
        return None
    try:
        counts = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        counts = (0,)
    if counts[0] < 1:
        raise ConfigError(f"--logged takes whole numbers of at least 1 joined by commas, got {text!r}")
    return counts
