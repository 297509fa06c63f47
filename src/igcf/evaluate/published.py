"""Every published table, the experiment that makes it, and one page with all of them at one commit."""

import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from igcf.evaluate.protocols import Protocol
from igcf.evaluate.reproduce import PAPER_METHODS
from igcf.tables import Table, as_markdown

SHORT_TO_FIT = tuple(name for name in PAPER_METHODS if name != "nicf")
KNOWN_USERS_METHODS = ("pop", "pop-satisfied", "item-knn", "ease", "als", "pca-gp", "igcf-graph", "igcf")


@dataclass(frozen=True)
class Experiment:
    """One published experiment."""

    protocol: Protocol
    dataset: str
    methods: tuple[str, ...]
    minutes: float
    """Time on two cores, in minutes, for the estimate of what is left; an order of magnitude is enough."""
    seeds: int = 1
    thin: float | None = None
    """Share of the log's rows that is kept."""

    @property
    def name(self) -> str:
        """Name of the experiment and of its folder, for instance `cold-start-ml-1m-10-seeds`."""
        parts = [self.protocol, self.dataset]
        parts += [f"thin-{self.thin:g}"] if self.thin else []
        parts += [f"{self.seeds}-seeds"] if self.seeds > 1 else []
        parts += ["nicf"] if self.methods == ("nicf",) else []
        return "-".join(parts)


def _on(datasets: Iterable[str], experiment: Experiment) -> list[Experiment]:
    return [replace(experiment, dataset=name) for name in datasets]


PUBLISHED: tuple[Experiment, ...] = (
    *_on(("ml-1m", "ml-100k", "kuairec", "eachmovie"), Experiment("cold-start", "", PAPER_METHODS, 6)),
    *_on(("ml-1m", "kuairec"), Experiment("taste-drift", "", PAPER_METHODS, 8)),
    *_on(("ml-1m", "kuairec", "eachmovie"), Experiment("top-k", "", PAPER_METHODS, 12)),
    Experiment("ablation", "kuairec", ("igcf-paper", "igcf-graph"), 8),
    Experiment("ablation", "ml-1m", ("igcf-paper", "igcf-graph", "igcf"), 25),
    *_on(("ml-1m", "ml-100k", "eachmovie"), Experiment("known-users", "", KNOWN_USERS_METHODS, 5)),
    Experiment("known-users", "ml-1m", KNOWN_USERS_METHODS, 5, thin=0.1),
    Experiment("returning", "ml-1m", ("igcf",), 3),
    *(Experiment("cold-start", "ml-1m", SHORT_TO_FIT, 5, thin=share) for share in (0.1, 0.05)),
    *_on(("ml-1m", "kuairec"), Experiment("cold-start", "", SHORT_TO_FIT, 30, seeds=10)),
    *_on(("ml-1m", "kuairec"), Experiment("cold-start", "", ("nicf",), 10, seeds=3)),
)
"""The published experiments, those of the paper's tables first, the longest last."""


def minutes_left(remaining: Sequence[Experiment], done: Sequence[Experiment], minutes_taken: float) -> float:
    """Estimate the minutes left: the listed times, scaled by how this machine did so far."""
    listed = sum(each.minutes for each in done)
    return sum(each.minutes for each in remaining) * (minutes_taken / listed if listed and minutes_taken else 1.0)


def commit_of_the_code() -> str:
    """Return the commit that the code was checked out from, `unknown` outside a repository; changes are told."""
    here = Path(__file__).parent

    def git(*words: str) -> str:
        try:
            done = subprocess.run(["git", *words], cwd=here, capture_output=True, text=True, timeout=30, check=True)  # noqa: S603, S607
        except (OSError, subprocess.SubprocessError):
            return ""
        return done.stdout.strip()

    commit = git("rev-parse", "--short=10", "HEAD")
    return (
        "unknown" if not commit else commit + (" with uncommitted changes" if git("status", "--porcelain", ".") else "")
    )


def tables_page(made: Sequence[tuple[Experiment, str, Sequence[Table]]], *, commit: str, minutes: float) -> str:
    """Write the page with all tables, each below the command that makes it.

    Args:
        made: the experiments that ran, each with its command and tables.
        commit: commit of the code that made all of them.
        minutes: how long all of them took.
    """
    missing = [each.name for each in PUBLISHED if each.name not in {experiment.name for experiment, _, _ in made}]
    parts = [
        "# All tables\n",
        "After this page you will have seen every published table, each below the command that makes it.\n",
        f"Every one was made by `igcf reproduce --all` at commit {commit}, in {minutes:.0f} minutes. "
        "Finished fits are kept, so a run that was interrupted goes on where it stopped.\n",
    ]
    if missing:
        parts.append(f"Not run at this commit, and therefore not here: {', '.join(missing)}.\n")
    for experiment, command, tables in made:
        parts += [f"## {experiment.name}\n", f"`{command}`\n", *(as_markdown(table) for table in tables)]
    return "\n".join(parts)
