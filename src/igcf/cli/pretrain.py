"""`igcf pretrain`: from an interaction log to a model folder."""

import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from igcf.cli.options import (
    DATA_DIR,
    NEW,
    PATH,
    SATISFIED,
    USERS,
    check_store_option,
    log_options,
    names_in,
    read_log,
    refuse_two_logs,
    report,
    with_users,
)
from igcf.cli.output import Answer, answers, note
from igcf.config import GRAPHS, METHODS, ExpertsConfig, GraphConfig, checked_option, choices, configured, parse_settings
from igcf.errors import ConfigError

if TYPE_CHECKING:
    from igcf.data import Interactions
    from igcf.data.columns import Columns
    from igcf.data.log_files import LogFiles


@click.command()
@log_options
@click.option("--out", required=True, type=NEW, help="Model folder to write; must not exist.")
@DATA_DIR
@USERS
@click.option("--context", metavar="COLUMNS",
              help="Columns with the context of a reaction; `hour` is derived from its times.")  # fmt: skip
@click.option("--without", help="Columns of the table of users to leave out, separated by commas.")
@click.option("--method", type=click.Choice(METHODS), help="The default model, or the paper's graph model.")
@click.option("--preset", type=click.Choice(("paper",)), help="All settings as in the paper; other options override.")
@click.option("--dim", type=int, help="Size of the graph model's vectors.")
@click.option("--feedback", type=click.Choice(choices("feedback")), help="Gaussian or Bernoulli likelihood.")
@click.option("--missing", type=click.Choice(choices("missing")), help="Pairs without a reaction: ignored, or zeros.")
@click.option("--graph", help=f"Graph convolution: {', '.join(GRAPHS)}, or my.module:function.")
@click.option("--layers", type=int, help="Propagation layers; 0 is matrix factorisation.")
@SATISFIED
@click.option("--objective", type=click.Choice(choices("objective", ExpertsConfig)),
              help="Rank by P(seen and liked), or by P(liked if seen) [default: hit].")  # fmt: skip
@click.option("--epochs", type=int, help="Maximum number of epochs.")
@click.option("--learning-rate", type=float, help="Step size of the graph model's optimiser.")
@click.option("--tune/--no-tune", default=None, help="Choose settings on held-out users.")
@click.option("--set", "others", multiple=True, metavar="NAME=VALUE", help="Any other setting; repeatable.")
@click.option("--checkpoint", type=PATH,
              help="State of the training [default with workers: OUT.state, deleted at the end].")  # fmt: skip
@click.option("--resume", is_flag=True, help="Resume from --checkpoint, or from OUT.state.")
@click.option("--shards", type=int, help="Number of workers that share the log.")
@click.option("--engine", type=click.Choice(("local", "ray")), help="What runs the workers.")
@click.option("--address", help="Address of a Ray cluster [default: one is started on this machine].")
@click.option("--seed", type=int, help="Makes training repeatable [default: 0].")
@answers
def pretrain(
    dataset: str | None,
    from_store: str | None,
    data_dir: str | None,
    columns: "Columns",
    items: Path | None,
    users: Path | None,
    context: str | None,
    without: str | None,
    out: Path,
    others: tuple[str, ...],
    checkpoint: Path | None,
    resume: bool,
    preset: str | None,
    **settings: Any,
) -> Answer:
    """Train a model on a log and write it to --out.

    Without further options it is the best model that igcf knows, the average of a linear and a logistic expert.
    --method graph is the paper's graph model with settings chosen on validation users (--dim, --feedback, --missing,
    --graph, --layers, ...), --preset paper the same as the paper prints it.

    With --shards or --engine workers share the users of the log; they read Parquet files themselves, so that no process
    needs the whole log. The result is that of one process.

    \b
    Examples:
      igcf pretrain --dataset synthetic --out model/
      igcf pretrain --dataset ratings.csv --items movies.csv --out model/
      igcf pretrain --dataset ratings.csv --users people.csv --without age --context hour --out model/
      igcf pretrain --dataset plays.tsv --user who --item what --value minutes --satisfied 30 --out model/
      igcf pretrain --dataset events.csv --kinds view=1,like=4,purchase=5,hide=1 --out model/
      igcf pretrain --dataset clicks.csv --implicit --out model/
      igcf pretrain --dataset ml-1m --method graph --dim 64 --missing zero --out model/
      igcf pretrain --dataset ml-100k --preset paper --feedback binary --out model/
      igcf pretrain --from-store sqlite:///igcf.db --out model2/
      igcf pretrain --dataset log/ --engine ray --shards 8 --out model/
      igcf pretrain --dataset log/ --engine ray --shards 8 --out model/ --resume
    """
    refuse_two_logs(dataset, from_store)
    workers = {name: settings.pop(name) for name in ("shards", "engine", "address")}
    chosen = {
        name: value if name == "method" else checked_option(f"--{name.replace('_', '-')}", name, value)
        for name, value in settings.items()
        if value is not None
    } | parse_settings(others)
    base = GraphConfig.paper(chosen.get("feedback", "continuous")) if preset else None
    config = configured(base, chosen)  # a bad setting is refused before anything is read
    started = time.perf_counter()
    has_workers = isinstance(config, ExpertsConfig) and any(value is not None for value in workers.values())
    if has_workers and context:
        raise ConfigError("--context needs the whole log in one process; leave out --shards, --engine and --address")
    own_state = out.with_name(f"{out.name}.state") if checkpoint is None and has_workers else None
    state = own_state or checkpoint
    resume = resume and _resumed(state, is_named=own_state is None)
    data: Interactions | LogFiles | None = None
    if has_workers and state is not None:
        data = store_files(from_store, state, items) if from_store is not None else log_files(dataset, columns, items)
        data = data and replace(data, users=users or data.users, without=tuple(names_in(without)))
    if data is None:
        from igcf.data import success_in

        data = with_users(read_log(dataset, from_store, data_dir, columns, items), users, without)
        if context:
            data = data.with_context(names_in(context), dataset if dataset and Path(dataset).exists() else None)
        report(data, success_in(data, config.satisfied), dataset or data.name)
        if isinstance(config, ExpertsConfig) and not has_workers:
            from igcf.training.cost import expected_cost

            note(str(expected_cost(data, config)))

    from igcf.training import pretrain as learn
    from igcf.training.attribute_prior import worth_lines

    model = learn(data, checkpoint=state, resume=resume, config=config, **workers)
    model.save(out)
    if own_state is not None:
        shutil.rmtree(own_state, ignore_errors=True)
    seconds = time.perf_counter() - started
    worth = {} if model.attribute_prior is None else model.attribute_prior.worth
    document = {"out": str(out), "items": model.n_items, "dim": model.dim, "seconds": seconds}
    document |= {"attributes": {name: vars(each) for name, each in worth.items()}} | model.metadata
    lines = (*worth_lines(model.attribute_prior), *worth_lines(model.context_effect, "context"))
    return Answer(
        document, note="\n".join([*lines, f"wrote {out} after {seconds:.1f} s; try it with: igcf recommend {out}"])
    )


def _resumed(state: Path | None, *, is_named: bool) -> bool:
    """Return whether there is a checkpoint to resume; print a note if not. A named folder must exist."""
    from igcf.training.pretraining import can_resume

    if (is_named or (state is not None and state.exists())) and can_resume(state):
        return True
    note(f"--resume: nothing to resume in {state}; training begins anew")
    return False


def log_files(dataset: str | None, columns: "Columns", items: Path | None) -> "LogFiles | None":
    """Return the files that a log consists of, unread; None for a data set known by name, and for one to be thinned."""
    from igcf.data.log_files import LogFiles
    from igcf.data.registry import DATASETS

    if dataset is None or dataset in DATASETS or max(columns.min_item_reactions, columns.min_user_reactions) > 1:
        return None
    return LogFiles(Path(dataset), columns, items)


def store_files(from_store: str, state: Path, items: Path | None) -> "LogFiles":
    """Write the reactions of a store to files of the state folder, or find those of the training that is resumed."""
    from igcf.data.items import read_items
    from igcf.data.log_files import LogFiles

    check_store_option(from_store)
    from igcf.service.store.export import write_reactions, written_reactions

    folder = state / "reactions"
    if (state / "training.json").exists() and folder.exists():
        found = written_reactions(folder)
    else:
        shutil.rmtree(folder, ignore_errors=True)
        table = None if items is None else read_items(items)
        found = write_reactions(folder, from_store, described=() if table is None else table.items)
    note(found.sentence)
    return LogFiles(found.log, items=found.items, users=found.users)
