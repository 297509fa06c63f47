"""Experiments: protocols, runs, metrics, significance, tables, reports."""

from igcf.lab.evaluate.experiment import evaluate
from igcf.lab.evaluate.protocols import PROTOCOLS, Session, Setup, prepare, setup_for
from igcf.lab.evaluate.results import Results, Row
from igcf.lab.evaluate.running import Engine, Execution

__all__ = ["PROTOCOLS", "Engine", "Execution", "Results", "Row", "Session", "Setup", "evaluate", "prepare", "setup_for"]
