"""The model in service and the model swaps that lead from one to the next."""

import threading

from igcf.service.serving.served_model import ServedModel


class CurrentModel:
    """The model in service; replacing it is one assignment, so that every answer sees exactly one."""

    def __init__(self, served: ServedModel, generation: int) -> None:
        self.served = served
        self.generation = generation
        """Number of the announced model that is in service."""
        self.problem: str | None = None
        """Why a newer model that was announced is not the one in service."""
        self.lock = threading.Lock()
        """Held while a model is loaded, so that swaps come one after the other."""

    def replace(self, served: ServedModel, generation: int) -> None:
        """Serve another model from now on; the caller holds the lock."""
        self.served, self.generation, self.problem = served, generation, None
