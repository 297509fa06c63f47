"""Prometheus metrics; several workers share them through files when PROMETHEUS_MULTIPROC_DIR is set."""

import os
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector

from igcf.version import __version__

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
        self._hit, self._miss = self.sessions.labels("hit"), self.sessions.labels("miss")
        self._pleasing, self._learning = self.shown.labels("please"), self.shown.labels("learn")
        self.refused = Counter("igcf_refused", "Requests refused because of load.", **own)
        self.store_errors = Counter("igcf_store_errors", "Calls of the store that failed.", **own)
        self.store_retries = Counter("igcf_store_retries", "Calls of the store that were tried again.", **own)
        self.commit = Histogram("igcf_commit_seconds", "Time to commit a transaction.", buckets=BUCKETS, **own)
        self.in_flight = Gauge(
            "igcf_in_flight", "Requests in work, by lane.", ["lane"], multiprocess_mode="livesum", **own
        )
        self.ready = Gauge(
            "igcf_ready", "1 when the last look found nothing amiss.", multiprocess_mode="livemin", **own
        )
        self.build = Gauge("igcf_build_info", "1, with the version.", ["version"], multiprocess_mode="livemax", **own)
        self.build.labels(__version__).set(1)
        self.erasure_pending = Gauge(
            "igcf_erasure_pending",
            "1 while deleted content may still be in SQLite's write-ahead log.",
            multiprocess_mode="livemax",
            **own,
        )
        self.audit_waiting = Gauge(
            "igcf_audit_waiting",
            "Answers waiting to be written to the audit log.",
            multiprocess_mode="livesum",
            **own,
        )
        self.generation = Gauge(
            "igcf_model_generation",
            "Number of the announced model in service, the oldest of all workers.",
            multiprocess_mode="livemin",
            **own,
        )
        self.keys_stale = Gauge(
            "igcf_api_keys_stale",
            "1 while the file of API keys cannot be used and the keys before it are.",
            multiprocess_mode="livemax",
            **own,
        )
        self.worker_restarts = Counter("igcf_worker_restarts", "Workers started again after a death.", **own)

    def count_session(self, is_hit: bool) -> None:
        """Count whether a session was in memory."""
        (self._hit if is_hit else self._miss).inc()

    def count_shown(self, *, pleasing: int, learning: int) -> None:
        """Count why items were shown."""
        for counter, count in ((self._pleasing, pleasing), (self._learning, learning)):
            if count:
                counter.inc(count)

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
