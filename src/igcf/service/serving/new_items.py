"""New items in service: they learn from the log, which all servers share, and not from sessions."""

from collections.abc import Hashable, Iterable, Mapping
from typing import NamedTuple

from igcf.model import Model
from igcf.online import Belief, Exposure, NewItems, Policy, Recommender
from igcf.online.index import ItemLists


class Evidence(NamedTuple):
    """A reaction to a new item, and what was known of its user before it."""

    item_id: str
    time: float
    value: float
    belief: Belief


class ItemsOfLog(NewItems):
    """New items that learn from the log only: a session that observes a reaction teaches them nothing by itself."""

    def __init__(self, model: Model, exposure: Exposure) -> None:
        super().__init__(model, exposure)
        self._chosen: dict[int, dict[Hashable, Evidence]] = {}

    def observe(self, key: Hashable, row: int, belief: Belief, value: float) -> None:
        """Do nothing: the reaction is in the log, from which all servers learn it."""

    def retract(self, keys: Iterable[Hashable]) -> None:
        """Do nothing, for the same reason."""

    def learn(self, row: int, chosen: Mapping[Hashable, Evidence]) -> None:
        """Let an item be known by exactly these reactions, and by what is known now of the users before them."""
        known = self._chosen.get(row, {})
        super().retract(key for key in known if key not in chosen)
        self._chosen[row] = dict(chosen)
        for key, each in chosen.items():
            if known.get(key) is not each:
                super().observe(key, row, each.belief, each.value)


class ServedRecommender(Recommender):
    """A recommender whose new items learn from the log."""

    def __init__(self, model: Model, policy: Policy, *, forgetting: float, lists: ItemLists | None) -> None:
        super().__init__(model, policy, forgetting=forgetting, index="exact" if lists is None else lists)

    def _learned_items(self, model: Model) -> ItemsOfLog:
        return ItemsOfLog(model, self._exposure)
