"""What candidates from the index lose and cost beside exact scores: `python -m tools.retrieval`."""

import ctypes
import json
import time
from pathlib import Path
from typing import Any

import click
import numpy as np

from igcf.arrays import AnyFloatArray
from igcf.data.registry import load_dataset
from igcf.lab.bench.measure import one_thread
from igcf.model import Model
from igcf.online import Belief, Greedy, Ucb
from igcf.online.index import IndexedEngine, build_lists
from igcf.online.selection import Query
from igcf.tables import markdown_table
from tools.catalogues import clustered, linear_model, replayed_beliefs, replicated

RESET, STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")
TOP = 10
LINEAR_DIM = 64
STAGES = (10, 100)
"""Numbers of reactions of the users who are asked for, beside new ones."""
CATALOGUES = {"replicated": replicated, "clustered": clustered}
COLUMNS = ("nu", "reactions", "users", "recall@10", "lost, first", "lost, ten", "worst first", "ms")


class PeakMemory:
    """Peak memory since its creation; `bytes()` is None where the system has no such counter (it is Linux's)."""

    def __init__(self) -> None:
        self._before = None
        try:
            ctypes.CDLL(None).malloc_trim(0)  # what was freed earlier must not hide what is needed now
            RESET.write_text("5", encoding="ascii")
            self._before = _field("VmRSS")
        except (OSError, AttributeError):
            return

    def bytes(self) -> int | None:
        """Return the largest growth since the creation."""
        peak = self.total()
        return None if peak is None or self._before is None else max(peak - self._before, 0)

    def total(self) -> int | None:
        """Return the largest size of the whole process since the creation."""
        return None if self._before is None else _field("VmHWM")


def _field(name: str) -> int | None:
    lines = STATUS.read_text(encoding="ascii").splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(name + ":")), None)


def answered(engine: IndexedEngine, belief: Belief, nu: float) -> dict[str, float]:
    """Compare the ten items from the index with the exact ones, and time them.

    What is lost is the difference of the exact bounds, as a share of what the best item has over the average one.
    """
    own = engine.fresh()
    own.set_belief(belief)
    exact: AnyFloatArray = own.means[0] + nu * np.sqrt(own.variances[0]) if nu else own.means[0]
    best = np.argpartition(-exact, TOP)[:TOP]
    available, seconds = np.ones(len(exact), dtype=np.bool_), []
    for _ in range(5):
        begun = time.process_time()
        found = Query(Ucb(nu), own, available[None], TOP, np.random.default_rng).select().rows
        seconds.append(time.process_time() - begun)
    gap = float(exact.max() - exact.mean())
    return {
        "recall": len(np.intersect1d(best, found)) / TOP,
        "first": float(exact.max() - exact[found].max()) / gap,
        "ten": float(exact[best].mean() - exact[found].mean()) / gap,
        "ms": 1e3 * float(np.median(seconds)),
    }


def measured(model: Model, beliefs: dict[float, list[tuple[int, Belief]]], folder: Path | None) -> dict[str, Any]:
    """Build the index of a catalogue, and ask it for every user; `folder`: also save the model there."""
    with one_thread():
        peak, begun = PeakMemory(), time.process_time()
        lists = build_lists(model)
        seconds, megabytes = time.process_time() - begun, (peak.bytes() or 0) / 1e6
        if folder is not None:
            model.save(folder)
        engine = IndexedEngine(model, lists)
        lines = [
            {"nu": nu, "reactions": stage, **answered(engine, belief, nu)}
            for nu, users in beliefs.items()
            for stage, belief in users
        ]
    size = sum(array.nbytes for own in lists.channels for array in vars(own).values()) + lists.rows.nbytes
    built = {"lists": lists.n_lists, "build_cpu_s": seconds, "build_peak_mb": megabytes, "megabytes": size / 1e6}
    return {"items": model.n_items, "dim": model.dim, "channels": len(lists.channels), **built, "lines": lines}


def as_markdown(found: dict[str, Any]) -> str:
    """Describe one catalogue: what the index costs, then what is lost."""
    rows = []
    for key in dict.fromkeys((line["nu"], line["reactions"]) for line in found["lines"]):
        own = [line for line in found["lines"] if (line["nu"], line["reactions"]) == key]
        mean = {name: float(np.mean([line[name] for line in own])) for name in ("recall", "first", "ten")}
        ms = float(np.median([line["ms"] for line in own]))
        losses = [f"{share:.2%}" for share in (mean["first"], mean["ten"], max(line["first"] for line in own))]
        rows.append((*key, len(own), f"{mean['recall']:.3f}", *losses, f"{ms:.2f}"))
    table = markdown_table(COLUMNS, rows, align="r" * len(COLUMNS))
    return (
        f"{found['catalogue']}: {found['items']:,} items, d = {found['dim']}, {found['channels']} scored channels; "
        f"{found['lists']:,} lists of {found['megabytes']:,.0f} MB, built in {found['build_cpu_s']:.0f} s of one "
        f"processor with {found['build_peak_mb']:,.0f} MB more at most.\n\n{table}"
    )


@click.command()
@click.option("--model", type=click.Path(path_type=Path), help="Its items are repeated; default: linear, d = 64.")
@click.option("--dataset", required=True, help="The log of its users.")
@click.option("--items", default=1_000_000, show_default=True)
@click.option("--users", default=10, show_default=True)
@click.option("--nu", "nus", multiple=True, type=float, default=(0.0, 0.5), show_default=True)
@click.option("--catalogue", "names", multiple=True, type=click.Choice(list(CATALOGUES)), default=list(CATALOGUES))
@click.option("--save", type=click.Path(path_type=Path), help="Save the catalogues below this folder.")
def main(
    model: Path | None,
    dataset: str,
    items: int,
    users: int,
    nus: tuple[float, ...],
    names: tuple[str, ...],
    save: Path | None,
) -> None:
    """Measure what candidates from the index lose and cost."""
    log = load_dataset(dataset)
    own = linear_model(log, LINEAR_DIM) if model is None else Model.load(model)
    beliefs = {nu: replayed_beliefs(own, log, Ucb(nu) if nu else Greedy(), STAGES, users) for nu in nus}
    for name in names:
        catalogue = CATALOGUES[name](own, items)
        found = {"catalogue": name, **measured(catalogue, beliefs, None if save is None else save / name)}
        click.echo(f"{as_markdown(found)}\n")
        if save is not None:
            (save / f"{name}.json").write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
