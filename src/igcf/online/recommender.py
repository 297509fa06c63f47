"""A model and a policy, ready to meet users."""

import time
from collections.abc import Callable, Hashable, Iterable
from itertools import count

import numpy as np

from igcf.errors import ConfigError
from igcf.model import Model
from igcf.online.answers import Past, Reaction
from igcf.online.belief import Belief
from igcf.online.chance import ChanceScale
from igcf.online.engine import ScoringEngine
from igcf.online.evidence import LoggedBelief, check_pairs
from igcf.online.index.choice import IndexChoice, find_index, logger
from igcf.online.index.engine import IndexedEngine
from igcf.online.index.lists import ItemLists
from igcf.online.policies import Policy, checked_policy, own_policy
from igcf.online.selection import is_searchable
from igcf.online.session import Session
from igcf.online.shared_items import SharedItems

SKIP_ROUNDS = 20
"""Reactions and skips for which a skipped item is put aside."""


class Recommender:
    """A model and a policy, ready to meet users; holds nothing about any of them.

    Args:
        model: what pretraining learned.
        policy: how items are chosen; by default as the model says.
        forgetting: weight that earlier evidence keeps with every new reaction; 1 never forgets, 0.98 follows a
            changing taste by falling back toward the population.
        seed: makes draws and ties repeatable, in the order in which sessions are opened.
        skip_rounds: number of reactions and skips for which a skipped item is put aside.
        clock: tells the time in seconds since 1970, by which items become available and cease to be.
        index: `exact` scores all items for every answer; `faiss` asks an index for candidates, which is built now, and
            `auto` does so for large catalogues. Or an index: `igcf.online.index.load_lists` reads a stored one.

    Example:
        With the model of the example of `igcf.Model`:

        >>> import igcf
        >>> stranger = igcf.Recommender(model).session()
        >>> known = igcf.Recommender(model).session(history=[("tea", 0.0)])
        >>> stranger.recommend()[0].item_id, known.recommend()[0].item_id
        ('tea', 'coffee')
    """

    def __init__(
        self,
        model: Model,
        policy: Policy | None = None,
        *,
        forgetting: float = 1.0,
        seed: int = 0,
        skip_rounds: int = SKIP_ROUNDS,
        clock: Callable[[], float] = time.time,
        index: IndexChoice | ItemLists = "exact",
    ) -> None:
        if not 0 < forgetting <= 1:
            raise ConfigError(f"forgetting must lie in (0, 1], got {forgetting}; 1 never forgets")
        if skip_rounds < 1:
            raise ConfigError(f"skip_rounds must be at least 1, got {skip_rounds}")
        self.model = model
        self.catalogue = model.catalogue
        """The items as they are described now; assigning another one changes what all sessions may show."""
        self.clock = clock
        self.policy: Policy = own_policy(model.policy) if policy is None else checked_policy(policy)
        self.forgetting = forgetting
        self.skip_rounds = skip_rounds
        self.chance_scale = ChanceScale(model)
        self.shared: SharedItems | None = None
        """Items that all sessions learn together; None: there are none."""
        self.lists = find_index(model, index)
        """The index that candidates come from; None: all items are scored."""
        if self.lists is not None and not is_searchable(self.policy):
            logger.warning("%s scores all %d items: an index cannot be asked for it", self.policy, model.n_items)
        self._engine = self._new_engine(model)
        self._seed = seed
        self._opened = count()
        self._numbers = count()

    def _new_engine(self, model: Model) -> ScoringEngine:
        return ScoringEngine(model) if self.lists is None else IndexedEngine(model, self.lists)

    def fresh_engine(self) -> ScoringEngine:
        """Return the state of a user who is met for the first time."""
        return self._engine.fresh()

    def session(
        self,
        history: Iterable[Reaction] = (),
        *,
        logged: Iterable[Reaction] = (),
        until: int | None = None,
        belief: Belief | LoggedBelief | None = None,
        rng: np.random.Generator | None = None,
        user: Hashable = None,
    ) -> "Session":
        """Meet a user, new or with a past; nothing that the user reacted to is recommended.

        Args:
            history: (item_id, value) pairs of items that were shown, oldest first; equals having observed them here.
            logged: (item_id, value) pairs out of a log, where the absence of all other items counts too. A log has one
                reaction per item: of several the last counts. They come before the history.
            until: time at which the logged record ends, in the units of the training log; items that appeared later
                are not absent. It says nothing where the model does not know when its items appeared.
            belief: what these reactions led to where it is known already; it is then not computed again. A plain
                `Belief` leaves the offset of logged reactions to be computed.
            rng: makes draws and ties repeatable for this session.
            user: names the user in what is learned of new items, so that nothing counts twice when the same user is
                met again with the same history; a number of its own for every session where it is left out.
        """
        past = Past(list(history), list(logged), until, belief)
        check_pairs("history", past.history)
        rng_or_seed = rng or (self._seed, next(self._opened))
        return Session(self, self.fresh_engine(), past, rng_or_seed, next(self._numbers) if user is None else user)
