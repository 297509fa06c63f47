"""Lanes: requests that read, that write and that ask how the server is, so that none of them waits for the others."""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

import anyio
import anyio.to_thread

from igcf.service.errors import OverloadedError
from igcf.service.settings import ServiceSettings

T = TypeVar("T")
ALWAYS_OPEN = ("/healthz", "/readyz", "/metrics")
"""Answered also under full load."""
HEALTH_THREADS = 2
_THREADS = anyio.CapacityLimiter(float("inf"))


@dataclass
class Lane:
    """Requests of one kind: how many may be in work at a time, and how many threads compute them."""

    name: str
    max_in_flight: float
    wait_s: float
    threads: anyio.CapacityLimiter | None = None
    """None: the threads that the event loop has anyway."""
    in_flight: int = 0

    async def run(self, work: Callable[[], T]) -> T:
        """Run `work` in a thread; refuses when none becomes free in time."""
        free = self.threads or anyio.to_thread.current_default_thread_limiter()
        try:
            with anyio.fail_after(self.wait_s):
                await free.acquire_on_behalf_of(work)
        except TimeoutError as error:
            raise OverloadedError(f"no thread became free within {self.wait_s:g} s; try again") from error
        try:
            return await anyio.to_thread.run_sync(work, limiter=_THREADS)
        finally:
            free.release_on_behalf_of(work)


class Lanes:
    """The three lanes of an application."""

    def __init__(self, settings: ServiceSettings) -> None:
        wait_s = settings.store_wait_s
        self.reads = Lane("read", settings.max_in_flight, wait_s)
        self.writes = Lane("write", settings.max_in_flight, wait_s, anyio.CapacityLimiter(settings.threads))
        self.health = Lane("health", float("inf"), wait_s, anyio.CapacityLimiter(HEALTH_THREADS))

    def of(self, method: str, path: str) -> Lane:
        """The lane of a request; a recommendation reads (its answer is logged later, by a thread of its own)."""
        if path in ALWAYS_OPEN:
            return self.health
        if method in ("GET", "HEAD", "OPTIONS") or path.endswith("/recommendations"):
            return self.reads
        return self.writes


lane_of_request: ContextVar[Lane] = ContextVar("lane_of_request")


async def in_lane(work: Callable[[], T]) -> T:
    """Run `work` in a thread of the lane of the request that is being answered."""
    return await lane_of_request.get().run(work)
