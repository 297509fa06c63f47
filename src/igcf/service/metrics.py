"""Prometheus metrics; several workers share them through files that are written whole, about once a second."""

import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from igcf.version import __version__

BUCKETS = (0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
GAUGES: dict[str, Callable[[Iterable[float]], float]] = {
    "igcf_in_flight": sum,
    "igcf_audit_waiting": sum,
    "igcf_ready": min,
    "igcf_model_generation": min,
}
"""Gauges of all workers in one number; of any other gauge, the largest."""


class Metrics(Collector):
    """The counters of one application, and of its sibling processes where they share a folder."""

    def __init__(self, folder: str | None = None) -> None:
        self._folder = None if folder is None else Path(folder)
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
        self.cancelled = Counter("igcf_cancelled", "Requests stopped: client gone, or time budget used up.", **own)
        self.store_errors = Counter("igcf_store_errors", "Calls of the store that failed.", **own)
        self.store_retries = Counter("igcf_store_retries", "Calls of the store that were tried again.", **own)
        self.commit = Histogram("igcf_commit_seconds", "Time to commit a transaction.", buckets=BUCKETS, **own)
        self.in_flight = Gauge("igcf_in_flight", "Requests in work, by lane.", ["lane"], **own)
        self.ready = Gauge("igcf_ready", "1 when the last look found nothing amiss.", **own)
        self.build = Gauge("igcf_build_info", "1, with the version.", ["version"], **own)
        self.build.labels(__version__).set(1)
        self.erasure_pending = Gauge(
            "igcf_erasure_pending", "1 while deleted content may still be in SQLite's write-ahead log.", **own
        )
        self.audit_waiting = Gauge("igcf_audit_waiting", "Answers waiting to be written to the audit log.", **own)
        self.generation = Gauge(
            "igcf_model_generation", "Number of the announced model in service, the oldest of all workers.", **own
        )
        self.keys_stale = Gauge(
            "igcf_api_keys_stale", "1 while the file of API keys cannot be used and the keys before it are.", **own
        )

    def of_request(self, route: str, method: str, status: int) -> tuple[Counter, Histogram]:
        """Return what counts and times the requests of one kind; looking it up takes longer than counting."""
        return self.requests.labels(route, method, str(status)), self.latency.labels(route, method)

    def count_session(self, is_hit: bool) -> None:
        """Count whether a session was in memory."""
        (self._hit if is_hit else self._miss).inc()

    def count_shown(self, *, pleasing: int, learning: int) -> None:
        """Count why items were shown."""
        for counter, count in ((self._pleasing, pleasing), (self._learning, learning)):
            if count:
                counter.inc(count)

    def exposition(self) -> bytes:
        """Return the text that Prometheus reads."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        return generate_latest(registry)

    def share(self) -> None:
        """Write the counters of this process where its siblings read them; a full disk raises an error, no signal."""
        if self._folder is None:
            return
        found = [[family.name, *sample[:3]] for family in self.registry.collect() for sample in family.samples]
        part = self._folder / f"{os.getpid()}.part"
        part.write_text(json.dumps(found))
        part.replace(self._folder / f"{os.getpid()}.json")

    def collect(self) -> Iterable[Metric]:
        """Add up this process and its siblings; of a worker that has ended, the counts stay and the gauges go."""
        families = {family.name: family for family in self.registry.collect()}
        found: defaultdict[tuple[str, str, str], list[float]] = defaultdict(list)
        for family in families.values():
            for sample in family.samples:
                found[family.name, sample.name, json.dumps(sample.labels)].append(sample.value)
            family.samples = []
        for file in [] if self._folder is None else self._folder.glob("*.json"):
            if file.stem != str(os.getpid()):
                is_alive = Path(f"/proc/{file.stem}").exists()
                for name, own, said, value in _read(file):
                    if name in families and (is_alive or families[name].type != "gauge"):
                        found[name, own, json.dumps(said)].append(value)
        for (name, sample_name, labels), values in found.items():
            merge = GAUGES.get(name, max) if families[name].type == "gauge" else sum
            merge = min if sample_name.endswith("_created") else merge
            families[name].samples.append(Sample(sample_name, json.loads(labels), merge(values)))
        return families.values()


def _read(file: Path) -> list[tuple[str, str, dict[str, str], float]]:
    try:
        return [(name, sample, labels, value) for name, sample, labels, value in json.loads(file.read_text())]
    except (OSError, ValueError):
        return []
