"""Every published experiment, also those beyond the paper, and one page with all tables.

    python -m tools.published --out results/

The jobs of all experiments run in one pool, the longest first, and a fit that several experiments need is made once.
Takes about an hour; started again, it resumes where it stopped. Data sets that are not at hand are left out. What each
experiment took is written to `seconds.json`.
"""

import json
import re
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from igcf.cli.experiments import common_options, executing, write_report
from igcf.cli.output import note
from igcf.data import Interactions, dataset_info, find_dataset, load_dataset
from igcf.lab.evaluate import Execution, Setup, setup_for
from igcf.lab.evaluate.experiment import evaluate, planned_jobs
from igcf.lab.evaluate.jobs import sharing_key
from igcf.lab.evaluate.paper import PAPER_METHODS
from igcf.lab.evaluate.protocols import Job, protocol_named, thinned
from igcf.lab.evaluate.protocols.observed import Observed
from igcf.lab.evaluate.protocols.ranking import KnownUsers, Next
from igcf.lab.evaluate.protocols.thin import ThinLog
from igcf.lab.evaluate.running import run_work
from igcf.lab.evaluate.tables import results_tables
from igcf.lab.evaluate.tuned_settings import tuned_settings
from igcf.tables import Table, as_markdown
from tools.calibration import calibration, calibration_table

OVER_SEEDS = tuple(name for name in PAPER_METHODS if name != "nicf" and not name.startswith("igcf-paper-"))
"""Methods of the tables over ten seeds; `nicf` takes minutes, and the other forms of the paper's model have a page."""
KNOWN_USERS_METHODS = KnownUsers.methods
CALIBRATED = ("ml-1m",)
"""Data sets on whose test users predicted probabilities are compared with what comes true."""
CALIBRATION_METHODS = ("pca-gp", "igcf")
UNKNOWN_SECONDS = 100.0
"""What a fit is expected to take that no earlier page has: long, so that it begins early."""
OTHERS = (
    "the graph as a third expert (`python tools/third_expert.py`) and every figure of validation users, which a "
    "search printed (`src/igcf/lab/evaluate/settings/`, `research/log.md`)"
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
    def all_seeds(self) -> range:
        """The seeds that are run."""
        return range(self.seed, self.seed + self.seeds)

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
    *(Experiment("new-items", "ml-1m", ("igcf",), seed=seed) for seed in range(3)),
    Experiment("new-items", "kuairec", ("igcf",)),
    Experiment("thin-log", "ml-1m", ThinLog.methods, options={"per_user": 10}),
    *(Experiment("thin-log", "ml-1m", ThinLog.methods, options={"keep": share}) for share in (0.3, 0.1, 0.05, 0.01)),
    *_on(("ml-1m", "eachmovie", "kuairec"), Experiment("observed", "", Observed.methods)),
    Experiment("returning", "ml-1m", ("igcf",)),
    Experiment("returning", "ml-1m", ("igcf",), options={"part": "earliest"}),
    *_on(("ml-1m", "kuairec", "ml-100k", "eachmovie"), Experiment("cold-start", "", PAPER_METHODS)),
    *_on(("ml-1m", "kuairec"), Experiment("taste-drift", "", PAPER_METHODS)),
    *_on(("ml-1m", "kuairec", "eachmovie"), Experiment("top-k", "", PAPER_METHODS)),
    *_on(("ml-1m", "kuairec"), Experiment("cold-start", "", OVER_SEEDS, seeds=10)),
    *_on(("ml-1m", "kuairec"), Experiment("cold-start", "", ("nicf",), seeds=3)),
    Experiment("ablation", "kuairec", ("igcf-paper", "igcf-graph")),
    Experiment("ablation", "ml-1m", ("igcf-paper", "igcf-graph", "igcf")),
)
"""The published experiments."""


def commands() -> dict[str, str]:
    """Return the sections of the page in their order, each with the command that makes it alone."""
    others = {f"calibration-{name}": f"python -m tools.calibration {name}" for name in CALIBRATED}
    return {each.name: each.command for each in PUBLISHED} | others


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


def tables_page(made: Mapping[str, Sequence[Table]], commit: str, earlier: str = "") -> str:
    """Write the page of all tables, each below its command and commit; what did not run again keeps its earlier one."""
    sections, known = sections_of(earlier), commands()
    for name, tables in made.items():
        sections[name] = "\n".join([f"`{known[name]}` at commit {commit}\n", *map(as_markdown, tables)])
    missing = [name for name in known if name not in sections]
    parts = [
        "# All tables\n",
        "Made by `python -m tools.published`. Each section names its command and commit. "
        "Finished fits are kept, so an interrupted run resumes where it stopped.\n",
        f"Made by commands of their own, and therefore not here: {OTHERS}.\n",
    ]
    parts += [f"Not run yet: {', '.join(missing)}.\n"] if missing else []
    parts += [f"## {name}\n\n{sections[name]}" for name in known if name in sections]
    return "\n".join(parts)


def sections_of(page: str) -> dict[str, str]:
    """Return the text below each heading on a page of all tables."""
    found = re.split(r"^## (.+)\n\n", page, flags=re.MULTILINE)
    return dict(zip(found[1::2], found[2::2], strict=True))


def seconds_of(section: str) -> dict[str, tuple[float, float]]:
    """Return the seconds of fitting and of all sessions of each row, from the section of an earlier run."""
    found: dict[str, tuple[float, float]] = {}
    for block in re.findall(r"(?:^\|.*\|\n)+", section, flags=re.MULTILINE):
        header, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines())
        for row in rows if "fit s" in header else ():
            fit, online = (float(row[header.index(name)]) for name in ("fit s", "online s"))
            found[row[0]] = (fit, found.get(row[0], (0.0, 0.0))[1] + online)
    return found


@dataclass(frozen=True)
class Plan:
    """An experiment with its log and its jobs."""

    experiment: Experiment
    data: Interactions
    setup: Setup
    jobs: list[Job]

    def expected_seconds(self, earlier: Mapping[str, str]) -> list[tuple[float, float]]:
        """Return the seconds of fitting and playing that each job took in an earlier run, or a guess."""
        known = seconds_of(earlier.get(self.experiment.name, ""))
        rows = [[known.get(play.label, (UNKNOWN_SECONDS, 0.0)) for play in job.plays] for job in self.jobs]
        return [(own[0][0], sum(online for _, online in own)) for own in rows]


def plan(each: Experiment, data: Interactions, users: int) -> Plan:
    """Return what has to run for an experiment, with at most so many test users."""
    setup = setup_for(data, protocol_named(each.protocol, **each.options))
    setup = replace(setup, n_users=min(setup.n_users, users)) if users < Setup.n_users else setup
    if each.thin is not None:
        setup = replace(setup, dataset=f"{setup.dataset}-thin-{each.thin:g}")
    settings = {name: tuned_settings(setup.dataset, setup.protocol, name) for name in each.methods}
    return Plan(each, data, setup, planned_jobs(setup, settings, each.all_seeds))


@dataclass
class Clock:
    """What all jobs are expected to take, and how much of it is over."""

    seconds: Sequence[float]
    """Expected seconds of each job, those of a shared fit at the first job that needs it."""
    n_finished: int = 0
    left: float = 0.0
    worked: float = 0.0
    """Expected seconds of the jobs that this run has finished."""
    begun: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        """Begin with everything left."""
        self.left = sum(self.seconds)

    def line(self, places: Sequence[int], *, was_kept: bool, what: str) -> str:
        """Note that a job is finished; returns a line that says how far the run is."""
        expected = sum(self.seconds[place] for place in places)
        self.n_finished, self.left = self.n_finished + len(places), self.left - expected
        self.worked += 0.0 if was_kept else expected
        minutes = (time.monotonic() - self.begun) / 60
        rest = f", about {max(self.left, 0.0) * minutes / self.worked:.0f} min left" if self.worked else ""
        return f"[{self.n_finished}/{len(self.seconds)}] {minutes:.1f} min{rest}: {what}"


def finished_plans(plans: Sequence[Plan], earlier: str, execution: Execution) -> Iterator[tuple[Plan, float]]:
    """Run the jobs of all plans, the longest first, and yield each plan when its last job is finished.

    With it come the seconds that its jobs took, or would have taken if they had not shared fits with others.
    """
    sections, fingerprints = sections_of(earlier), {id(each.data): each.data.fingerprint() for each in plans}
    jobs = [
        (sum(seconds), seconds, number, job)
        for number, each in enumerate(plans)
        for job, seconds in zip(each.jobs, each.expected_seconds(sections), strict=True)
    ]
    jobs.sort(key=lambda each: -each[0])
    keys = [sharing_key(job, fingerprints[id(plans[number].data)]) for _, _, number, job in jobs]
    is_shared = [key in keys[:place] for place, key in enumerate(keys)]
    clock = Clock(
        [online if own else fit + online for own, (_, (fit, online), _, _) in zip(is_shared, jobs, strict=True)]
    )
    left, took = [len(each.jobs) for each in plans], [0.0] * len(plans)
    for done in run_work([(plans[number].data, job) for _, _, number, job in jobs], execution):
        own = done.outcomes[0]
        seconds = own.seconds["pretrain"] + sum(each.seconds["online"] for each in done.outcomes)
        names = ", ".join(dict.fromkeys(plans[jobs[place][2]].experiment.name for place in done.places))
        what = f"{own.label}, seed {own.seed} {'kept' if done.was_kept else 'finished'} ({names}, {seconds:.0f} s)"
        note(clock.line(done.places, was_kept=done.was_kept, what=what))
        for place in done.places:
            number = jobs[place][2]
            left[number] -= 1
            took[number] += seconds
            if not left[number]:
                yield plans[number], took[number]


def logs_at_hand(
    wanted: Iterable[tuple[str, float | None]], folder: Path | None
) -> dict[tuple[str, Any], Interactions]:
    """Return the logs that are at hand, by name and the share of rows that is kept."""
    found: dict[tuple[str, Any], Interactions] = {}
    for name, thin in dict.fromkeys(wanted):
        info = dataset_info(name)
        if info.files and not find_dataset(info, folder):
            continue
        data = found[name, None] = found.get((name, None)) or load_dataset(name, folder)
        if thin is not None:
            found[name, thin] = thinned(data, thin, rng=np.random.default_rng(0))
    return found


@click.command()
@click.option("--users", default=Setup.n_users, help="Test users, at most.")
@common_options
def published(users: int, **common: Any) -> None:
    """Run every published experiment with a data set at hand, one folder each, and write the page with all tables."""
    if common["out"] is None or common["seeds"] != 1 or common["seed"] or common["tune"] or common["changes"]:
        raise click.UsageError("pass --out DIR, and neither --seeds, --seed, --tune nor --set: those are published")
    begun, commit, out = time.monotonic(), commit_of_the_code(), common["out"]
    wanted = [(each.dataset, each.thin) for each in PUBLISHED] + [(name, None) for name in CALIBRATED]
    logs = logs_at_hand(wanted, common["data_dir"])
    plans = [
        plan(each, logs[each.dataset, each.thin], users) for each in PUBLISHED if (each.dataset, each.thin) in logs
    ]
    earlier = (out / "tables.md").read_text(encoding="utf-8") if (out / "tables.md").exists() else ""
    made: dict[str, Sequence[Table]] = {}
    seconds: dict[str, float] = {}

    def write(name: str, tables: Sequence[Table], took: float) -> None:
        made[name], seconds[name] = tables, round(took, 1)
        (out / "tables.md").write_text(tables_page(made, commit, earlier), encoding="utf-8")
        costs = {"commit": commit, "minutes": round((time.monotonic() - begun) / 60, 1), "experiments": seconds}
        (out / "seconds.json").write_text(json.dumps(costs, indent=2) + "\n", encoding="utf-8")

    with executing(is_silent=True, **common) as execution:
        for each, took in finished_plans(plans, earlier, execution):
            of = each.experiment
            results = evaluate(each.data, each.setup, of.methods, seeds=of.all_seeds, execution=execution)
            results = replace(results, command=of.command)
            write_report(results, each.data, out / of.name)
            write(of.name, results_tables(results), took)
    for name in CALIBRATED:
        if (name, None) in logs:
            started = time.monotonic()
            setup = setup_for(logs[name, None], "cold-start")
            found = calibration(
                logs[name, None], replace(setup, n_users=min(setup.n_users, users)), CALIBRATION_METHODS
            )
            write(f"calibration-{name}", [calibration_table(name, found)], time.monotonic() - started)
    note(f"wrote {out / 'tables.md'}: {len(made)} experiments in {(time.monotonic() - begun) / 60:.0f} min")


if __name__ == "__main__":
    published()
