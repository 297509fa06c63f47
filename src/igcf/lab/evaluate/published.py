"""Every published table, the experiment that makes it, and one page with all of them at one commit."""

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from igcf.lab.evaluate.jobs import code_version
from igcf.lab.evaluate.protocols.cold import ThinLog
from igcf.lab.evaluate.protocols.observed import Observed
from igcf.lab.evaluate.protocols.ranking import KnownUsers, Next
from igcf.lab.evaluate.reproduce import PAPER_METHODS
from igcf.tables import Table, as_markdown

SHORT_TO_FIT = tuple(name for name in PAPER_METHODS if name != "nicf")
KNOWN_USERS_METHODS = KnownUsers.methods
MINUTES = "minutes.json"
"""File with the minutes that each finished experiment took."""
OTHERS = (
    "calibration (`igcf calibration --dataset ml-1m`), the graph as a third expert (`python tools/third_expert.py`) "
    "and every figure of validation users, which a search printed (`src/igcf/lab/evaluate/settings/`, "
    "`research/log.md`)"
)
"""Figures of `docs/results.md` that are not among the published experiments."""


@dataclass(frozen=True)
class Experiment:
    """One published experiment."""

    protocol: str
    dataset: str
    methods: tuple[str, ...]
    minutes: float
    """Time on two cores, in minutes, for the estimate of what is left; an order of magnitude is enough."""
    seeds: int = 1
    seed: int = 0
    """The first seed."""
    thin: float | None = None
    """Share of the log's rows that is kept."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the protocol."""

    @property
    def name(self) -> str:
        """Name of the experiment and of its folder, for instance `cold-start-ml-1m-10-seeds`."""
        parts = [self.protocol, self.dataset]
        parts += [f"thin-{self.thin:g}"] if self.thin else []
        parts += [f"{value:g}-per-user" if name == "per_user" else str(value) for name, value in self.options.items()]
        parts += [f"{self.seeds}-seeds"] if self.seeds > 1 else []
        parts += [f"seed-{self.seed}"] if self.seed else []
        parts += ["nicf"] if self.methods == ("nicf",) else []
        return "-".join(parts)

    @property
    def command(self) -> str:
        """Command that runs this experiment alone."""
        words = ["igcf", "evaluate", "--dataset", self.dataset, "--protocol", self.protocol]
        words += ["--methods", ",".join(self.methods)]
        words += [f"--thin {self.thin:g}"] if self.thin else []
        words += [f"--{name.replace('_', '-')} {value}" for name, value in self.options.items()]
        words += [f"--seeds {self.seeds}"] if self.seeds > 1 else []
        words += [f"--seed {self.seed}"] if self.seed else []
        return " ".join(words)


def _on(datasets: Iterable[str], experiment: Experiment) -> list[Experiment]:
    return [replace(experiment, dataset=name) for name in datasets]


PUBLISHED: tuple[Experiment, ...] = (
    *_on(("ml-1m", "kuairec", "ml-100k", "eachmovie"), Experiment("cold-start", "", PAPER_METHODS, 6)),
    *_on(("ml-1m", "kuairec"), Experiment("taste-drift", "", PAPER_METHODS, 8)),
    Experiment("ablation", "kuairec", ("igcf-paper", "igcf-graph"), 8),
    Experiment("ablation", "ml-1m", ("igcf-paper", "igcf-graph", "igcf"), 25),
    *_on(("ml-1m", "kuairec", "eachmovie"), Experiment("top-k", "", PAPER_METHODS, 12)),
    *_on(("ml-1m", "ml-100k", "eachmovie"), Experiment("known-users", "", KNOWN_USERS_METHODS, 5)),
    Experiment("known-users", "ml-1m", KNOWN_USERS_METHODS, 5, thin=0.1),
    *_on(("ml-1m", "ml-100k", "synthetic-drift"), Experiment("next", "", Next.methods, 5)),
    Experiment("returning", "ml-1m", ("igcf",), 3),
    Experiment("returning", "ml-1m", ("igcf",), 3, options={"part": "earliest"}),
    Experiment("thin-log", "ml-1m", ThinLog.methods, 5, options={"per_user": 10}),
    *(Experiment("thin-log", "ml-1m", ThinLog.methods, 5, options={"keep": share}) for share in (0.3, 0.1, 0.05, 0.01)),
    *_on(("ml-1m", "eachmovie", "kuairec"), Experiment("observed", "", Observed.methods, 5)),
    *_on(("ml-1m", "kuairec"), Experiment("cold-start", "", SHORT_TO_FIT, 30, seeds=10)),
    *_on(("ml-1m", "kuairec"), Experiment("cold-start", "", ("nicf",), 10, seeds=3)),
    Experiment("new-items", "ml-1m", ("igcf",), 60, seeds=3),
    Experiment("new-items", "kuairec", ("igcf",), 5),
)
"""The published experiments, those of the paper's tables first, the longest last."""


def minutes_left(remaining: Sequence[Experiment], taken: Mapping[str, float]) -> float:
    """Estimate the minutes left: the listed times, scaled by how long the finished experiments took, by name."""
    listed = sum(each.minutes for each in PUBLISHED if each.name in taken)
    scale = sum(taken.values()) / listed if listed else 1.0
    return sum(each.minutes for each in remaining if each.name not in taken) * scale


def read_minutes(folder: Path) -> dict[str, float]:
    """Return how long each finished experiment took, by name, over all runs of this code into a folder."""
    try:
        kept = json.loads((folder / MINUTES).read_text(encoding="utf-8"))
        return dict(kept["minutes"]) if kept["code"] == code_version() else {}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}


def write_minutes(folder: Path, minutes: Mapping[str, float]) -> None:
    """Keep how long the finished experiments took beside their results, so that a run that goes on knows it."""
    part = folder / f".{MINUTES}.part"
    part.write_text(json.dumps({"code": code_version(), "minutes": dict(minutes)}, indent=1), encoding="utf-8")
    part.replace(folder / MINUTES)


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


def tables_page(made: Sequence[tuple[Experiment, Sequence[Table]]], *, commit: str, minutes: float) -> str:
    """Write the page with all tables, each below the command that makes it.

    Args:
        made: the experiments that ran, each with its tables.
        commit: commit of the code that made all of them.
        minutes: how long all of them took.
    """
    missing = [each.name for each in PUBLISHED if each.name not in {experiment.name for experiment, _ in made}]
    parts = [
        "# All tables\n",
        f"Every one was made by `igcf reproduce --all` at commit {commit}, in {minutes:.0f} minutes. "
        "Finished fits are kept, so a run that was interrupted goes on where it stopped.\n",
        f"Made by commands of their own, and therefore not here: {OTHERS}.\n",
    ]
    if missing:
        parts.append(f"Not run at this commit, and therefore not here: {', '.join(missing)}.\n")
    for experiment, tables in made:
        parts += [f"## {experiment.name}\n", f"`{experiment.command}`\n", *(as_markdown(table) for table in tables)]
    return "\n".join(parts)
