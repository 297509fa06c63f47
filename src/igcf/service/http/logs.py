"""Structured logs: one JSON object per line on stderr, without user ids, keys or bodies."""

import json
import logging
import sys
import time
from contextvars import ContextVar

request_id: ContextVar[str] = ContextVar("request_id", default="")
_STANDARD = set(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


class JsonLines(logging.Formatter):
    """A record as one line of JSON; `extra` fields become fields."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        line: dict[str, object] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        if request_id.get():
            line["request_id"] = request_id.get()
        line |= {name: value for name, value in vars(record).items() if name not in _STANDARD}
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class OncePerSecond(logging.Filter):
    """Lets one record pass in a second, in one line: without free file descriptors asyncio logs thousands."""

    last = float("-inf")

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to log a record."""
        now = time.monotonic()
        if now - self.last < 1.0:
            return False
        self.last = now
        if record.exc_info and record.exc_info[1] is not None:
            record.msg, record.args = f"{record.getMessage().splitlines()[0]}: {record.exc_info[1]}", ()
            record.exc_info = None
        return True


def configure(level: str) -> None:
    """Send the logs of the service, of uvicorn and of asyncio to stderr as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.getLogger("asyncio").filters = [OncePerSecond()]
    for name in ("igcf.service", "uvicorn", "uvicorn.error", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers = [handler] if name != "uvicorn.error" else []
        logger.propagate = name == "uvicorn.error"
        logger.setLevel(level.upper())
