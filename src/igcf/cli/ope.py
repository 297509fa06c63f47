"""`igcf ope`: what another model or policy would have achieved, estimated from a log."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from igcf.cli.options import NEW, PATH
from igcf.cli.output import Answer, answers
from igcf.errors import ConfigError
from igcf.progress import show_progress
from igcf.threads import prefer_one_thread

if TYPE_CHECKING:
    from igcf.online import Policy
    from igcf.online.candidates import CandidateLog


@click.command()
@click.option("--model", required=True, type=PATH, help="Folder of the candidate.")
@click.option("--store", help="Store with the audit to use: SQLite file or postgresql://USER@HOST/DB.")
@click.option("--log", type=PATH, help="CSV or Parquet file instead: user, item, value, propensity [, answer].")
@click.option("--policy", help="Policy of the candidate [default: as the model says].")
@click.option("--nu", type=float, help="Exploration of the policy.")
@click.option("--export", type=NEW, help="Also write the log to this .npz file for Open Bandit Pipeline.")
@answers
def ope(
    model: Path, store: str | None, log: Path | None, policy: str | None, nu: float | None, export: Path | None
) -> Answer:
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
    document = {**asdict(result), "refusal": result.refusal, "verdict": result.verdict, "left_out": left_out}
    shaped, unknown = left_out.values()
    aside = f"left out: {shaped:,} shaped by their request, {unknown:,} without propensities"
    return Answer(document, result.lines(), aside if shaped or unknown else "")


def _on_store(store: str, model: Path, policy: "Policy") -> "tuple[CandidateLog, dict[str, int]]":
    from igcf.cli.service_options import context_of
    from igcf.service.off_policy import candidate_on_audit

    with context_of(model, store) as context, show_progress() as report:
        found = candidate_on_audit(context, policy, report)
    return found.log, {"shaped": found.n_shaped, "unknown": found.n_unknown}
