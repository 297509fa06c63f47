import io
import re
import time
from types import SimpleNamespace
from typing import Any

import pytest

from igcf.data import synthetic_catalogue
from igcf.progress import show_progress
from igcf.training import Progress, pretrain


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_without_a_terminal_lines_come_also_while_a_long_step_says_nothing() -> None:
    stream = io.StringIO()
    with show_progress(stream, every=0.02) as report:
        report("counting", 1, 4)
        report("counting", 2, 4)
        deadline = time.monotonic() + 30
        while stream.getvalue().count("\n") < 3 and time.monotonic() < deadline:
            time.sleep(0.005)
    lines = stream.getvalue().splitlines()
    assert len(lines) >= 3
    assert re.fullmatch(r"counting 2/4, \d+ s, about \d+ s left in this stage", lines[-1])


def test_before_the_first_report_a_line_has_no_count() -> None:
    stream = io.StringIO()
    with show_progress(stream, every=0.01):
        deadline = time.monotonic() + 30
        while not stream.getvalue() and time.monotonic() < deadline:
            time.sleep(0.005)
    assert re.fullmatch(r"starting, \d+ s", stream.getvalue().splitlines()[0])


def test_a_step_that_hangs_does_not_raise_the_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    now, stream = [0.0], io.StringIO()
    monkeypatch.setattr("igcf.progress.time", SimpleNamespace(monotonic=lambda: now[0]))
    with show_progress(stream, every=0.01) as report:
        report("epoch", 0, 10)
        now[0] = 8.0
        report("epoch", 4, 10)  # two seconds each
        now[0] = 500.0
        deadline = time.monotonic() + 30
        while "500 s" not in stream.getvalue() and time.monotonic() < deadline:
            time.sleep(0.005)
    assert stream.getvalue().splitlines()[-1] == "epoch 4/10, 500 s, about 10 s left in this stage"


def test_a_job_that_ends_at_once_writes_nothing_where_there_is_no_terminal() -> None:
    stream = io.StringIO()
    with show_progress(stream) as report:
        report("counting", 4, 4)
    assert stream.getvalue() == ""


def test_no_line_comes_after_the_job_ended_also_by_an_error() -> None:
    stream = io.StringIO()
    with pytest.raises(ValueError, match="stop"), show_progress(stream, every=0.01):
        raise ValueError("stop")
    written = stream.getvalue()
    time.sleep(0.05)
    assert stream.getvalue() == written


def test_a_new_stage_has_an_estimate_of_its_own() -> None:
    stream = io.StringIO()
    with show_progress(stream, every=0.01) as report:
        report("first", 9, 10)
        report("second", 0, 7)
        deadline = time.monotonic() + 30
        while "second 0/7" not in stream.getvalue() and time.monotonic() < deadline:
            time.sleep(0.005)
    last = stream.getvalue().splitlines()[-1]
    assert re.fullmatch(r"second 0/7, \d+ s", last)  # nothing is done yet, so nothing can be said


@pytest.mark.parametrize(
    ("what", "alike", "line"),
    [
        (("igcf, seed 0", 1, 2), False, r"igcf, seed 0 1/2, \d+ s"),  # `pop` took no time: that says nothing of igcf
        (("calibrating the chance", 0, 1), True, r"calibrating the chance, \d+ s"),  # one step is not worth counting
    ],
)
def test_nothing_is_counted_or_estimated_where_that_tells_nothing(
    what: tuple[str, int, int], alike: bool, line: str
) -> None:
    stream = io.StringIO()
    with show_progress(stream, every=0.01, alike=alike) as report:
        report("pop, seed 0", 0, what[2])
        report(*what)
        deadline = time.monotonic() + 30
        while what[0] not in stream.getvalue() and time.monotonic() < deadline:
            time.sleep(0.005)
    assert re.fullmatch(line, stream.getvalue().splitlines()[-1])


def test_on_a_terminal_there_is_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    with show_progress(stream) as report:
        report("counting", 2, 4)
    assert "2/4" in stream.getvalue()
    assert "counting" in stream.getvalue()


def test_pretraining_shows_its_progress_unless_told_not_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    log = synthetic_catalogue(n_users=60, n_items=30)
    quick: dict[str, Any] = {
        "iterations": 2,
        "logistic_dim": 2,
        "linear_dim": 2,
        "holdout": 0.0,
        "calibrated": False,
        "known_users": False,
    }
    shown = {}
    for progress in (True, False):
        terminal = Terminal()
        monkeypatch.setattr("sys.stderr", terminal)
        pretrain(log, progress=progress, **quick)
        shown[progress] = terminal.getvalue()
    assert "expert" in shown[True]
    assert shown[False] == ""


def test_a_function_is_called_after_every_step_instead() -> None:
    log, steps = synthetic_catalogue(n_users=60, n_items=30), list[Progress]()
    pretrain(log, progress=steps.append, iterations=2, logistic_dim=2, linear_dim=2, holdout=0.0)
    assert [(step.what, step.epoch, step.epochs) for step in steps] == [
        ("linear expert", 0, 1),
        ("logistic expert", 1, 2),
        ("logistic expert", 2, 2),
        ("calibrating the chance", 0, 1),
    ]
