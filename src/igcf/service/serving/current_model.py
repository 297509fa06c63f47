"""The model in service and the model swaps that lead from one to the next."""

import threading
from pathlib import Path

from igcf.errors import ModelError
from igcf.service.serving.served_model import ServedModel
from igcf.service.settings import ServiceSettings
from igcf.service.store.store import Store


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

    @classmethod
    def announced(cls, store: Store, folder: Path, settings: ServiceSettings) -> "CurrentModel":
        """Load the model that the servers of this store have been told to serve; `folder` where there is none."""
        generation, announced = store.generation()
        if generation == 0:
            return cls(ServedModel.from_folder(folder, settings), 0)
        try:
            return cls(ServedModel.from_folder(Path(announced), settings), generation)
        except ModelError as error:
            raise ModelError(
                f"the servers of this store are to serve the model in {announced}, which cannot be loaded: {error}; "
                "put it back, or start with --model-override to announce another"
            ) from error

    def replace(self, served: ServedModel, generation: int) -> None:
        """Serve another model from now on; the caller holds the lock."""
        self.served, self.generation, self.problem = served, generation, None
