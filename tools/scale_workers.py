"""Measures training on several workers for docs/scale.md: losses, bytes and memory.

python tools/scale_workers.py losses --dataset ml-100k
python tools/scale_workers.py bytes
python tools/scale_workers.py memory
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import igcf.training.cluster.team as team_module
from igcf.config import GraphConfig
from igcf.data import DATASETS, load_dataset
from igcf.lab.bench.worlds import STARS, random_log
from igcf.training import Progress, pretrain
from igcf.training.cluster.engines import open_team
from igcf.training.cluster.layout import Layout
from igcf.training.cluster.workers import Workers
from igcf.training.variational.run import collect_vectors
from igcf.training.variational.shard import Shard
from igcf.training.variational.train import fit
from igcf.training.variational.training_data import GraphTrainingData

WORKERS = (1, 2, 4)
OBJECTIVES: tuple[dict[str, Any], ...] = (
    {"missing": "zero"},
    {"missing": "ignore"},
    {"missing": "zero", "feedback": "binary"},
    {"missing": "ignore", "feedback": "binary"},
)


def losses(dataset: str) -> None:
    """50 epochs on a real log with 1, 2 and 4 processes, for every objective."""
    log, satisfied = load_dataset(dataset), DATASETS[dataset].satisfied
    for objective in OBJECTIVES:
        first: np.ndarray[Any, np.dtype[np.float64]] | None = None
        for n in WORKERS:
            seen: list[float] = []

            def note(progress: Progress, seen: list[float] = seen) -> None:
                seen.append(progress.stats.loss if progress.stats else np.nan)

            settings = {"epochs": 50, "validate_every": 50, "satisfied": satisfied, **objective}
            model = pretrain(log, shards=n, progress=note, **settings)
            found = np.array(seen[:50])
            first = found if first is None else first
            print(
                objective,
                f"{n} workers: last loss {found[-1]:.6f}, largest difference {abs(found / first - 1).max():.1e},",
                f"precision {model.metadata['metrics']['validation_precision']:.3f}",
                flush=True,
            )


def sent_bytes() -> None:
    """What rank 0 and the formula say about one step, one size changed at a time."""
    base = {"users": 2000, "items": 500, "pairs": 20_000, "dim": 32, "layers": 2}
    changes: tuple[dict[str, int], ...] = (
        {}, {"layers": 8}, {"pairs": 80_000}, {"users": 4000}, {"items": 1000}, {"dim": 64},
    )  # fmt: skip
    for n in (2, 4):
        with open_team(Workers(shards=n)) as team:
            for change in changes:
                size = base | change
                config = GraphConfig(dim=size["dim"], layers=size["layers"], epochs=3)
                world = GraphTrainingData.from_log(
                    random_log(size["users"], size["items"], size["pairs"]), config, STARS
                )
                marks: list[int] = []

                def note(_: Progress, marks: list[int] = marks, group: Any = team.group) -> None:
                    marks.append(group.sent)

                fit(world.training_pairs, config, team=team, progress=note)
                layout = Layout(size["dim"], world.training_pairs.n_users, world.training_pairs.n_items, n)
                print(n, size, "measured", marks[2] - marks[1], "formula", layout.step_bytes(0) + 16, flush=True)


def memory(folder: Path | None) -> None:
    """Peak memory of every worker beyond the data, on a log where the vectors are much larger than it."""
    if folder is None:
        for n in WORKERS:
            with tempfile.TemporaryDirectory() as name:
                start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(n)]
                subprocess.run([*start, __file__, "memory", "--folder", name], check=True, capture_output=True)
                notes = [json.loads(path.read_text()) for path in sorted(Path(name).glob("*.json"))]
                print(n, "workers:", [f"{note['peak']:.0f} MB beyond {note['data']:.0f}" for note in notes], flush=True)
        return
    rank = int(os.environ["RANK"])
    note: dict[str, float] = {}

    class Noting(Shard):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            note["data"] = _status("VmRSS")
            Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
            super().__init__(*arguments, **named)

    team_module.Shard = Noting  # type: ignore[attr-defined]
    workers = Workers(engine="torchrun") if os.environ["WORLD_SIZE"] != "1" else Workers()
    if os.environ["RANK"] != "0":
        from igcf.training.cluster.rendezvous import work_for_environment

        work_for_environment()
    else:
        config = GraphConfig(dim=64, epochs=2, validate_every=1)
        world = GraphTrainingData.from_log(random_log(200_000, 20_000, 1_000_000), config, STARS)
        world.training_pairs.all_pairs  # noqa: B018 (part of the data)
        with open_team(workers) as team:
            fit(world.training_pairs, config, team=team, checkpoint=folder / "checkpoint.safetensors")
            collect_vectors(team, "best", with_variances=True)
    note["peak"] = _status("VmHWM") - note["data"]
    (folder / f"{rank}.json").write_text(json.dumps(note))


def _status(name: str) -> float:
    found = re.search(rf"{name}:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found.group(1)) / 1024


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("losses", "bytes", "memory"))
    parser.add_argument("--dataset", default="ml-100k")
    parser.add_argument("--folder", type=Path)
    chosen = parser.parse_args()
    if chosen.what == "losses":
        losses(chosen.dataset)
    elif chosen.what == "bytes":
        sent_bytes()
    else:
        memory(chosen.folder)
