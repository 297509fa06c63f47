"""How far a long job is, on standard error: a bar on a terminal or in a notebook, plain lines anywhere else."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO, TypeAlias

LINE_SECONDS = 10.0
"""Without a terminal, a line is written at least this often."""
Report: TypeAlias = Callable[[str, int, int | None], None]
"""Takes what is being done, how many steps are done and, where known, how many there are."""


def silent(what: str, done: int, total: int | None) -> None:
    """Tell nobody."""


@contextmanager
def show_progress(stream: TextIO | None = None, *, every: float = LINE_SECONDS, alike: bool = True) -> Iterator[Report]:
    """Give a function to report steps to, and show the last report for as long as the block runs.

    Args:
        stream: Where to write; standard error if left out.
        every: Seconds between two lines where `stream` is not a terminal; a job that ends earlier writes none.
        alike: Whether the steps take about equally long, so that finished steps predict the rest of a stage.
    """
    from rich.console import Console

    console = Console(file=stream or sys.stderr)
    if not (console.is_terminal or console.is_jupyter):
        lines = _Lines(stream or sys.stderr, every, alike)
        with lines.running():
            yield lines.report
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(30), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)

        def report(what: str, done: int, total: int | None) -> None:
            bar.update(task, description=what, completed=done, total=total)

        yield report


class _Lines:
    """Writes the last report as a plain line from a thread of its own, also while a long step says nothing."""

    def __init__(self, stream: TextIO, every: float, alike: bool) -> None:
        self._stream, self._every, self._alike = stream, every, alike
        self._begun = time.monotonic()
        self._lock = threading.Lock()
        self._last: tuple[str, int, int | None] = ("starting", 0, None)
        self._stage_begun, self._stage_done, self._reported = self._begun, 0, self._begun

    def report(self, what: str, done: int, total: int | None) -> None:
        """Remember what to write next."""
        with self._lock:
            self._reported = time.monotonic()
            if done < self._last[1] or total != self._last[2]:  # another stage: its pace is not that of the last one
                self._stage_begun, self._stage_done = self._reported, done
            self._last = what, done, total

    def line(self) -> str:
        """Describe the last report: what, done/total, seconds so far, seconds left of the stage at this pace."""
        now = time.monotonic()
        with self._lock:
            (what, done, total), first = self._last, self._stage_done
            begun, reported = self._stage_begun, self._reported
        count = f" {done}/{total}" if total is not None and total > 1 else f" {done}" if total is None and done else ""
        text = f"{what}{count}, {now - self._begun:.0f} s"
        if self._alike and total is not None and first < done < total:
            pace = (reported - begun) / (done - first)
            left = pace * (total - done) - min(now - reported, pace)  # a step that hangs does not raise the estimate
            text += f", about {left:.0f} s left in this stage"
        return text

    @contextmanager
    def running(self) -> Iterator[None]:
        """Write a line whenever the time has come, until the block ends."""
        ended = threading.Event()

        def write() -> None:
            while not ended.wait(self._every):
                print(self.line(), file=self._stream, flush=True)

        thread = threading.Thread(target=write, name="igcf-progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
