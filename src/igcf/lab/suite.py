"""The suites of `igcf lab run`: eight environments, agents side by side, results files that anybody can recompute."""

import hashlib
import json
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from igcf.data import load_dataset
from igcf.errors import ConfigError, DataError, refuse_other_than_file
from igcf.lab.environments import KINDS
from igcf.lab.evaluate import Execution, Results, evaluate, setup_for
from igcf.lab.evaluate.jobs import code_version, package_versions
from igcf.lab.evaluate.results import compared, corrected, user_scores
from igcf.tables import Table
from igcf.version import __version__

REFERENCE = "igcf"
"""Agent that others are compared with by default."""
STANDING = (
    *("random", "pop", "pop-satisfied", "mf", "icf-ucb", "icf-ts", "item-knn", "ease", "egreedy-ease"),
    *("implicit-bm25", "linucb", "linucb-hybrid", "latent-bandit", "pca-gp", "igcf"),
)
"""Agents that every other one is shown among."""
LABELS = {"NewItems": {"igcf, 50 reactions": "igcf"}}
"""Rows of a protocol that stand for an agent, by kind of environment; other rows of the same method are left out."""
Json = dict[str, Any]


class Entry(NamedTuple):
    """Environment of a suite."""

    kind: str
    dataset: str
    sizes: Mapping[str, int] = {}

    @property
    def name(self) -> str:
        """Name in tables and files."""
        return f"{self.kind} {self.dataset}"


SUITES: dict[str, tuple[Entry, ...]] = {
    "small": (
        Entry("ColdStart", "synthetic"),
        Entry("Drift", "synthetic", {"rounds": 60, "min_reactions": 60, "n_users": 100}),
        Entry("Slate", "synthetic"),
        Entry("Observed", "synthetic"),
        Entry("NewItems", "synthetic"),
        Entry("ColdStart", "ml-100k"),
        Entry("Drift", "ml-100k"),
        Entry("Slate", "ml-100k"),
    ),
    "full": (
        Entry("ColdStart", "ml-100k"),
        Entry("ColdStart", "ml-1m"),
        Entry("ColdStart", "kuairec"),
        Entry("ColdStart", "eachmovie"),
        Entry("Drift", "ml-1m"),
        Entry("Slate", "ml-1m"),
        Entry("Observed", "ml-1m"),
        Entry("NewItems", "synthetic"),
    ),
}


class Score(NamedTuple):
    """Result of one agent in one environment."""

    by_user: Mapping[str, float]
    document: Json
    """What the results file says about it."""

    @property
    def mean(self) -> float:
        """Mean over users."""
        return float(np.mean(list(self.by_user.values())))


FIGURES = ("score", "error", "users", "rounds", "slate")
Scores = dict[str, dict[str, Score]]
"""By environment and agent."""


def play_suite(
    suite: str,
    agents: Sequence[str],
    *,
    seed: int = 0,
    execution: Execution,
    report: Callable[[str], None] = lambda sentence: None,
) -> Scores:
    """Play all agents in all environments of a suite; an environment without its log is left out with a note."""
    found: Scores = {}
    for entry in SUITES[suite]:
        try:
            data = load_dataset(entry.dataset)
        except DataError as error:
            report(f"left out: {entry.name}: {error}")
            continue
        protocol, slate = KINDS[entry.kind]
        setup = setup_for(data, protocol, slate=slate, **entry.sizes)
        report(f"{entry.name}: {setup.sentence}")
        results = evaluate(data, setup, agents, seeds=[seed], execution=execution)
        found[entry.name] = dict(_scores(results, entry.kind, agents, data.fingerprint()))
    if not found:
        raise DataError(f"no log of the suite {suite} is there; fetch one with `igcf data fetch`")
    return found


def _scores(results: Results, kind: str, agents: Sequence[str], fingerprint: str) -> Iterable[tuple[str, Score]]:
    session, protocol = results.sessions[0], results.setup.protocol
    curve, t = protocol.target(session)
    for row in results.rows:
        agent = LABELS.get(kind, {}).get(row.method, row.method)
        if agent not in agents:
            continue
        users = user_scores([row], curve, t)
        values = np.array(list(users.values()))
        document = {
            "figure": protocol.metric_name(curve, session, t),
            "score": float(values.mean()),
            "error": float(values.std(ddof=1) / np.sqrt(len(values))),
            "users": len(users),
            "rounds": session.rounds,
            "slate": session.slate,
            "shown": hashlib.sha256(row.outcome.shown.rows.astype(np.int32).tobytes()).hexdigest(),
            "log": fingerprint,
            "settings": dict(row.outcome.settings),
            "seconds": row.outcome.seconds,
        }
        yield agent, Score(users, document)


def results_file(suite: str, agent: str, scores: Scores, *, seed: int = 0) -> Json:
    """Return the results file of one agent: figures, versions, seeds, hashes of what was shown."""
    environments: Json = {}
    for name, here in scores.items():
        if agent not in here:
            continue
        environments[name] = dict(here[agent].document)
        if agent != REFERENCE and REFERENCE in here:
            found = compared(agent, REFERENCE, name, here[agent].by_user, here[REFERENCE].by_user)
            environments[name][f"against_{REFERENCE}"] = {"difference": found.difference, "p": found.p_uncorrected}
    return {
        "agent": agent,
        "suite": suite,
        "seed": seed,
        "igcf": __version__,
        "code": code_version(),
        "python": platform.python_version(),
        "packages": package_versions(),
        "environments": environments,
    }


def read_results_file(file: Path) -> Json:
    """Read what `results_file` returned."""
    try:
        refuse_other_than_file(file)
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"cannot read {file}: {error}; expected a results file of `igcf lab run`") from error
    kinds = {"agent": str, "suite": str, "seed": int, "environments": dict}
    is_ours = isinstance(found, dict) and all(isinstance(found.get(name), kind) for name, kind in kinds.items())
    is_ours = is_ours and found["suite"] in SUITES and found["seed"] >= 0 and bool(found["environments"])
    if not is_ours or not all(isinstance(each, dict) for each in found["environments"].values()):
        raise ConfigError(f"{file} is not a results file of `igcf lab run`; expected agent, suite and environments")
    return dict(found)


def agents_of(document: Json) -> list[str]:
    """Return who must play again to recompute a results file: its agent, and whom it is compared with."""
    is_compared = any(f"against_{REFERENCE}" in each for each in document["environments"].values())
    return list(dict.fromkeys([document["agent"], *([REFERENCE] if is_compared else [])]))


def differences(document: Json, scores: Scores) -> list[str]:
    """Say in which environments a results file is not what its agent gets now, in any figure but its seconds."""
    wrong = []
    played = results_file(document["suite"], document["agent"], scores, seed=document["seed"])["environments"]
    for name, was in document["environments"].items():
        now = dict(played.get(name, {}))
        if not now:
            wrong.append(f"{name}: not played here")
            continue
        figures = {each: json.dumps(own) != json.dumps(was.get(each)) for each, own in now.items()}
        changed = [each for each, is_other in figures.items() if is_other and each not in ("seconds", "log")]
        if changed:
            reason = "" if now["log"] == was.get("log") else "; the log is another one"
            reason += "" if document.get("code") == code_version() else "; the code or a package is of another version"
            told = ", ".join(f"{each} is {now[each]}, not {was.get(each)}" for each in changed if each in FIGURES)
            wrong.append(f"{name}: {told or 'other ' + ', '.join(changed)}{reason}")
    return wrong


def suite_table(suite: str, scores: Scores, agent: str = REFERENCE) -> Table:
    """Return all agents by mean rank; + and - mark who is better or worse than `agent`, tests as one family."""
    names = list(scores)
    means = {name: {each: score.mean for each, score in own.items()} for name, own in scores.items()}
    agents = sorted({each for own in means.values() for each in own}, key=lambda each: mean_rank(means, each))
    others = [(name, each) for name in names for each in scores[name] if each != agent and agent in scores[name]]
    tests = corrected(
        [compared(each, agent, name, scores[name][each].by_user, scores[name][agent].by_user) for name, each in others]
    )
    signs = ("" if test.is_tie else "+" if test.difference > 0 else "-" for test in tests)
    marks = dict(zip(others, signs, strict=True))
    rows = tuple(
        (
            f"> {each}" if each == agent else each,
            *(f"{means[name][each]:.2f}{marks.get((name, each), '')}" if each in means[name] else "" for name in names),
            f"{mean_rank(means, each):.1f}",
        )
        for each in agents
    )
    best = {
        (row, column + 1)
        for column, name in enumerate(names)
        for row, each in enumerate(agents)
        if each in means[name] and means[name][each] == max(means[name].values())
    }
    title = f"suite {suite}; + better, - worse than {agent} (Wilcoxon by user, Holm over {len(tests)} tests)"
    return Table(title, ("agent", *names, "mean rank"), rows, frozenset(best))


def mean_rank(means: Mapping[str, Mapping[str, float]], agent: str) -> float:
    """Return the mean over environments of an agent's place, 1 for the best; `means` by environment and agent."""
    played = [own for own in means.values() if agent in own]
    return float(np.mean([1 + sum(each > own[agent] for each in own.values()) for own in played]))
