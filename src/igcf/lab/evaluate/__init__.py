"""Experiments: protocols, runs, metrics, significance, tables, reports."""

from igcf.lab.evaluate.experiment import evaluate
from igcf.lab.evaluate.protocols import PROTOCOLS, Session, Setup, prepare, setup_for
from igcf.lab.evaluate.protocols.base import Row
from igcf.lab.evaluate.results import Results
from igcf.lab.evaluate.running import Execution

__all__ = ["PROTOCOLS", "Execution", "Results", "Row", "Session", "Setup", "evaluate", "prepare", "setup_for"]
