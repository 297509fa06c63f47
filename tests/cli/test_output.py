"""Long commands say something while they work, also where standard error is not a terminal."""

import time
from functools import partial

import pytest

from igcf.cli.experiments import progress_display
from igcf.cli.output import parts_display
from igcf.lab.evaluate.protocols import Job
from igcf.lab.evaluate.running import Step
from igcf.progress import show_progress
from tests.lab.evaluate.worlds import setup


@pytest.fixture(autouse=True)
def _lines_are_due_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("igcf.progress.show_progress", partial(show_progress, every=0.01))


def said(text: str, capsys: pytest.CaptureFixture[str]) -> bool:
    """Whether `text` comes on standard error before ten seconds are over."""
    for _ in range(1000):
        if text in capsys.readouterr().err:
            return True
        time.sleep(0.01)
    return False


def test_a_part_that_takes_long_is_named_again_and_again(capsys: pytest.CaptureFixture[str]) -> None:
    with parts_display(("coverage", "meta_prior")) as step:
        step("meta_prior")
        assert said("meta prior 1/2", capsys)
        assert said("meta prior 1/2", capsys)


def test_a_job_that_takes_long_is_named_again_and_again(capsys: pytest.CaptureFixture[str]) -> None:
    job = Job("igcf", setup(), 3, ())
    with progress_display() as watch:
        watch(Step(0, 2, job, "started"))
        assert said("igcf, seed 3 started", capsys)
        assert said("igcf, seed 3 0/2", capsys)
        watch(Step(1, 2, job, "finished"))
        assert said("igcf, seed 3 finished", capsys)
