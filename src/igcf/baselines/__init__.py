"""The methods that igcf is compared with, and igcf itself, behind one interface."""

from igcf.baselines.registry import METHODS, method_named
from igcf.baselines.task import Method, Settings, Task

__all__ = ["METHODS", "Method", "Settings", "Task", "method_named"]
