"""Every exception that igcf raises on purpose.

A message is one sentence: what went wrong, where, what was found, what was expected, what to do next.
The command line prints it after ``Error:``; the service returns it with the class name.
"""

from collections.abc import Sequence
from pathlib import Path


class IgcfError(Exception):
    """The base of all: something that the caller can put right."""


class ConfigError(IgcfError):
    """A setting is outside its range, or two settings contradict each other."""


class RuleError(ConfigError):
    """Rules about an answer that cannot be read, or name what no item has."""


class AttributesError(ConfigError):
    """Attributes or context that a model does not know, or values that are not plain."""


class DataError(IgcfError):
    """A log cannot be used: missing column, bad value, empty file, unknown data set.

    Attributes:
        kind: Kind of the defect, as `igcf data validate` reports it.
        rows: First rows with the defect, where single rows have it.
    """

    def __init__(self, message: str, *, kind: str = "unreadable", rows: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.kind, self.rows = kind, tuple(rows)


class DownloadError(DataError):
    """A data set could not be fetched or does not match its checksum."""


class ModelError(IgcfError):
    """A model is inconsistent, or a model folder is missing, foreign, newer or damaged."""


class UnknownItemError(IgcfError):
    """An item that the model does not know."""


class FeedbackError(IgcfError):
    """A reaction that cannot be learned from: not a number, infinite, or far outside the log's range."""


class NoItemsLeftError(IgcfError):
    """Fewer items are left for this user than were asked for."""


class TrainingDivergedError(IgcfError):
    """The loss or a parameter stopped being finite."""


class WorkerLostError(IgcfError):
    """A process of a job that runs on several of them died or can no longer be reached."""


class StoreError(IgcfError):
    """The service's store cannot be reached, or its schema is not ours."""


LONGEST_QUOTE = 80
"""Characters of something found that a message shows."""


def quoted(found: object) -> str:
    """Return something found as a message shows it, cut where it is long."""
    text = repr(found)
    return text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]}..."


def refuse_other_than_file(path: Path) -> None:
    """Refuse to read from a pipe or a device; whether there is anything at all shows when it is read."""
    if path.exists() and not path.is_file():
        raise OSError("not a regular file")
