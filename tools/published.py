"""Every published experiment, also those beyond the paper, and one page with all tables.

    python -m tools.published --out results/

Takes hours; started again, it resumes where it stopped. Data sets that are not at hand are left out.
"""

import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from igcf.cli.experiments import common_options, run_experiment, write_report
from igcf.cli.output import note
from igcf.data import Interactions, dataset_info, find_dataset, load_dataset
from igcf.lab.evaluate import Results, Setup, setup_for
from igcf.lab.evaluate.paper import PAPER_METHODS
from igcf.lab.evaluate.protocols import protocol_named, thinned
from igcf.lab.evaluate.protocols.cold import ThinLog
from igcf.lab.evaluate.protocols.observed import Observed
from igcf.lab.evaluate.protocols.ranking import KnownUsers, Next
from igcf.lab.evaluate.tables import results_tables
from igcf.tables import Table, as_markdown

SHORT_TO_FIT = tuple(name for name in PAPER_METHODS if name != "nicf")
KNOWN_USERS_METHODS = KnownUsers.methods
OTHERS = (
    "calibration (`python -m tools.calibration ml-1m`), the graph as a third expert (`python tools/third_expert.py`) "
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
    *_on(("ml-1m", "ml-100k", "eachmovie"), Experiment("known-users", "", KNOWN_USERS_METHODS)),
    Experiment("known-users", "ml-1m", KNOWN_USERS_METHODS, thin=0.1),
    *_on(("ml-1m", "ml-100k", "synthetic-drift"), Experiment("next", "", Next.methods)),
    Experiment("new-items", "ml-1m", ("igcf",), seeds=3),
    Experiment("new-items", "kuairec", ("igcf",)),
    Experiment("thin-log", "ml-1m", ThinLog.methods, options={"per_user": 10}),
    *(Experiment("thin-log", "ml-1m", ThinLog.methods, options={"keep": share}) for share in (0.3, 0.1, 0.05, 0.01)),
    *_on(("ml-1m", "eachmovie", "kuairec"), Experiment("observed", "", Observed.methods)),
    Experiment("returning", "ml-1m", ("igcf",)),
    Experiment("returning", "ml-1m", ("igcf",), options={"part": "earliest"}),
    *_on(("ml-1m", "kuairec", "ml-100k", "eachmovie"), Experiment("cold-start", "", PAPER_METHODS)),
    *_on(("ml-1m", "kuairec"), Experiment("taste-drift", "", PAPER_METHODS)),
    *_on(("ml-1m", "kuairec", "eachmovie"), Experiment("top-k", "", PAPER_METHODS)),
    *_on(("ml-1m", "kuairec"), Experiment("cold-start", "", SHORT_TO_FIT, seeds=10)),
    *_on(("ml-1m", "kuairec"), Experiment("cold-start", "", ("nicf",), seeds=3)),
    Experiment("ablation", "kuairec", ("igcf-paper", "igcf-graph")),
    Experiment("ablation", "ml-1m", ("igcf-paper", "igcf-graph", "igcf")),
)
"""The published experiments, roughly in the order of what they take."""


def commit_of_the_code() -> str:
    """Return the commit of the checkout, marked if there are uncommitted changes; `unknown` outside a repository."""
    here = Path(__file__).parent

    def git(*words: str) -> str:
        try:
            done = subprocess.run(["git", *words], cwd=here, capture_output=True, text=True, timeout=30, check=True)
        except (OSError, subprocess.SubprocessError):
            return ""
        return done.stdout.strip()

    commit = git("rev-parse", "--short=10", "HEAD")
    return (
        "unknown" if not commit else commit + (" with uncommitted changes" if git("status", "--porcelain", ".") else "")
    )


def tables_page(made: Sequence[tuple[Experiment, Sequence[Table]]], commit: str, earlier: str = "") -> str:
    """Write the page of all tables, each below its command and commit; what did not run again keeps its earlier one."""
    sections = sections_of(earlier)
    for experiment, tables in made:
        parts = [f"`{experiment.command}` at commit {commit}\n", *(as_markdown(table) for table in tables)]
        sections[experiment.name] = "\n".join(parts)
    missing = [each.name for each in PUBLISHED if each.name not in sections]
    parts = [
        "# All tables\n",
        "Made by `python -m tools.published`, short experiments first. Each section names its command and commit. "
        "Finished fits are kept, so an interrupted run resumes where it stopped.\n",
        f"Made by commands of their own, and therefore not here: {OTHERS}.\n",
    ]
    parts += [f"Not run yet: {', '.join(missing)}.\n"] if missing else []
    parts += [f"## {each.name}\n\n{sections[each.name]}" for each in PUBLISHED if each.name in sections]
    return "\n".join(parts)


def sections_of(page: str) -> dict[str, str]:
    """Return the text below each experiment's heading on a page of all tables."""
    found = re.split(r"^## (.+)\n\n", page, flags=re.MULTILINE)
    return dict(zip(found[1::2], found[2::2], strict=True))


@click.command()
@click.option("--users", default=Setup.n_users, help="Test users, at most.")
@common_options
def published(users: int, **common: Any) -> None:
    """Run every published experiment with a data set at hand, one folder each, and write the page with all tables."""
    if common["out"] is None or common["seeds"] != 1 or common["seed"] or common["tune"] or common["changes"]:
        raise click.UsageError("pass --out DIR, and neither --seeds, --seed, --tune nor --set: those are published")
    found = {each.dataset: dataset_info(each.dataset) for each in PUBLISHED}
    there = {name for name, info in found.items() if not info.files or find_dataset(info, common["data_dir"])}
    chosen = [each for each in PUBLISHED if each.dataset in there]
    made: list[tuple[Experiment, Sequence[Table]]] = []
    commit, page = commit_of_the_code(), common["out"] / "tables.md"
    earlier = page.read_text(encoding="utf-8") if page.exists() else ""
    for number, each in enumerate(chosen):
        note(f"experiment {number + 1} of {len(chosen)}: {each.name}")
        results, data = run(each, users, common)
        write_report(results, data, common["out"] / each.name)
        made.append((each, results_tables(results)))
        page.write_text(tables_page(made, commit, earlier), encoding="utf-8")
    note(f"wrote {page}: {len(made)} experiments")


def run(each: Experiment, users: int, common: Mapping[str, Any]) -> tuple[Results, Interactions]:
    """Run one experiment; what is finished is kept in the common folder of all of them."""
    data = load_dataset(each.dataset, common["data_dir"])
    if each.thin is not None:
        data = thinned(data, each.thin, rng=np.random.default_rng(each.seed))
    setup = setup_for(data, protocol_named(each.protocol, **each.options))
    setup = replace(setup, n_users=min(setup.n_users, users)) if users < Setup.n_users else setup
    if each.thin is not None:
        setup = replace(setup, dataset=f"{setup.dataset}-thin-{each.thin:g}")
    return run_experiment(data, setup, list(each.methods), **{**common, "seed": each.seed, "seeds": each.seeds}), data


if __name__ == "__main__":
    published()
