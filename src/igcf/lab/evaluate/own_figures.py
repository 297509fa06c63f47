"""Published experiments with figures of their own, which no jobs of `igcf.lab.evaluate.jobs` make.

Observed reactions, new items, thin logs and calibration run as a whole; what is finished is kept like a job and found
again by equal data, settings and code.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import igcf
from igcf.data import Interactions
from igcf.errors import IgcfError
from igcf.lab.baselines import METHODS
from igcf.lab.evaluate.calibration import calibration, calibration_table
from igcf.lab.evaluate.jobs import SOURCES, code_version
from igcf.lab.evaluate.new_items import new_items, new_items_setup, new_items_tables
from igcf.lab.evaluate.observed import observed, observed_setup, observed_tables
from igcf.lab.evaluate.protocols import setup_for
from igcf.lab.evaluate.thin_logs import thin_log_table
from igcf.lab.evaluate.tuned_settings import tuned_settings
from igcf.tables import Table

if TYPE_CHECKING:
    from igcf.lab.evaluate.published import Experiment

OwnFigures = Literal["observed", "new-items", "thin-log", "calibration"]
OWN_FIGURES: tuple[OwnFigures, ...] = get_args(OwnFigures)
OWN_CODE = (
    "catalogue",
    "lab/evaluate/calibration.py",
    "lab/evaluate/hidden_items.py",
    "lab/evaluate/live.py",
    "lab/evaluate/new_items.py",
    "lab/evaluate/observed.py",
    "lab/evaluate/significance.py",
    "lab/evaluate/thin_logs.py",
)
"""Files and folders whose sources make these figures, beside those of all jobs."""


def own_tables(
    each: "Experiment",
    data: Interactions,
    *,
    users: int,
    folder: Path,
    step: Callable[[str], None] = lambda part: None,
) -> list[Table]:
    """Run one of these experiments and keep its tables in `folder`, or take those that are kept there.

    Args:
        each: the experiment.
        data: the log.
        users: the most test users; where reactions are observed, twice as many.
        folder: where what is finished is kept.
        step: function that is told the part of the experiment that begins.
    """
    settings = [tuned_settings(data.name, "cold-start", name) for name in each.methods if name in METHODS]
    what = asdict(replace(each, minutes=0))  # an estimate of the time changes nothing
    named = json.dumps([what, data.fingerprint(), settings, users, code_version(), _own_code()])
    path = folder / f"{each.protocol}-{each.seed}-{hashlib.sha256(named.encode()).hexdigest()[:20]}.json"
    found = _kept(path)
    if found is None:
        found = _run(each, data, users, step)
        _keep(found, path)
    return found


def _run(each: "Experiment", data: Interactions, users: int, step: Callable[[str], None]) -> list[Table]:
    seed, methods = each.seed, each.methods
    if each.protocol == "observed":
        setup = observed_setup(data)
        setup = replace(setup, n_users=min(setup.n_users, 2 * users))
        return observed_tables(observed(data, setup, methods, seed=seed, step=step))
    if each.protocol == "new-items":
        return new_items_tables(new_items(data, new_items_setup(data, n_users=users), seed=seed, step=step))
    if each.protocol == "thin-log":
        thin = {"share": each.thin, "per_user": each.per_user}
        return [thin_log_table(data, **thin, n_users=users, seed=seed, step=step)]  # type: ignore[arg-type]
    cold = setup_for(data, "cold-start", n_users=users)
    return [calibration_table(data.name, calibration(data, cold, methods, seed=seed, step=step))]


def _kept(path: Path) -> list[Table] | None:
    try:
        return [_as_table(each) for each in json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _keep(tables: Sequence[Table], path: Path) -> None:
    part = path.with_suffix(".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps([asdict(each) | {"best": sorted(each.best)} for each in tables]), encoding="utf-8")
        part.replace(path)
    except OSError as error:
        raise IgcfError(f"cannot keep results in {path.parent}: {error.strerror or error}") from error


def _as_table(kept: dict[str, Any]) -> Table:
    best = frozenset((int(row), int(column)) for row, column in kept["best"])
    return Table(kept["title"], tuple(kept["header"]), tuple(map(tuple, kept["rows"])), best, kept["n_keys"])


@cache
def _own_code() -> str:
    root, digest = Path(igcf.__file__).parent, hashlib.sha256()
    for name in OWN_CODE:
        for file in [root / name] if (root / name).is_file() else sorted((root / name).rglob("*")):
            if file.suffix in SOURCES:
                digest.update(str(file.relative_to(root)).encode() + file.read_bytes())
    return digest.hexdigest()[:16]
