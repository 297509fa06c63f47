"""What is wrong with a request, in one sentence and in the caller's own terms."""

from collections.abc import Mapping, Sequence
from typing import Any

from igcf.errors import LONGEST_QUOTE, quoted
from igcf.service.errors import RequestError

_SHAPES = ("model_type", "model_attributes_type", "list_type", "dict_type")
_WANTED = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "dict_type": "an object",
    "finite_number": "a finite number",
    "float_parsing": "a number",
    "float_type": "a number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number of usual size",
    "int_type": "a whole number",
    "list_type": "a list",
    "model_attributes_type": "an object",
    "model_type": "an object",
    "string_type": "a text",
}
"""What was wanted, by the type of the error."""
_LIMITS = {
    "greater_than": ("must be above {}", "gt"),
    "greater_than_equal": ("must be at least {}", "ge"),
    "less_than": ("must be below {}", "lt"),
    "less_than_equal": ("must be at most {}", "le"),
    "literal_error": ("must be {}", "expected"),
    "string_too_long": ("must have at most {} characters", "max_length"),
    "string_too_short": ("must have at least {} characters", "min_length"),
    "too_long": ("may have at most {} entries", "max_length"),
    "too_short": ("must have at least {} entries", "min_length"),
}


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
    kind, context = error["type"], error.get("ctx") or {}
    if kind in _LIMITS:
        text, key = _LIMITS[kind]
        text = text.format(context[key])
    elif kind in _WANTED:
        text = f"must be {_WANTED[kind]}"
    elif kind == "value_error":
        text = f"cannot be used: {context['error']}"
    else:
        text = f"cannot be used: {str(error['msg'])[:1].lower()}{str(error['msg'])[1:]}"
    found = error.get("input")
    if isinstance(found, str | int | float | bool) and kind != "value_error":
        return f"{text}, got {quoted(found)}"
    return text if found is None or kind not in _SHAPES else f"{text}, got {_KINDS.get(type(found), 'something else')}"


_KINDS: dict[type[Any], str] = {list: "a list", dict: "an object"}


def _name(error: Mapping[str, Any], path: Sequence[int | str]) -> str:
    """Write a path as the caller would: `feedback[3].item`; names of our own classes are left out."""
    text = ""
    for number, part in enumerate(path, start=1):
        may_be_class = number < len(path) or error["type"] in _SHAPES
        if isinstance(part, int):
            text += f"[{part}]"
        elif not (may_be_class and ("[" in part or part[:1].isupper())):
            text += f".{part[:LONGEST_QUOTE]}"
    return text.removeprefix(".")
