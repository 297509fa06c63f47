"""The live line of training on stderr."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from igcf.cli.output import console

if TYPE_CHECKING:
    from igcf.training.graph.train import Progress as TrainingProgress


@contextmanager
def training_display() -> Iterator[Callable[["TrainingProgress"], None]]:
    """A callback that shows epoch, loss, KL and the validation users' successes while training runs."""
    columns = (
        BarColumn(30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)

        def show(step: "TrainingProgress") -> None:
            best = "" if step.best is None else f"  validation best {step.best:.2f}"
            loss = "" if step.stats is None else f"  loss {step.stats.loss:.4f}  KL {step.stats.kl:.4f}"
            text = f"{step.what}{loss}{best}"
            bar.update(task, total=step.epochs, completed=step.epoch, description=text)

        yield show
