"""The model in service, with its map, its order of popularity and its texts, computed once when it is loaded."""

import threading
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from secrets import randbits
from typing import Any, Literal

import numpy as np

from igcf.arrays import BoolArray, FloatArray, IntArray
from igcf.errors import ModelError
from igcf.item import Item
from igcf.model import Model
from igcf.model.catalogue import Catalogue
from igcf.model.files import load_model, model_id
from igcf.model.usage import PolicyChoice
from igcf.online import Recommender
from igcf.online.index import ItemLists, find_index
from igcf.online.policies import own_policy
from igcf.service.settings import ServiceSettings
from igcf.service.store.store import Store

MAP_RADIUS = 2.0  # 95 % of the items are within this distance from the middle of the map


def map_points(model: Model) -> FloatArray:
    """Coordinates of the items on the map, shape (items, 2).

    A user is u = m0 + F w with S0 = F F' and w ~ N(0, I) in the population, so an item's expected reward is
    x . m0 + (F' x) . w. The plane is spanned by the two directions in which the F' x differ most.
    """
    size, directions = np.linalg.eigh(model.prior_cov)
    live = size > max(size[-1], 0.0) * 1e-12
    vectors = model.item_vectors.astype(np.float64)
    spread = (vectors - vectors.mean(axis=0)) @ (directions[:, live] * np.sqrt(size[live]))
    _, main = np.linalg.eigh(spread.T @ spread)
    plane = np.zeros((spread.shape[1], 2))
    plane[:, : min(2, main.shape[1])] = main[:, ::-1][:, :2]
    points = spread @ plane
    radius = float(np.quantile(np.linalg.norm(points, axis=1), 0.95)) if len(points) else 0.0
    return np.asarray(points * (MAP_RADIUS / radius if radius > 0 else 1.0))


class CurrentModel:
    """The model in service; replacing it is one assignment, so that every answer sees exactly one."""

    def __init__(self, served: "ServedModel", generation: int) -> None:
        self.served = served
        self.generation = generation  # number of the announced model that is in service
        self.problem: str | None = None  # why a newer model that was announced is not the one in service
        self.lock = threading.Lock()  # held while a model is loaded: one swap at a time

    @classmethod
    def announced(cls, store: Store, folder: Path, settings: ServiceSettings) -> "CurrentModel":
        """Load the model that was announced to the servers of this store, or that of `folder`."""
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

    def replace(self, served: "ServedModel", generation: int) -> None:
        """Serve another model from now on; the caller holds the lock."""
        self.served, self.generation, self.problem = served, generation, None


_numbers = count()


class ServedModel:
    """One model in service, with its recommender; another model is another object."""

    def __init__(
        self,
        model: Model,
        model_id: str,
        folder: str,
        policy: PolicyChoice,
        forgetting: float,
        lists: ItemLists | None = None,
    ) -> None:
        index: Literal["exact"] | ItemLists = "exact" if lists is None else lists
        seed = randbits(64)  # servers, and one server before and after a restart, must not draw alike
        self.recommender = Recommender(model, own_policy(policy), forgetting=forgetting, index=index, seed=seed)
        self.recommender._live.from_sessions = False  # new items are learned from the log
        self.lists = lists  # the index that candidates come from; None: all items are scored
        self.started_with = dict(zip(model.item_ids[model.n_trained :], model.evidence, strict=True))
        """Evidence about added items that the model came with."""
        self.model_id = model_id
        self.folder = folder
        self.trained: ServedModel = self  # the model as it was loaded, without the items that came later
        self.key = model_id  # differs between the same model with and without items that came later
        self.policy = policy  # how items are chosen when a request does not say
        self.map_points = map_points(model)
        self.popular_rows: IntArray = np.argsort(-model.expected(model.prior_mean), kind="stable")
        """Rows of the items, the population's favourite first."""
        self.popularity: IntArray = np.empty(model.n_items, dtype=np.int64)
        """Rank of each row in the population's order, from 1."""
        self.popularity[self.popular_rows] = np.arange(1, model.n_items + 1)

    @property
    def model(self) -> Model:
        """The model, with the rows of new items as they are known now."""
        return self.recommender.model

    @classmethod
    def from_folder(cls, folder: Path, settings: ServiceSettings) -> "ServedModel":
        """Load a model folder; a bad one is refused with one sentence."""
        model = load_model(folder)
        policy = model.policy.changed(settings.policy, settings.nu)
        lists = find_index(model, settings.index)
        return cls(model, model_id(folder), str(folder.resolve()), policy, settings.forgetting, lists)

    def with_items(self, items: Sequence[Item]) -> "ServedModel":
        """Return the model as it was loaded with further items, which are known by their content."""
        if not items:
            return self.trained
        model, own = self.trained.model.with_items(items), self.recommender
        other = ServedModel(model, self.model_id, self.folder, self.policy, own.forgetting, self.lists)
        other.trained = self.trained
        other.key = f"{self.model_id}+{next(_numbers)}"
        other.recommender.clock = self.recommender.clock
        return other

    @property
    def satisfied(self) -> str:
        """What counts as a success, in words."""
        reward, told = self.model.reward, self.model.metadata.get("success")
        if isinstance(told, dict) and "sentence" in told:
            return str(told["sentence"])
        return f"satisfied: {'every reaction' if reward.is_implicit else f'value >= {reward.threshold:g}'}"

    @property
    def catalogue(self) -> Catalogue:
        """The current descriptions of the items."""
        return self.recommender.catalogue

    def search_texts(self) -> list[str]:
        """Return the texts that a search looks through, one per item, in lower case."""
        now = self.catalogue
        titles = now.titles or ("",) * len(now)
        pairs = zip(now.item_ids, titles, strict=True)
        return now.computed("search", lambda: [f"{item_id}\n{title}".casefold() for item_id, title in pairs])

    def title_of(self, item_id: str) -> str | None:
        """Look up the title of an item by its id, also of one that this model does not know."""
        row, titles = self.model.known_row(item_id), self.catalogue.titles
        return None if row is None or not titles else titles[row]

    def named(self, row: int) -> dict[str, Any]:
        """Return the fields of `NamedItem`."""
        catalogue, rank = self.catalogue, self.popularity.item(row)
        title = catalogue.titles[row] if catalogue.titles else None
        categories = list(catalogue.categories[row]) if catalogue.categories else []
        return {"item": catalogue.item_ids[row], "title": title, "categories": categories, "popularity_rank": rank}

    def available(self) -> BoolArray | None:
        """Return which items may be shown now, (items,); None: all of them."""
        return self.catalogue.available(self.recommender.clock())

    def bytes_per_user(self) -> int:
        """Estimate the memory of a session: the belief, and for every item means, variances and whether it was seen.

        With an index it is the belief alone.
        """
        belief = 8 * self.model.dim * (self.model.dim + 1) + 2_000
        kept = len(self.model.scored) + (not self.model.is_linear)
        return belief if self.lists is not None else (8 * kept + 1) * self.model.n_items + belief
