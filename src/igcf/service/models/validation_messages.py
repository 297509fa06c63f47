"""What is wrong with a request, in one sentence and in the caller's own terms."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from igcf.errors import LONGEST_QUOTE, quoted
from igcf.service.errors import RequestError

_SHAPES = {"model_type", "model_attributes_type", "list_type", "dict_type"}
_WORDS = {
    "(Input|Value) should be": "must be",
    r"(List|Tuple|String|Dictionary|Data) should have": "must have",
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
    "greater than": "above",
    "less than": "below",
    "a valid integer": "a whole number",
    "a valid number": "a number",
    "a valid boolean": "true or false",
    "a valid string": "a text",
    "a valid list": "a list",
    "a valid dictionary( or object to extract fields from)?": "an object",
    ", (unable to|got a number with).*| after validation": "",
    "^Value error, ": "cannot be used: ",
}
"""What pydantic says, and what callers of the service read instead."""
_KINDS: dict[type, str] = {list: "a list", dict: "an object", type(None): "null"}


def mistake(errors: Sequence[Any]) -> RequestError:
    """Say the most telling of the mistakes that pydantic found."""
    # Where a body may have several shapes, only the mistake in the one that was meant.
    first = next((each for each in errors if each["type"] not in _SHAPES), errors[0])
    place, *path = first["loc"] or ("",)
    if first["type"] == "json_invalid":
        reason = str(first["ctx"]["error"])
        at = f" at character {path[0]}" if path else ""
        return RequestError(f"the body is not JSON: {reason[:1].lower()}{reason[1:]}{at}")
    if place in ("body", "query", "path", "header"):
        name = _name(first, path) or f"the {place}"
    else:
        name = _name(first, first["loc"]) or "the entry"
    if first["type"] == "missing":
        return RequestError("a JSON body is missing" if name == "the body" else f"{name} is missing")
    if first["type"] == "extra_forbidden":
        return RequestError(f"{name} is not known here; the fields of this request are in /docs")
    return RequestError(f"{name} {_what(first)}")


def _what(error: Mapping[str, Any]) -> str:
    text = str(error["msg"])
    for theirs, ours in _WORDS.items():
        text = re.sub(theirs, ours, text)
    found = error.get("input")
    if error["type"] == "value_error" or (isinstance(found, list | dict) and error["type"] not in _SHAPES):
        return text  # it says what was found
    return f"{text}, got {_KINDS.get(type(found)) or quoted(found)}"


def _name(error: Mapping[str, Any], path: Sequence[int | str]) -> str:
    """Write a path as the caller would: `feedback[3].item`; names of our own classes and functions are left out."""
    text = ""
    for number, part in enumerate(path, start=1):
        may_be_class = number < len(path) or error["type"] in _SHAPES | {"too_long"}
        if isinstance(part, int):
            text += f"[{part}]"
        elif not (may_be_class and ("[" in part or part[:1].isupper())):
            text += f".{part[:LONGEST_QUOTE]}"
    return text.removeprefix(".")
