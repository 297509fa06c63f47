"""Threads beside the requests: one for keys, one for what other servers announce, one for learning."""

import logging
import threading
from collections.abc import Callable, Mapping

from igcf.errors import IgcfError
from igcf.service.context import ServiceContext
from igcf.service.serving.model_swap import follow
from igcf.service.serving.statistics import readiness

log = logging.getLogger("igcf.service")
LOOK_EVERY_S = 0.5
READY_EVERY = 10
"""Turns between two looks at the readiness, for its gauge."""


class Repeated:
    """A thread that does some things again and again; each comes with what to log when it fails."""

    def __init__(self, name: str, tasks: Mapping[str, Callable[[], object]]) -> None:
        self._tasks = tasks
        self._failures: dict[str, str] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop after the turn that is under way."""
        self._stop.set()
        self._thread.join(timeout=10)

    def _run(self) -> None:
        while not self._stop.wait(LOOK_EVERY_S):
            for message, task in self._tasks.items():
                self._try(message, task)

    def _try(self, message: str, task: Callable[[], object]) -> None:
        """Do one thing; a failure is logged once, not twice a second, and tried again in the next turn."""
        try:
            task()
            self._failures.pop(message, None)
        except Exception as error:  # the thread must outlive any error: no other thread does this
            reason = f"{type(error).__name__}: {error}"
            if self._failures.get(message) != reason:
                log.error(message, extra={"reason": reason}, exc_info=not isinstance(error, IgcfError | OSError))
                self._failures[message] = reason


def background(context: ServiceContext, quick: Mapping[str, Callable[[], object]]) -> list[Repeated]:
    """Start the threads of a service; `quick` are further things to do that never wait for store or learning."""
    turns = 0

    def look_ready() -> None:
        nonlocal turns
        if turns % READY_EVERY == 0:
            readiness(context)
        turns += 1

    def learn() -> None:
        context.items_from_log.look(context.current_model.served)

    return [
        Repeated("igcf-keys", {**quick, "cannot share metrics with the other workers": context.metrics.share}),
        Repeated(
            "igcf-follow",
            {
                "cannot follow to the announced model": lambda: follow(context),
                "cannot look for deleted users": lambda: context.users.forget_hashed(set(context.audit.follow())),
                "cannot look for changed items": context.items.look,
                "cannot set gauges": context.observe,
                "cannot look for health": look_ready,
            },
        ),
        Repeated("igcf-learn", {"cannot learn new items": learn, "cannot save beliefs": context.users.save}),
    ]
