"""Agents by name: every baseline, igcf, and classes of your own (docs/howto/agent.md)."""

from typing import Any

from igcf.config import imported
from igcf.lab.baselines.agent import Agent, MethodAgent
from igcf.lab.baselines.registry import METHODS, method_named

__all__ = ["AGENTS", "Agent", "MethodAgent", "agent_named"]

AGENTS = tuple(METHODS)
"""Names of the agents that come with igcf."""


def agent_named(name: str, **settings: Any) -> Agent:
    """Return the agent called `name`, or of the class or method at an import path such as `mypackage:MyAgent`."""
    if ":" in name and isinstance(found := imported(name), type) and issubclass(found, Agent):
        return found(**settings)
    return MethodAgent(method_named(name), **settings)
