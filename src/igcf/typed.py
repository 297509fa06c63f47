"""Values that become what a type annotation says, or are refused; text as on a command line is understood."""

from collections.abc import Iterable
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

WORDS: dict[Any, str] = {bool: "true or false", int: "a whole number", float: "a number", str: "text", NoneType: "none"}


def typed(value: Any, hint: Any) -> Any:
    """Return `value` as an instance of the annotation `hint`, or raise ValueError.

    Understood are bool, int, float, str, Literal of strings, tuple[X, ...] and X | None. Nothing is guessed: 1 is not
    true, 1.5 is not a whole number, and only the words none, true and false have a meaning of their own.
    """
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return _optional(value, get_args(hint))
    if origin is Literal:
        return _checked(value, value in get_args(hint))
    if origin is tuple:
        parts = value.split(",") if isinstance(value, str) else value
        _checked(value, isinstance(parts, Iterable))
        return tuple(typed(part, get_args(hint)[0]) for part in parts)
    if isinstance(value, str):
        return _from_text(value, hint)
    if hint is bool:
        return _checked(value, isinstance(value, bool))
    if hint is int:
        return int(_checked(value, isinstance(value, Integral) and not isinstance(value, bool)))
    if hint is float:
        return float(_checked(value, isinstance(value, Real) and not isinstance(value, bool)))
    raise ValueError(value)


def described(hint: Any) -> str:
    """Describe an annotation in words for an error message: `a whole number or none`."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return " or ".join(described(part) for part in get_args(hint))
    if origin is Literal:
        return f"one of {', '.join(get_args(hint))}"
    if origin is tuple:
        return "numbers with commas between them"
    return WORDS[hint]


def _optional(value: Any, hints: tuple[Any, ...]) -> Any:
    if value is None or (isinstance(value, str) and value.lower() == "none"):
        return _checked(None, NoneType in hints)
    (hint,) = (each for each in hints if each is not NoneType)
    return typed(value, hint)


def _from_text(text: str, hint: Any) -> Any:
    if hint is str:
        return text
    if hint is bool:
        _checked(text, text.lower() in ("true", "false"))
        return text.lower() == "true"
    return hint(text)


def _checked(value: Any, is_right: bool) -> Any:
    if not is_right:
        raise ValueError(value)
    return value
