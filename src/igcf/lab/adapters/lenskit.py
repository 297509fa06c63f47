"""igcf as a scorer of LensKit's pipelines: `topn_pipeline(InteractiveScorer(seed=1))`."""

from dataclasses import dataclass

import numpy as np

from igcf.data import Interactions
from igcf.errors import ConfigError
from igcf.online import Recommender
from igcf.training import pretrain

try:
    from lenskit.data import Dataset, ItemList, QueryInput, RecQuery
    from lenskit.pipeline import Component
    from lenskit.training import Trainable, TrainingOptions
except ImportError as error:
    raise ConfigError("this adapter needs lenskit; install it with `pip install 'igcf[lenskit]'`") from error


@dataclass
class InteractiveConfig:
    """Settings of `InteractiveScorer`."""

    satisfied: float | None = None
    """Smallest rating of a success; None: found in the data."""
    seed: int = 0
    """Seed of the training."""


class InteractiveScorer(Component[ItemList], Trainable):
    """Score items by the reward that igcf expects of them; items without a reaction in the training data get NaN.

    In a query, `history_items` are a logged record, where missing items count as weak negatives, and `session_items`
    were shown to the user. Items without a rating count as 1.
    """

    config: InteractiveConfig

    def train(self, data: Dataset, options: TrainingOptions | None = None) -> None:
        """Pretrain on the interactions of a data set; equal ones count once, the latest."""
        if hasattr(self, "recommender") and options is not None and not options.retrain:
            return
        log = Interactions.from_frame(data.interaction_table(format="pandas", original_ids=True), name="lenskit")
        model = pretrain(log, seed=self.config.seed, satisfied=self.config.satisfied, progress=False)
        self.recommender = Recommender(model, seed=self.config.seed)

    def __call__(self, query: QueryInput, items: ItemList) -> ItemList:
        """Return the items with their scores."""
        asked = RecQuery.create(query)
        shown = self._reactions(asked.session_items)
        session = self.recommender.session(shown, logged=self._reactions(asked.history_items))
        rows = [self.recommender.model.known_row(str(each)) for each in items.ids()]
        means = np.append(session.moments()[0], np.nan)
        return ItemList(items, scores=means[[-1 if row is None else row for row in rows]])

    def _reactions(self, items: ItemList | None) -> list[tuple[str, float | None]]:
        """Return the reactions to items that the model knows."""
        if items is None:
            return []
        ratings = items.field("rating")
        values = np.ones(len(items)) if ratings is None else np.asarray(ratings, dtype=np.float64)
        pairs = zip((str(each) for each in items.ids()), values.tolist(), strict=True)
        return [pair for pair in pairs if self.recommender.model.known_row(pair[0]) is not None]
