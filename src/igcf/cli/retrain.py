"""`igcf retrain`: a better model from a store, every night."""

import time
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from igcf.cli.models import announced
from igcf.cli.options import EXISTING, NEW, SATISFIED
from igcf.cli.output import Answer, answers, note
from igcf.cli.service_options import of_store
from igcf.experiments.off_policy import evaluate
from igcf.model import Model
from igcf.model.files import load_model
from igcf.online.policies import own_policy
from igcf.service.context import ServiceContext
from igcf.service.off_policy import candidate_on_audit
from igcf.service.serving.served_model import ServedModel
from igcf.service.settings import ServiceSettings
from igcf.service.store.export import described_items, read_store
from igcf.service.store.maintenance import open_existing
from igcf.training.gate import Check, estimated, is_held_out
from igcf.training.gate import retrain as train_and_judge

REPORT = "gate.html"


@click.command()
@of_store
@click.option("--out", required=True, type=NEW, help="Model folder to write; must not exist.")
@click.option("--promote", is_flag=True, help="Serve the new model on all servers of the store, unless it is worse.")
@click.option("--items", type=EXISTING, help="File of items; those of the model in service are known without it.")
@SATISFIED
@click.option("--seed", type=int, help="Makes training repeatable [default: that of the model in service].")
@answers
def retrain(url: str, out: Path, promote: bool, items: Path | None, **settings: Any) -> Answer:
    """Train on the reactions in a store, compare with the model in service, write --out.

    One user in ten is held out from every training. Both models play these users; the verdict is better, level or
    worse, with its evidence in OUT/gate.html and OUT/meta.json. Settings are those of the model in service. With
    --promote a model that is worse is written, not served, and the exit code is 1.

    \b
    Examples:
      igcf retrain --store igcf.db --out models/2026-11-18 --promote
      igcf retrain --store postgresql://igcf@db/igcf --out models/2026-11-18
    """
    started = time.perf_counter()
    with closing(open_existing(url)) as store:
        generation, folder = store.generation()
        current = load_model(Path(folder)) if folder else None
        described = {}
        if current is not None and (current.catalogue.titles or current.catalogue.categories):
            described = {item_id: current.catalogue.item(row) for row, item_id in enumerate(current.item_ids)}
        log, sentence = read_store(url, described)
        note(sentence)
        log = log if items is None else log.with_items(items)
        if current is not None:  # the servers have added the items that the store describes
            added = [item for item_id, item in described_items(store).items() if current.known_row(item_id) is None]
            current = current.with_items(added)
        chosen = {name: value for name, value in settings.items() if value is not None}
        model, found = train_and_judge(log, current, chosen, evidence=lambda candidate: _from_audit(url, candidate))
        model.save(out)
        if found is not None:
            (out / REPORT).write_text(found.page(out.name), encoding="utf-8")
        is_served = promote and (found is None or found.verdict != "worse")
        now = announced(store, out, after=generation)[2] if is_served else None
    document = {"out": str(out), "gate": model.metadata["gate"], "promoted": is_served, "generation": now}
    lines = [] if found is None else [f"{check.verdict:<7}{check}" for check in found.checks]
    told = f"{out}: {'the first model of this store' if found is None else found.sentence}"
    if promote:
        told += f"\nPromoted as generation {now}" if is_served else f"\nNot promoted; {folder} stays in service"
    document["seconds"] = time.perf_counter() - started
    return Answer(document, lines, told, exit_code=1 if promote and not is_served else 0)


def _from_audit(url: str, candidate: Model) -> list[Check]:
    """Estimate from the answers to held-out users what the candidate would have achieved, where they allow it."""
    share = candidate.metadata["held_out"]
    served = ServedModel(candidate, "candidate", "candidate", candidate.policy, 1.0)
    with closing(ServiceContext.open(served, ServiceSettings(store=url))) as context:
        policy = own_policy(candidate.policy)
        log = candidate_on_audit(context, policy, counts=lambda user: bool(is_held_out([user], share)[0])).log
    found = evaluate(log.slates()) if len(log) else None
    return [] if found is None or found.refusal is not None else [estimated(found)]
