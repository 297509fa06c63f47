"""The same training on the actors of a Ray cluster."""

import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from igcf.errors import WorkerLostError
from igcf.training import Progress, pretrain
from tests.training.worlds import checkerboard

SETTINGS: dict[str, Any] = {"dim": 6, "epochs": 40, "validate_every": 10, "holdout": 0.0}
pytestmark = pytest.mark.slow


def ray_workers() -> list[int]:
    """The actors of this session's clusters; Ray names a process after what it does."""
    listed = subprocess.run(["ps", "-eo", "pid=,args="], capture_output=True, text=True).stdout
    return [int(line.split()[0]) for line in listed.splitlines() if re.search(r"ray::\S*RayWorker\S*work", line)]


def test_two_workers_of_a_cluster_learn_what_one_process_learns_also_after_one_was_killed(tmp_path: Path) -> None:
    losses: dict[str, list[float]] = {"alone": [], "ray": []}
    before = ray_workers()

    def note(progress: Progress) -> None:
        losses["alone"].append(progress.stats.loss if progress.stats else 0.0)

    def note_and_kill(progress: Progress) -> None:
        losses["ray"].append(progress.stats.loss if progress.stats else 0.0)
        if progress.epoch == 25:
            os.kill(next(pid for pid in ray_workers() if pid not in before), signal.SIGKILL)

    alone = pretrain(checkerboard(), progress=note, **SETTINGS)
    with pytest.raises(WorkerLostError, match=r"of 2 \(process \d+ on the Ray cluster\) died"):
        pretrain(checkerboard(), shards=2, engine="ray", checkpoint=tmp_path, progress=note_and_kill, **SETTINGS)
    resumed = pretrain(checkerboard(), shards=2, engine="ray", checkpoint=tmp_path, resume=True, **SETTINGS)
    assert 25 <= len(losses["ray"]) < 40
    np.testing.assert_allclose(losses["ray"], losses["alone"][: len(losses["ray"])], rtol=1e-5)
    np.testing.assert_allclose(resumed.item_vectors, alone.item_vectors, atol=1e-4)
    np.testing.assert_allclose(resumed.item_variances, alone.item_variances, atol=1e-5)
    np.testing.assert_allclose(resumed.noise_var, alone.noise_var, rtol=1e-4)
    assert ray_workers() == before
