"""`igcf ope`: what another model or policy would have achieved, estimated from a log."""

from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from igcf.cli.options import AS_JSON, PATH
from igcf.cli.output import echo, emit_json, note
from igcf.errors import ConfigError
from igcf.progress import show_progress
from igcf.threads import prefer_one_thread

if TYPE_CHECKING:
    from igcf.experiments.off_policy import Evaluation
    from igcf.online import Policy
    from igcf.online.candidates import CandidateLog


@click.command()
@click.option("--model", required=True, type=PATH, help="Folder of the candidate.")
@click.option("--store", help="Store with the audit to use: SQLite file or postgresql://USER@HOST/DB.")
@click.option("--log", type=PATH, help="CSV or Parquet file instead: user, item, value, propensity [, answer].")
@click.option("--policy", help="Policy of the candidate [default: as the model says].")
@click.option("--nu", type=float, help="Exploration of the policy.")
@click.option("--export", type=PATH, help="Also write the log to this .npz file for Open Bandit Pipeline.")
@AS_JSON
def ope(
    model: Path,
    store: str | None,
    log: Path | None,
    policy: str | None,
    nu: float | None,
    export: Path | None,
    as_json: bool,
) -> None:
    """Estimate from a log with propensities what a candidate would have achieved.

    \b
    Examples:
      igcf ope --store igcf.db --model new-model/
      igcf ope --log answers.csv --model new-model/ --policy greedy
    """
    prefer_one_thread()  # before NumPy

    from igcf.experiments.off_policy import evaluate
    from igcf.model import Model
    from igcf.online.candidates import candidate_on_file
    from igcf.online.policies import named_policy, own_policy

    if (store is None) == (log is None):
        raise ConfigError("name one log: --store or --log")
    if export is not None and export.exists():
        raise ConfigError(f"{export} exists; choose another name")
    loaded = Model.load(model)
    candidate = own_policy(loaded.policy, nu=nu) if policy is None else named_policy(policy, nu=nu)
    left_out = {"shaped": 0, "unknown": 0}
    if log is not None:
        found = candidate_on_file(log, loaded, candidate)
    else:
        found, left_out = _on_store(store or "", model, candidate)
    result = evaluate(found.slates())
    if export is not None:
        import numpy as np

        np.savez_compressed(export, **found.feedback())
    if as_json:
        emit_json({**asdict(result), "refusal": result.refusal, "verdict": result.verdict, "left_out": left_out})
    else:
        _print(result, left_out)


def _on_store(store: str, model: Path, policy: "Policy") -> "tuple[CandidateLog, dict[str, int]]":
    from igcf.cli.service_options import store_settings
    from igcf.service.context import ServiceContext
    from igcf.service.off_policy import candidate_on_audit

    with closing(ServiceContext.open(model, store_settings(store, None))) as context, show_progress() as report:
        found = candidate_on_audit(context, policy, report)
    return found.log, {"shaped": found.n_shaped, "unknown": found.n_unknown}


def _print(result: "Evaluation", left_out: dict[str, int]) -> None:
    for estimate in (result.logged, *result.estimates, result.difference):
        echo(f"{estimate.name:33} {estimate.value:8.4f}   {estimate.low:.4f} to {estimate.high:.4f}")
    for each in result.diagnostics:
        echo(
            f"{each.kind}: effective size {each.effective_size:,.0f} of {result.answers:,} answers, largest weight "
            f"{each.largest_weight:,.1f}, {max(each.missing, 0.0):.1%} of what the candidate shows is not in the log"
        )
    for each in result.diagnostics[1:]:
        if each.refusal is not None:
            echo(f"{each.kind}: {each.refusal}")
    if any(left_out.values()):
        note(f"left out: {left_out['shaped']:,} shaped by their request, {left_out['unknown']:,} without propensities")
    echo(result.refusal or f"successes per answer, candidate against log: {result.verdict}")
