"""What the dashboard remembers of the load: what happened between two looks at the counters, not since the start."""

import pytest

from igcf.service.metrics import Metrics
from igcf.service.serving import load
from igcf.service.serving.load import LoadHistory, quantile_ms

ROUTE = "/v1/users/{user}/recommendations"


def serve(metrics: Metrics, seconds: float, times: int, status: str = "200") -> None:
    for _ in range(times):
        metrics.requests.labels(ROUTE, "POST", status).inc()
        metrics.latency.labels(ROUTE, "POST").observe(seconds)


def test_each_step_has_its_own_counts_and_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "STEP_S", 0.0)
    metrics = Metrics()
    history = LoadHistory(metrics)
    serve(metrics, 0.0015, 10)
    history.look()
    history.look()
    serve(metrics, 0.4, 5, "503")
    quick, idle, slow = history.points()
    assert (quick.requests, quick.errors) == (10, 0)
    assert 1 <= (quick.p50_ms or 0) <= 2
    assert (idle.requests, idle.p50_ms, idle.p99_ms) == (0, None, None)
    assert (slow.requests, slow.errors) == (5, 5)
    assert 250 <= (slow.p50_ms or 0) <= 500


def test_it_speaks_before_the_first_step_is_over_and_forgets_what_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = Metrics()
    history = LoadHistory(metrics)
    serve(metrics, 0.01, 3)
    history.look()
    assert [point.requests for point in history.points()] == [3], "the step is still going on"
    monkeypatch.setattr(load, "STEP_S", 0.0)
    for _ in range(2 * load.STEPS):
        history.look()
    assert len(history.points()) == load.STEPS


def test_a_quantile_lies_within_its_bucket() -> None:
    buckets = [(0.001, 0.0), (0.002, 8.0), (float("inf"), 10.0)]
    assert quantile_ms(buckets, 0.5) == pytest.approx(1.625)
    assert quantile_ms(buckets, 0.99) == pytest.approx(2.0)
    assert quantile_ms([], 0.5) is None
