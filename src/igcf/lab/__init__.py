"""Research: baselines, evaluation protocols, theory and benchmarks; `baselines` and `evaluate` load on first use."""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    if name in ("baselines", "evaluate"):
        return import_module(f"igcf.lab.{name}")
    raise AttributeError(f"module 'igcf.lab' has no attribute {name!r}")
