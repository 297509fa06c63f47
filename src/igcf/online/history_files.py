"""The reactions of one user as a CSV file that people can write: the columns `item` and `value`."""

import csv
from pathlib import Path

from igcf.errors import DataError
from igcf.model import Model
from igcf.online.session import Session


def read_history(path: Path, model: Model) -> list[tuple[str, float | None]]:
    """Read reactions from a CSV file with the columns item and value; an empty value means shown without a reaction.

    Where every reaction is a success there need be no values.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = csv.DictReader(file)
            found = rows.fieldnames or ()
            if model.reward.is_implicit and "item" in found and "value" not in found:
                return [(row["item"], model.reaction_value()) for row in rows]
            if missing := sorted({"item", "value"} - set(found)):
                raise DataError(f"{path} has no column {missing[0]!r}; found {', '.join(found or ['nothing'])}")
            return [(row["item"], _value(path, number, row["value"])) for number, row in enumerate(rows, start=2)]
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read {path}: {error}") from error


def _value(path: Path, number: int, text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        raise DataError(f"{path}:{number}: value {text!r} is not a number; leave it empty for no reaction") from None


def save_history(path: Path, session: Session) -> None:
    """Write the reactions as a CSV file that `--history` reads, all of it or nothing."""
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file)
            rows.writerow(("item", "value"))
            rows.writerows((item_id, "" if value is None else f"{value:g}") for item_id, value in session.history)
        part.replace(path)
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror or error}") from error
