"""A recommender whose items come and go."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from threading import Lock
from typing import Any

from igcf.item import Item
from igcf.model import Model
from igcf.online import recommender as online
from igcf.online.chance import ChanceScale
from igcf.online.exposure import Exposure
from igcf.online.new_items.evidence import NewItems
from igcf.online.policies import Policy


class Recommender(online.Recommender):
    """A model and a policy, ready to meet users; all sessions share what is learned about new items.

    Args:
        model: what pretraining learned; items that were added to it are learned from what users react to them.
        policy: how items are chosen; by default as the model says.
        exposure: how much new items are tried; by default as `igcf.Exposure` says.
        **settings: as of `igcf.online.Recommender`: `forgetting`, `seed`, `skip_rounds`, `clock`, `index`.
    """

    def __init__(
        self, model: Model, policy: Policy | None = None, *, exposure: Exposure | None = None, **settings: Any
    ) -> None:
        super().__init__(model, policy, **settings)
        self._exposure = Exposure() if exposure is None else exposure
        self._given = model
        self._changing = Lock()
        self.new_items: NewItems | None = None
        """What is known of the items that were added; None: there are none."""
        if len(model.added) and model.content is not None:
            self._serve(self._learned_items(model))

    def _learned_items(self, model: Model) -> NewItems:
        """Return what is known of the items that were added to a model before anybody reacted."""
        return NewItems(model, self._exposure)

    def add_items(self, items: Iterable[Item | Mapping[str, Any]]) -> None:
        """Add items to the catalogue: open sessions may show them from their next answer on; all are added or none.

        Nothing is known of them but their content (`Model.with_items`); what users react to them is learned at once.
        """
        with self._changing:
            model = self._given.with_items(items)
            if model is self._given:
                return
            news = self._learned_items(model) if self.new_items is None else self.new_items.joined(model)
            new = [model.catalogue.item(row) for row in range(self._given.n_items, model.n_items)]
            catalogue = self.catalogue.appended(new)  # as it is described now, which may differ from the model's
            self._given = model
            self._serve(news)
            self.catalogue = catalogue

    def retire_items(self, item_ids: Iterable[str]) -> None:
        """Take items out of every answer from now on; what was learned from reactions to them stays."""
        with self._changing:
            rows = self.model.item_rows(item_ids)
            hidden = {row: replace(self.catalogue.item(row), hidden=True) for row in rows}
            self.catalogue = self.catalogue.changed(hidden)

    def _serve(self, news: NewItems) -> None:
        """Let sessions see the items as `news` learns them."""
        engine = self._new_engine(news.model)
        news.on_move = engine.prior_items_moved
        engine.unsettled = lambda users: (news.rows, news.uncertainty(users))
        self.new_items = self.shared = news
        self.chance_scale, self._engine = ChanceScale(news.model), engine
        self.model = news.model
