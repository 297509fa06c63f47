"""The agents of examples/lab learn from the training users what the test users like."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "lab"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "episodes"), [("dqn", 30), ("ppo", 15)])
def test_an_example_beats_random_by_half(name: str, episodes: int) -> None:
    """A part of the training that is the default."""
    command = [sys.executable, str(FOLDER / f"{name}.py"), "--episodes", str(episodes)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    found = re.search(r"([\d.]+) times$", ended.stdout.strip())
    assert found, ended.stdout
    assert float(found[1]) >= 1.5


@pytest.mark.parametrize("name", ["dqn", "ppo"])
def test_an_example_is_short_and_trains_on_training_users_only(name: str) -> None:
    text = (FOLDER / f"{name}.py").read_text()
    assert len(text.splitlines()) <= 150
    assert 'split="train"' in text.partition("def train(")[2]
    assert '"test"' not in text.partition("def train(")[2]
