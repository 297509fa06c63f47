"""How busy the service was in the last half hour, and how quickly it answered: a short memory of its counters."""

import itertools
import math
import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass

from igcf.service.metrics import Metrics
from igcf.service.models.dashboard_responses import LoadPoint

STEP_S = 30.0
STEPS = 60
RECOMMENDATIONS = "/recommendations"
"""End of the routes whose times are kept."""


@dataclass(frozen=True)
class _Look:
    """What the counters said at one moment."""

    time: float
    requests: float
    errors: float
    buckets: Counter[float]
    """Answers up to each number of seconds."""


class LoadHistory:
    """Looks at the counters of all workers now and then, and tells what happened between the looks."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._lock = threading.Lock()
        self._looks = deque([self._now()], maxlen=STEPS)

    def look(self) -> None:
        """Keep what the counters say now, if the last look is a step ago."""
        with self._lock:
            if time.time() - self._looks[-1].time >= STEP_S:
                self._looks.append(self._now())

    def points(self) -> list[LoadPoint]:
        """Tell what happened in each step, oldest first; the last one is still going on."""
        with self._lock:
            looks = [*self._looks, self._now()]
        return [_between(before, after) for before, after in itertools.pairwise(looks)]

    def _now(self) -> _Look:
        requests, errors, buckets = 0.0, 0.0, Counter[float]()
        for family in self._metrics.families():
            if family.name == "igcf_requests":
                counts = [each for each in family.samples if each.name.endswith("_total")]
                requests = sum(each.value for each in counts)
                errors = sum(each.value for each in counts if each.labels["status"] >= "500")
            elif family.name == "igcf_request_seconds":
                for each in family.samples:
                    if each.name.endswith("_bucket") and each.labels["route"].endswith(RECOMMENDATIONS):
                        buckets[float(each.labels["le"])] += each.value  # type: ignore[assignment]
        return _Look(time.time(), requests, errors, buckets)


def _between(before: _Look, after: _Look) -> LoadPoint:
    buckets = sorted((least, up_to - before.buckets[least]) for least, up_to in after.buckets.items())
    return LoadPoint(
        time=after.time,
        requests=max(0, round(after.requests - before.requests)),
        errors=max(0, round(after.errors - before.errors)),
        p50_ms=quantile_ms(buckets, 0.5),
        p99_ms=quantile_ms(buckets, 0.99),
    )


def quantile_ms(buckets: Sequence[tuple[float, float]], share: float) -> float | None:
    """Estimate a quantile from counts up to each bound: linear within the bucket that holds it; None without any."""
    if not buckets or not buckets[-1][1]:
        return None
    wanted = share * buckets[-1][1]
    for (low, below), (high, up_to) in itertools.pairwise([(0.0, 0.0), *buckets]):
        if up_to >= wanted:
            if math.isinf(high):
                return low * 1e3
            return (low + (high - low) * (wanted - below) / max(up_to - below, 1e-12)) * 1e3
    return None
