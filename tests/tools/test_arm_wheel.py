"""The emulated proof of the wheel for ARM: what it learns from."""

import subprocess
import sys
from pathlib import Path

import igcf
from tools.arm_wheel import SMALL_LOG


def test_the_small_log_is_read_back_whole(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    subprocess.run([sys.executable, "-c", SMALL_LOG, str(file)], check=True)
    log = igcf.Interactions.from_csv(file)
    assert (log.n_users, log.n_items) == (200, 80)
    assert len(log.values) == len(file.read_text().splitlines()) - 1
