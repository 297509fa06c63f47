"""`split`: a published split into two files: for users of the training file, find the items of the test file."""

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from igcf.arrays import IntArray
from igcf.data import Interactions, load_dataset
from igcf.errors import ConfigError, DataError
from igcf.lab.evaluate.protocols.base import Choices, Column, Outcome, Row, Session, Setup, Users
from igcf.lab.evaluate.protocols.ranking import Ranking, RankingCase, known_case
from igcf.tables import Table

LENGTH = 20
MOST_TUNED_ON = 2_000
"""Users by whom settings are chosen, at most."""
SOURCE = "BARS tables or the paper of the method"
PUBLISHED = {
    "gowalla": {
        "EASE": (0.1765, 0.1467),
        "LightGCN": (0.1830, 0.1554),
        "UltraGCN": (0.1862, 0.1580),
        "NESCL": (0.1917, 0.1617),
        "BSPM-EM": (0.1920, 0.1597),
    }
}
"""Recall@20 and nDCG@20 that others published for a split, by the folder of its files."""


@dataclass(frozen=True)
class Split(Ranking):
    """Users of a training file; their items in a test file are to be found among all that they have not seen."""

    name: ClassVar[str] = "split"
    methods: ClassVar[tuple[str, ...]] = ("pop", "item-knn", "als", "graph-filter")
    sessions: ClassVar[tuple[Session, ...]] = (Session(1, LENGTH),)
    tuned_under: ClassVar[tuple[str, ...]] = ()
    test: str = ""
    """Path of the test file."""
    fingerprint: str = ""
    """Hash of its content, so that results are not taken from another file of that name."""

    @property
    def source(self) -> str:
        """Name of the split: the folder of its files."""
        return Path(self.test).resolve().parent.name

    def setup(self, data: Interactions, choices: Choices) -> Setup:
        """Return the experiment; every user with test items is tested, unless the caller wants fewer."""
        if not self.test:
            raise ConfigError("the protocol split needs --train FILE and --test FILE")
        setup = super().setup(data, choices)
        setup = replace(setup, dataset=self.source, sessions=self.sessions, min_reactions=1, activity=())
        return replace(setup, n_users=choices.n_users or data.n_users)

    def prepare(self, data: Interactions, setup: Setup, seed: int, users: Users) -> RankingCase:
        """Take the test file; for tuning, hide a fifth of the training file instead."""
        rng = np.random.default_rng(seed)
        if users == "test":
            log, user_idx, item_idx = data, *_matched(data, read_file(self.test))
        else:
            is_hidden = rng.random(len(data)) < 0.2
            log = data.subset(~is_hidden)
            user_idx, item_idx = data.user_idx[is_hidden], data.item_idx[is_hidden]
        ones = np.ones(len(user_idx), dtype=np.float32)
        hidden = sp.csr_array((ones, (user_idx, item_idx)), shape=(data.n_users, data.n_items))
        able = rng.permutation(np.flatnonzero(np.diff(hidden.indptr)))
        tested = np.sort(able[: setup.n_users if users == "test" else min(setup.n_users, MOST_TUNED_ON)])
        if not len(tested):
            raise DataError("no user of the test file is in the training file")
        everybody = rng.permutation(data.n_users)
        return known_case(log, np.unique(log.user_idx), everybody, tested, sp.csr_array(hidden[tested]), setup)

    def count(self, outcome: Outcome, setup: Setup) -> Row:
        """Count as LightGCN's code does: recall divides by the number of test items, even beyond k."""
        row = super().count(outcome, setup)
        found = ~np.isnan(outcome.shown.values[:, 0])
        curve = np.cumsum(found, axis=1) / outcome.n_satisfied[:, None]
        row.curves["recall"] = curve
        row.figures["recall"] = {str(LENGTH): float(curve[:, -1].mean())}
        return row

    def columns(self, session: Session, row: Row) -> list[Column]:
        """Return Recall@20 and nDCG@20."""
        return [(name, str(LENGTH), f"{word}@{LENGTH}") for name, word in (("recall", "Recall"), ("ndcg", "nDCG"))]

    def more_tables(self, rows: Any) -> list[Table]:
        """Return what others published for the same split."""
        known = PUBLISHED.get(self.source.lower(), {})
        lines = tuple((name, *(f"{each:.4f}" for each in figures), SOURCE) for name, figures in known.items())
        header = ("method", f"Recall@{LENGTH}", f"nDCG@{LENGTH}", "source")
        return [Table(f"{self.source}: published elsewhere for this split", header, lines)] if lines else []

    def sentence(self, setup: Setup) -> str:
        """Describe the users."""
        return f"{LENGTH} items ranked once for at most {setup.n_users} users of both files"

    def shape(self, session: Session) -> str:
        """Name the split."""
        return "published split"


@cache
def read_file(path: str) -> Interactions:
    """Read a file of the split, once per process."""
    return load_dataset(path)


def _matched(train: Interactions, test: Interactions) -> tuple[IntArray, IntArray]:
    """Return the test reactions as rows of the training file's users and items; others cannot be found by anybody."""
    users = {user_id: row for row, user_id in enumerate(train.user_ids)}
    user_of = np.array([users.get(user_id, -1) for user_id in test.user_ids])[test.user_idx]
    item_of = np.array([train.item_row.get(item_id, -1) for item_id in test.item_ids])[test.item_idx]
    is_known = (user_of >= 0) & (item_of >= 0)
    return user_of[is_known], item_of[is_known]
