"""`igcf recommend`: one user on the terminal, interactively or from a file."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from rich.markup import escape
from rich.table import Table

from igcf.cli.options import COUNT, EXISTING, PATH, SEED, OutPath
from igcf.cli.output import AS_JSON, console, emit_json, let_ctrl_c_end_input, results
from igcf.errors import FeedbackError, NoItemsLeftError
from igcf.model import Model
from igcf.online import POLICIES, Greedy, Recommendation, Recommender, Session
from igcf.online.history_files import read_history, save_history
from igcf.online.policies import own_policy

HELP = (
    "Enter for no reaction, [bold]s[/] skip it for now, [bold]u[/] undo, [bold]?[/] why this item, "
    "[bold]t[/] favourites so far, [bold]q[/] quit"
)
FAVOURITES = 5


def _policy_parameters(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command one option per parameter of any policy."""
    declared = {each.name: each for kind in POLICIES.values() for each in kind.parameters()}
    for name, each in reversed(declared.items()):
        default = "as the model says" if name == "nu" else f"{each.default:g}"
        command = click.option(f"--{name}", type=float, help=f"{each.description[:-1]} [default: {default}].")(command)
    return command


@click.command()
@click.argument("folder", type=PATH)
@click.option("--history", type=EXISTING, help="CSV file with columns item,value to start from.")
@click.option("--save", type=OutPath(), help="CSV file to which the reactions of the session are written.")
@click.option("-k", default=5, show_default=True, type=COUNT, help="Items to print with --history or --json.")
@click.option("--policy", type=click.Choice(POLICIES), help="How items are chosen [default: as the model says].")
@_policy_parameters
@click.option(
    "--forgetting", default=1.0, show_default=True, help="Factor by which each new reaction discounts older ones."
)
@SEED
@AS_JSON
def recommend(
    folder: Path, history: Path | None, save: Path | None, k: int, policy: str | None, as_json: bool, **others: Any
) -> None:
    """Recommend to one user with the model in FOLDER.

    Without --history and --json it is interactive and asks for your reactions.

    \b
    Examples:
      igcf recommend model/
      igcf recommend model/ --save alice.csv
      igcf recommend model/ --history alice.csv -k 10
      igcf recommend model/ --history alice.csv --policy thompson --seed 3 --json
    """
    model = Model.load(folder)
    settings = {name: others.pop(name) for name in ("forgetting", "seed")}
    recommender = Recommender(model, own_policy(model.policy.changed(policy, None), **others), **settings)
    session = recommender.session(read_history(history, model) if history else ())
    if not (as_json or history):
        Talk(session).hold(save)
        return
    picks = session.recommend(k)
    if as_json:
        items = [_known(pick) | {"title": model.title(pick.item_id)} for pick in picks]
        emit_json({"reactions": len(session.history), "items": items})
    else:
        results.print(favourites(model, picks))


def _known(pick: Recommendation) -> dict[str, Any]:
    """Return the fields of a pick; an unknown propensity, NaN in Python, is null in JSON."""
    return {name: None if value != value else value for name, value in pick._asdict().items()}


def favourites(model: Model, picks: list[Recommendation]) -> Table:
    """Build a table of the items for people."""
    table = Table("rank", "item", "title", "chance", "between")
    for pick in picks:
        between = f"{_percent(pick.low)} and {_percent(pick.high)}"
        title = escape(model.title(pick.item_id))
        table.add_row(str(pick.rank), escape(pick.item_id), title, _percent(pick.chance), between)
    return table


def scale_of(model: Model) -> str:
    """Tell in words which numbers are reactions."""
    reward = model.reward
    if reward.is_implicit:
        return f"{reward.low:g} for a like"
    if reward.low == 0 and reward.high == 1:
        return "1 for a like, 0 for none"
    return f"{reward.low:g} to {reward.high:g}, from {reward.threshold:g} on a success"


class Talk:
    """Questions to one user on the terminal, and what the session learns from the answers."""

    def __init__(self, session: Session) -> None:
        self.session, self.model = session, session.model

    def hold(self, save: Path | None) -> None:
        """Ask for reactions until the user stops, presses Ctrl-C, or nothing is left; write them to `save`."""
        console.print(f"Reactions: {scale_of(self.model)}, {HELP}.")
        let_ctrl_c_end_input()
        try:
            self._rounds()
        except KeyboardInterrupt:
            console.print()
        values = [value for _, value in self.session.history]
        hits = sum(value is not None and bool(self.model.reward.is_satisfied(value)) for value in values)
        console.print(f"{len(values)} reactions, {hits} satisfied.")
        if save is not None:
            save_history(save, self.session)
            console.print(f"Saved to {save}; continue with --history {save}", highlight=False)
        if values:
            self._show_favourites()

    def _rounds(self) -> None:
        pick: Recommendation | None = None
        try:
            while True:
                pick = pick or self.session.recommend()[0]
                answer = self._ask(pick)
                if answer == "q":
                    return
                pick = self._answered(pick, answer)
        except NoItemsLeftError:
            console.print("Nothing is left to show.")

    def _answered(self, pick: Recommendation, answer: str) -> Recommendation | None:
        """Do what an answer says; returns the item to ask about again, or None for the next one."""
        if answer == "s":
            self.session.skip(pick.item_id)
            return None
        if answer == "u":
            if not self.session.history:
                console.print("[yellow]Nothing to take back.[/]")
                return pick
            item_id = self.session.undo()
            console.print(f"Taken back: {self._title(item_id)}.")
            return self.session.recommend(candidates=[item_id])[0]
        try:
            self.session.observe(pick.item_id, float(answer) if answer else None)
        except FeedbackError as error:
            console.print(f"[yellow]{escape(str(error))}[/]")
            return pick
        except ValueError:
            console.print(f"{escape(repr(answer))} is not a reaction; {scale_of(self.model)}, {HELP}.")
            return pick
        return None

    def _ask(self, pick: Recommendation) -> str:
        """Show one item until there is an answer other than a question."""
        model, title = self.model, self._title(pick.item_id)
        if model.categories:
            title += f" [dim]{escape(', '.join(model.categories[model.item_row(pick.item_id)]))}[/]"
        number = len(self.session.history) + 1
        while True:
            console.print(f"[bold]{number:3d}[/] {title}  [dim]{_percent(pick.chance)} likely to please[/]")
            try:
                answer = click.prompt("   ", default="", show_default=False, prompt_suffix="> ", err=True).strip()
            except click.Abort:  # end of input, or Ctrl-C
                return "q"
            if answer == "t":
                self._show_favourites()
            elif answer == "?":
                self._explain(pick.item_id)
            else:
                return answer

    def _explain(self, item_id: str) -> None:
        explanation = self.session.explain(item_id)
        console.print(f"     the population expects {explanation.prior:+.3f}")
        for each in sorted(explanation.contributions, key=lambda each: -abs(each.amount))[:5]:
            value = "no reaction" if each.value is None else f"{each.value:g}"
            console.print(f"     {each.amount:+.3f} from {self._title(each.item_id)} ({value})")

    def _show_favourites(self) -> None:
        if left := int(self.session.available().sum()):
            picks = self.session.recommend(min(FAVOURITES, left), policy=Greedy())
            console.print(favourites(self.model, picks))

    def _title(self, item_id: str) -> str:
        return escape(self.model.title(item_id))


def _percent(chance: float) -> str:
    return f"{100 * min(max(chance, 0.0), 1.0):.0f} %"
