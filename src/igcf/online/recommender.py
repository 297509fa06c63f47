"""A model and a policy, ready for users."""

import json
import logging
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from hashlib import blake2b
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from igcf.errors import ConfigError, DataError
from igcf.item import Item
from igcf.model import Model
from igcf.model.catalogue import Catalogue
from igcf.online.answers import Past, Reaction, Recommendation
from igcf.online.belief import Belief
from igcf.online.choosing import check_k
from igcf.online.evidence import LoggedBelief, check_pairs
from igcf.online.exploration import checked_share
from igcf.online.index import IndexChoice, ItemLists, find_index
from igcf.online.new_items.trials import Exposure
from igcf.online.new_items.update import NewItems
from igcf.online.policies import Policy, own_policy
from igcf.online.selection import is_searchable
from igcf.online.serving import LiveServing
from igcf.online.session import SESSION_FORMAT, Session

SKIP_ROUNDS = 20
"""Reactions and skips for which a skipped item is not shown."""


class SimilarItem(NamedTuple):
    """An item and how similar it is to another one.

    Example:
        With the model of the example of `igcf.Model`:

        >>> best = igcf.Recommender(model).similar_items("tea", k=1)[0]
        >>> best.item_id, round(best.similarity, 2)
        ('juice', 0.71)
    """

    item_id: str
    similarity: float
    """Cosine of the two item vectors, from -1 to 1."""


class Recommender:
    """A model and a policy; all sessions share what is learned about new items.

    Args:
        model: a trained model; items added to it are learned from users' reactions.
        policy: how items are chosen; default: the model's own.
        forgetting: weight that earlier evidence keeps with every new reaction; 1 never forgets, 0.98 follows a
            changing taste by falling back toward the population.
        seed: makes draws and ties repeatable, in the order in which sessions are opened.
        skip_rounds: number of reactions and skips for which a skipped item is not shown.
        clock: returns the time in seconds since 1970, for items with dates of availability.
        index: `exact` scores all items for every answer; `lists` builds an index now and asks it for candidates, and
            `auto` does so for large catalogues. Or an index that was built before.
        exposure: how often new items are tried; default: `igcf.Exposure()`.
        explore: share of the slots that are drawn among the 10 best items left, with known probabilities, so that
            other policies can be evaluated on what was logged.

    Example:
        With the model of the example of `igcf.Model`:

        >>> import igcf
        >>> recommender = igcf.Recommender(model)
        >>> stranger, known = recommender.session(), recommender.session(history=[("tea", 0.0)])
        >>> [answer[0].item_id for answer in recommender.recommend([stranger, known], k=1)]
        ['tea', 'coffee']
    """

    def __init__(  # noqa: PLR0913  (each has a default)
        self,
        model: Model,
        policy: Policy | None = None,
        *,
        forgetting: float = 1.0,
        seed: int = 0,
        skip_rounds: int = SKIP_ROUNDS,
        clock: Callable[[], float] = time.time,
        index: IndexChoice | ItemLists = "exact",
        exposure: Exposure | None = None,
        explore: float = 0.0,
    ) -> None:
        if not 0 < forgetting <= 1:
            raise ConfigError(f"forgetting must be in (0, 1], got {forgetting}; 1 never forgets")
        if skip_rounds < 1:
            raise ConfigError(f"skip_rounds must be at least 1, got {skip_rounds}")
        if not isinstance(policy, Policy | None):
            raise ConfigError(f"policy is {policy!r}; expected an igcf.online.Policy, for instance igcf.Ucb(nu=0.5)")
        self.policy = own_policy(model.policy) if policy is None else policy
        self.clock, self.forgetting, self.skip_rounds = clock, forgetting, skip_rounds
        self.explore = checked_share(explore)
        lists = find_index(model, index)
        if lists is not None and not is_searchable(self.policy):
            logging.getLogger("igcf.index").warning(
                "%s scores all %d items: an index cannot be asked for it", self.policy, model.n_items
            )
        self._live = LiveServing(model, exposure, lists)
        self._seed, self._anonymous = seed, _salt(model)
        self._opened, self._numbers = count(), count()

    def __repr__(self) -> str:
        new = self.new_items
        added = "" if new is None else f", {len(new.rows)} of them new"
        return f"Recommender({self.model.n_items} items{added}, policy {self.policy})"

    @property
    def model(self) -> Model:
        """The current model, with added items and what reactions have taught about them."""
        return self._live.current().model

    @property
    def catalogue(self) -> Catalogue:
        """The current descriptions of the items."""
        return self.model.catalogue

    @property
    def new_items(self) -> NewItems | None:
        """The current state of items added to the model; None without any."""
        return self._live.current().new_items

    def session(  # noqa: PLR0913  (each has a default)
        self,
        history: Iterable[Reaction] = (),
        *,
        logged: Iterable[Reaction] = (),
        until: int | None = None,
        belief: Belief | LoggedBelief | None = None,
        rng: np.random.Generator | None = None,
        user: Hashable = None,
        attributes: Mapping[str, Any] | None = None,
        contexts: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> Session:
        """Start a session of a user, new or with a past; nothing that the user reacted to is recommended.

        Args:
            history: (item_id, value) pairs of items that were shown, oldest first; equals having observed them here.
                Of several reactions to one item the last counts.
            logged: (item_id, value) pairs from a log, where the absence of all other items counts too. They come
                before the history, which replaces them where it has the same item.
            until: time at which the logged record ends, in the units of the training log; items that appeared later
                are not absent. It is ignored if the model does not know when its items appeared.
            belief: the belief after these reactions if it has been computed before. A plain
                `Belief` leaves the offset of logged reactions to be computed.
            rng: makes draws and ties repeatable for this session.
            user: identifies the user, who counts once about a new item in however many sessions. A session
                without it counts as a user of its own.
            attributes: the user's attributes, by the names in `model.attribute_prior`: they move the prior. Unknown
                names are errors; unknown values are ignored, see `Session.ignored`.
            contexts: contexts in which reactions of the history were made, by item id.
        """
        past = Past(list(history), list(logged), until, belief, attributes, contexts or {})
        check_pairs("history", past.history)
        name = (self._anonymous, next(self._numbers)) if user is None else user
        return Session(self, past, rng or (self._seed, next(self._opened)), name)

    def load_session(self, path: str | Path) -> Session:
        """Return the session that `Session.save` wrote; the belief is computed from it."""
        try:
            saved = json.loads(Path(path).read_text(encoding="utf-8"))
            if not isinstance(saved, dict) or saved.get("format") != SESSION_FORMAT:
                raise DataError(f"{path} is not a saved session; expected what Session.save wrote")
            history, logged = ([(str(item), value) for item, value in saved[name]] for name in ("history", "logged"))
            others = {name: saved.get(name) for name in ("attributes", "contexts")}
            return self.session(history, logged=logged, until=saved["until"], user=saved["user"], **others)
        except (OSError, UnicodeDecodeError, ValueError, KeyError, TypeError) as error:
            raise DataError(f"cannot read a session from {path}: {error}; save it again with Session.save") from error

    def recommend(self, users: Sequence[Session], k: int = 1) -> list[list[Recommendation]]:
        """Return the `k` best items of each of several sessions, in the order of `users`."""
        for user in users:
            if not isinstance(user, Session):
                raise ConfigError(f"users has a {type(user).__name__}; expected sessions, as `session()` returns them")
        return [user.recommend(k) for user in users]

    def similar_items(self, item_id: str, k: int = 10) -> list[SimilarItem]:
        """Return the `k` available items with the vectors most similar to that of an item, most similar first."""
        check_k(k)
        model = self.model
        row, vectors = model.item_row(item_id), model.item_vectors
        lengths = np.sqrt(np.einsum("nd,nd->n", vectors, vectors, dtype=np.float64))
        cosine = (vectors @ vectors[row]) / np.maximum(lengths * lengths[row], 1e-30)
        mask = model.catalogue.available(self.clock())
        is_open = np.ones(model.n_items, dtype=np.bool_) if mask is None else mask.copy()
        is_open[row] = False
        rows = np.flatnonzero(is_open)
        best = rows[np.argsort(-cosine[rows], kind="stable")[:k]]
        return [SimilarItem(model.item_ids[each], float(cosine[each])) for each in best.tolist()]

    def add_items(self, items: Iterable[Item | Mapping[str, Any]]) -> None:
        """Add items to the catalogue: open sessions may show them from their next answer on; all are added or none.

        They are known by their descriptions (`Model.with_items`) and learned from users' reactions.
        """
        self._live.add_items(items)

    def update_items(self, items: Iterable[Item | Mapping[str, Any]]) -> None:
        """Replace the descriptions of some items; all are changed or none. Vectors of trained items do not change."""
        self._live.update_items(items)

    def retire_items(self, item_ids: Iterable[str]) -> None:
        """Stop recommending items; reactions to them still count. `restore_items` undoes it."""
        self._live.set_hidden(item_ids, is_hidden=True)

    def restore_items(self, item_ids: Iterable[str]) -> None:
        """Recommend retired items again."""
        self._live.set_hidden(item_ids, is_hidden=False)


def _salt(model: Model) -> str:
    """Return a text that differs from that of earlier recommenders with anonymous evidence in a model."""
    numbers = sorted(number for each in model.evidence for number in each.contributions)
    return blake2b(repr(numbers).encode(), digest_size=8).hexdigest() if numbers else "anonymous"
