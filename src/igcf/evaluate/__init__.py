"""Experiments: protocols, runs, metrics, significance, tables, reports."""

from igcf.evaluate.engines import Engine
from igcf.evaluate.experiment import evaluate
from igcf.evaluate.protocols import PROTOCOLS, Session, Setup, prepare, setup_for
from igcf.evaluate.results import Results, Row
from igcf.evaluate.run import Execution

__all__ = ["PROTOCOLS", "Engine", "Execution", "Results", "Row", "Session", "Setup", "evaluate", "prepare", "setup_for"]
