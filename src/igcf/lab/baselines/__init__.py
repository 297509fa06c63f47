"""The methods that igcf is compared with, and igcf itself, behind one interface."""

from igcf.lab.baselines.registry import METHODS, method_named
from igcf.lab.baselines.task import Method, Settings, Task

__all__ = ["METHODS", "Method", "Settings", "Task", "method_named"]
