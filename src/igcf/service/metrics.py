"""Prometheus metrics; several workers share them through files when PROMETHEUS_MULTIPROC_DIR is set."""

import os
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector

BUCKETS = (0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics:
    """The counters of one application."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        own: dict[str, Any] = {"registry": self.registry}
        self.requests = Counter(
            "igcf_requests", "Requests answered, by route and status.", ["route", "method", "status"], **own
        )
        self.latency = Histogram("igcf_request_seconds", "Time to answer.", ["route", "method"], buckets=BUCKETS, **own)
        self.shown = Counter("igcf_shown_items", "Items shown, by why: to please or to learn.", ["reason"], **own)
        self.feedback = Counter(
            "igcf_feedback", "Stored: satisfied, unsatisfied, none (shown, no reaction), skip, logged.", ["kind"], **own
        )
        self.duplicates = Counter("igcf_feedback_duplicates", "Reactions that were known already.", **own)
        self.sessions = Counter(
            "igcf_sessions", "Sessions used: hit (in memory, current) or miss (read from the store).", ["cache"], **own
        )
        self.refused = Counter("igcf_refused", "Requests refused because of load.", **own)

    def count_session(self, is_hit: bool) -> None:
        """Count whether a session was in memory."""
        self.sessions.labels("hit" if is_hit else "miss").inc()

    def count_shown(self, *, pleasing: int, learning: int) -> None:
        """Count why items were shown."""
        self.shown.labels("please").inc(pleasing)
        self.shown.labels("learn").inc(learning)

    def families(self) -> list[Metric]:
        """All metrics, of all workers where they share them."""
        return list(self._source().collect())

    def exposition(self) -> bytes:
        """The text that Prometheus reads."""
        return generate_latest(self._source())

    def _source(self) -> CollectorRegistry:
        if not os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
            return self.registry
        shared = CollectorRegistry()
        MultiProcessCollector(shared)  # type: ignore[no-untyped-call]
        return shared
