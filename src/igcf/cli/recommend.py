"""`igcf recommend`: one user on the terminal, interactively or from a file."""

import csv
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from igcf.cli.output import console, emit_json
from igcf.errors import DataError, FeedbackError
from igcf.model import Model
from igcf.online import POLICIES, Recommendation, Recommender, Session, named_policy

HELP = (
    "a number as in the log, Enter for none, [bold]?[/] why this item, [bold]t[/] favourites so far, [bold]q[/] the end"
)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--history", type=click.Path(path_type=Path), help="CSV file with columns item,value to start from.")
@click.option("-k", default=5, show_default=True, help="Items to print with --history or --json.")
@click.option("--policy", type=click.Choice(POLICIES), help="How items are chosen [default: as the model says].")
@click.option("--nu", type=float, help="Exploration of ucb: mean + nu * std [default: as the model says].")
@click.option("--delta", default=0.05, show_default=True, help="Failure probability of info-ucb.")
@click.option(
    "--forgetting", default=1.0, show_default=True, help="Weight that older reactions keep with each new one."
)
@click.option("--seed", default=0, show_default=True, help="Makes draws and ties repeatable.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and end.")
def recommend(  # noqa: PLR0913  (one parameter per option)
    folder: Path,
    history: Path | None,
    k: int,
    policy: str | None,
    nu: float | None,
    delta: float,
    forgetting: float,
    seed: int,
    as_json: bool,
) -> None:
    """Meet one user with the model in FOLDER.

    Without --history and --json it asks for one reaction after the other.

    \b
    Examples:
      igcf recommend model/
      igcf recommend model/ --history alice.csv -k 10
      igcf recommend model/ --history alice.csv --policy thompson --seed 3 --json
    """
    model = Model.load(folder)
    own = model.policy.changed(policy, nu)
    rule = named_policy(own.name, nu=own.nu, delta=delta)
    recommender = Recommender(model, rule, forgetting=forgetting, seed=seed)
    session = recommender.session(read_history(history, model) if history else ())
    if as_json or history:
        picks = session.recommend(k)
        if as_json:
            emit_json({"reactions": len(session.history), "items": [pick._asdict() for pick in picks]})
        else:
            Console().print(favourites(model, picks))
        return
    talk(session)


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


def talk(session: Session) -> None:
    """Ask for reactions until the user stops or nothing is left."""
    model = session.model
    console.print(f"Reactions: {HELP}.")
    round_number, hits = 0, 0
    while len(session.history) < model.n_items:
        pick = session.recommend()[0]
        answer = _ask(session, pick, round_number + 1)
        if answer == "q":
            break
        try:
            value = None if answer == "" else float(answer)
        except ValueError:
            console.print(f"{answer!r} is not a reaction; {HELP}.")
            continue
        try:
            session.observe(pick.item_id, value)
        except FeedbackError as error:
            console.print(f"[yellow]{escape(str(error))}[/]")
            continue
        round_number += 1
        hits += value is not None and bool(model.reward.is_satisfied(value))
    console.print(f"{round_number} reactions, {hits} satisfied.")
    if session.history and len(session.history) < model.n_items:
        left = model.n_items - len(session.history)
        console.print(favourites(model, session.recommend(min(5, left), policy=named_policy("greedy"))))


def _ask(session: Session, pick: Recommendation, round_number: int) -> str:
    """Show one item until there is an answer other than a question."""
    model = session.model
    genres = f" [dim]{escape(', '.join(model.categories[model.item_row(pick.item_id)]))}[/]" if model.categories else ""
    while True:
        console.print(
            f"[bold]{round_number:3d}[/] {escape(model.title(pick.item_id))}{genres}  "
            f"[dim]expected {pick.mean:.2f} ± {pick.std:.2f}[/]"
        )
        try:
            answer = click.prompt("   ", default="", show_default=False, prompt_suffix="> ", err=True).strip()
        except click.Abort:  # end of input
            return "q"
        if answer == "t":
            left = model.n_items - len(session.history)
            console.print(favourites(model, session.recommend(min(5, left), policy=named_policy("greedy"))))
        elif answer == "?":
            explanation = session.explain(pick.item_id)
            strongest = sorted(explanation.contributions, key=lambda each: -abs(each.amount))[:5]
            console.print(f"     the population expects {explanation.prior:+.3f}")
            for each in strongest:
                console.print(f"     {each.amount:+.3f} from {escape(model.title(each.item_id))} (value {each.value})")
        else:
            return answer


def favourites(model: Model, picks: list[Recommendation]) -> Table:
    """Build a table of the items for people."""
    table = Table("rank", "item", "title", "expected", "±")
    for pick in picks:
        title = escape(model.title(pick.item_id))
        table.add_row(str(pick.rank), escape(pick.item_id), title, f"{pick.mean:.3f}", f"{pick.std:.3f}")
    return table


def _value(path: Path, number: int, text: str | None) -> float | None:
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        raise DataError(f"{path}:{number}: value {text!r} is not a number; leave it empty for no reaction") from None
