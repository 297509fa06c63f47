"""`igcf recommend`: one user on the terminal, interactively or from a file."""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from igcf.cli.output import emit_json
from igcf.cli.talk import favourites, talk
from igcf.errors import DataError
from igcf.model import Model
from igcf.online import POLICIES, Recommender
from igcf.online.policies import own_policy


def _policy_parameters(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command one option per parameter of any policy."""
    declared = {each.name: each for kind in POLICIES.values() for each in kind.parameters()}
    for name, each in reversed(declared.items()):
        default = "as the model says" if name == "nu" else f"{each.default:g}"
        command = click.option(f"--{name}", type=float, help=f"{each.description[:-1]} [default: {default}].")(command)
    return command


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--history", type=click.Path(path_type=Path), help="CSV file with columns item,value to start from.")
@click.option(
    "--save", type=click.Path(path_type=Path), help="CSV file to which the reactions of the talk are written."
)
@click.option("-k", default=5, show_default=True, help="Items to print with --history or --json.")
@click.option("--policy", type=click.Choice(POLICIES), help="How items are chosen [default: as the model says].")
@_policy_parameters
@click.option(
    "--forgetting", default=1.0, show_default=True, help="Weight that older reactions keep with each new one."
)
@click.option("--seed", default=0, show_default=True, help="Makes draws and ties repeatable.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and end.")
def recommend(  # noqa: PLR0913  (one parameter per option)
    folder: Path,
    history: Path | None,
    save: Path | None,
    k: int,
    policy: str | None,
    forgetting: float,
    seed: int,
    as_json: bool,
    **parameters: float | None,
) -> None:
    """Meet one user with the model in FOLDER.

    Without --history and --json it asks for one reaction after the other.

    \b
    Examples:
      igcf recommend model/
      igcf recommend model/ --save alice.csv
      igcf recommend model/ --history alice.csv -k 10
      igcf recommend model/ --history alice.csv --policy thompson --seed 3 --json
    """
    model = Model.load(folder)
    rule = own_policy(model.policy.changed(policy, None), **parameters)
    recommender = Recommender(model, rule, forgetting=forgetting, seed=seed)
    session = recommender.session(read_history(history, model) if history else ())
    if as_json or history:
        picks = session.recommend(k)
        if as_json:
            emit_json({"reactions": len(session.history), "items": [pick._asdict() for pick in picks]})
        else:
            Console().print(favourites(model, picks))
        return
    talk(session, save)


def read_history(path: Path, model: Model) -> list[tuple[str, float | None]]:
    """Read reactions from a CSV file with the columns item and value; an empty value means shown without a reaction.

    Where every reaction is a success there need be no values.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = csv.DictReader(file)
            found = set(rows.fieldnames or ())
            if model.reward.is_implicit and "item" in found and "value" not in found:
                return [(row["item"], model.reaction_value()) for row in rows]
            missing = {"item", "value"} - found
            if missing:
                raise DataError(
                    f"{path} has no column {sorted(missing)[0]!r}; found {', '.join(rows.fieldnames or ['nothing'])}"
                )
            return [(row["item"], _value(path, number, row["value"])) for number, row in enumerate(rows, start=2)]
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read {path}: {error}") from error


def _value(path: Path, number: int, text: str | None) -> float | None:
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        raise DataError(f"{path}:{number}: value {text!r} is not a number; leave it empty for no reaction") from None
