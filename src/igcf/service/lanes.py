"""Lanes keep kinds of requests from waiting for one another; a budget stops cancelled and slow requests."""

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

import anyio
import anyio.to_thread

from igcf.service.errors import OverloadedError, RequestCancelledError, TimeBudgetError
from igcf.service.settings import ServiceSettings

T = TypeVar("T")
ALWAYS_OPEN = ("/healthz", "/readyz", "/metrics")  # answered also under full load
HEALTH_THREADS, BATCH_THREADS = 2, 1
BATCHES = ("/v1/recommendations",)  # requests that may take seconds
_THREADS = anyio.CapacityLimiter(math.inf)


@dataclass
class Budget:
    """The time that a request may take, and whether its client still waits."""

    limit_s: float
    receive: Callable[[], Awaitable[Any]] | None = None
    started: float = field(default_factory=time.monotonic)
    is_cancelled: bool = False

    def check(self) -> None:
        """Raise where going on is of no use."""
        if self.is_cancelled:
            raise RequestCancelledError("the client has closed the connection")
        if time.monotonic() - self.started > self.limit_s:
            raise TimeBudgetError(f"the request took more than {self.limit_s:g} s; ask for less at a time")

    @contextlib.asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Notice that the client hangs up, for as long as this is open."""
        task = asyncio.ensure_future(self._watch())
        try:
            yield
        finally:
            task.cancel()

    async def _watch(self) -> None:
        while self.receive is not None and not self.is_cancelled:
            self.is_cancelled = (await self.receive())["type"] == "http.disconnect"


@dataclass
class Lane:
    """Requests of one kind: how many may be in work at a time, and how many threads compute them."""

    name: str
    max_in_flight: float
    wait_s: float
    threads: anyio.CapacityLimiter | None = None  # None: the threads that the event loop has anyway
    in_flight: int = 0

    async def run(self, work: Callable[[], T]) -> T:
        """Run `work` in a thread; refuses when none becomes free in time."""
        free, budget = self.threads or anyio.to_thread.current_default_thread_limiter(), budget_of_request.get()

        def checked() -> T:
            budget.check()  # the client may have gone while this waited
            return work()

        async with budget.watched():
            try:
                with anyio.fail_after(self.wait_s):
                    await free.acquire_on_behalf_of(checked)
            except TimeoutError as error:
                raise OverloadedError(f"no thread became free within {self.wait_s:g} s; try again") from error
            try:
                return await anyio.to_thread.run_sync(checked, limiter=_THREADS)
            finally:
                free.release_on_behalf_of(checked)


class Lanes:
    """The lanes of an application: reads, writes, batches, and questions about its health."""

    def __init__(self, settings: ServiceSettings) -> None:
        wait_s, most = settings.store_wait_s, settings.max_in_flight
        self.reads = Lane("read", most, wait_s)
        self.writes = Lane("write", most, wait_s, anyio.CapacityLimiter(settings.threads))
        self.batches = Lane("batch", most, settings.request_timeout_s, anyio.CapacityLimiter(BATCH_THREADS))
        self.health = Lane("health", float("inf"), wait_s, anyio.CapacityLimiter(HEALTH_THREADS))
        self.all = (self.reads, self.writes, self.batches, self.health)

    def of(self, method: str, path: str) -> Lane:
        """Find the lane of a request; a recommendation reads (its answer is logged later, by a thread of its own)."""
        if path in ALWAYS_OPEN:
            return self.health
        if path in BATCHES:
            return self.batches
        if method in ("GET", "HEAD", "OPTIONS") or path.endswith("/recommendations"):
            return self.reads
        return self.writes


lane_of_request: ContextVar[Lane] = ContextVar("lane_of_request")
budget_of_request: ContextVar[Budget] = ContextVar("budget_of_request", default=Budget(float("inf")))  # noqa: B039


async def in_lane(work: Callable[[], T]) -> T:
    """Run `work` in a thread of the lane of the request that is being answered."""
    return await lane_of_request.get().run(work)
