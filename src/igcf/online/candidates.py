"""What a candidate, a model with a policy, makes of the answers of a log, for `igcf.experiments.off_policy`."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from igcf.errors import ConfigError, DataError, FeedbackError, NoItemsLeftError
from igcf.experiments.off_policy import LoggedSlates
from igcf.model import Model
from igcf.online.policies import Policy
from igcf.online.recommender import Recommender
from igcf.online.session import Session

if TYPE_CHECKING:
    import polars as pl

COLUMNS = ("user", "item", "value", "propensity")


class LoggedAnswer(NamedTuple):
    """The items of one answer, best first, and what came of them."""

    user: str
    items: Sequence[str]
    propensities: Sequence[float]
    slot_propensities: Sequence[float]
    rewards: Sequence[float]


class CandidateLog:
    """Collects answers of a log beside what a candidate would have shown instead."""

    def __init__(self, model: Model, policy: Policy) -> None:
        if policy.propensity != "exact":
            raise ConfigError(f"{policy} draws its answers; evaluate ucb, info-ucb or greedy from a log")
        self.model = model
        names = ("propensities", "slot_propensities", "rewards", "candidate", "candidate_slots", "expected", "own")
        self._columns: dict[str, list[Sequence[float]]] = {name: [] for name in names}
        self._users: list[str] = []
        self._items: list[Sequence[str]] = []
        self._contexts: list[Any] = []

    def __len__(self) -> int:
        return len(self._users)

    def add(self, session: Session, answer: LoggedAnswer, exclude: Sequence[str] = ()) -> bool:
        """Add an answer to the user of a session of the candidate; False: the candidate has no such answer."""
        items = answer.items
        try:
            picks = session.recommend(len(items), exclude=exclude, explore=0.0)
        except NoItemsLeftError:
            return False
        own, chances = [pick.item_id for pick in picks], session.chances().chance
        rows = [self.model.known_row(item) for item in items]
        best_left = [next(each for each in own if each not in items[:slot]) for slot in range(len(items))]
        candidate = [float(best == item) for best, item in zip(best_left, items, strict=True)]
        candidate_slots = [float(item == mine) for item, mine in zip(items, own, strict=True)]
        expected = [0.0 if row is None else float(chances[row]) for row in rows]
        found = (*answer[2:], candidate, candidate_slots, expected, [pick.chance for pick in picks])
        for column, values in zip(self._columns.values(), found, strict=True):
            column.append(values)
        self._users.append(answer.user)
        self._items.append(items)
        self._contexts.append(session.belief.mean)
        return True

    def slates(self) -> LoggedSlates:
        """Return what was collected."""
        if not self._users:
            raise DataError("the log has no answer that the candidate could have given; nothing can be estimated")
        width = max(len(items) for items in self._items)
        arrays = {
            name: np.array([[*column, *[np.nan] * (width - len(column))] for column in columns], dtype=np.float64)
            for name, columns in self._columns.items()
        }
        users = np.unique(self._users, return_inverse=True)[1]
        return LoggedSlates(**arrays, users=users)

    def feedback(self) -> dict[str, Any]:
        """Return the log as a dictionary in the layout of Open Bandit Pipeline, a row per item shown."""
        sizes = [len(items) for items in self._items]
        ids = {item: row for row, item in enumerate(self.model.item_ids)}
        action = np.array([ids.setdefault(item, len(ids)) for items in self._items for item in items])
        vectors = np.zeros((len(ids), self.model.item_vectors.shape[1]))
        vectors[: self.model.n_items] = self.model.item_vectors
        chances = self._columns["propensities"]
        return {
            "n_rounds": len(self),
            "n_actions": len(ids),
            "n_unique_action": len(ids),
            "slate_id": np.repeat(np.arange(len(self)), sizes),
            "context": np.array(self._contexts),
            "action_context": vectors,
            "action": action,
            "position": np.concatenate([np.arange(size) for size in sizes]),
            "reward": np.concatenate(self._columns["rewards"]),
            "pscore": np.repeat([float(np.prod(own)) for own in chances], sizes),
            "pscore_cascade": np.concatenate([np.cumprod(own) for own in chances]),
            "pscore_item_position": np.concatenate(self._columns["slot_propensities"]),
            "item_ids": np.array(list(ids)),
        }


def candidate_on_file(path: Path, model: Model, policy: Policy) -> CandidateLog:
    """Read a log with propensities and play it to a candidate: each user's answers in the order of the file.

    Columns `user`, `item`, `value` (empty: no reaction) and `propensity`; rows with the same `answer` are the slots of
    one answer, best first, with `slot_propensity` where it is known. Without `answer` every row is one.
    """
    found, recommender = CandidateLog(model, policy), Recommender(model, policy)
    sessions: dict[str, Session] = {}
    for user, values, answer in _answers(path, model):
        session = sessions.setdefault(user, recommender.session(user=user))
        found.add(session, answer)
        for item, value in zip(answer.items, values, strict=True):
            if model.known_row(item) is not None:
                session.observe(item, value)
    return found


def _answers(path: Path, model: Model) -> Iterator[tuple[str, list[float | None], LoggedAnswer]]:
    frame = _read(path)
    missing = [name for name in COLUMNS if name not in frame.columns]
    if missing:
        raise DataError(f"{path} has no column {missing[0]!r}; expected {', '.join(COLUMNS)} and perhaps answer")
    rows = list(frame.iter_rows(named=True))
    for number, row in enumerate(rows, 1):
        if row["user"] is None or row["item"] is None:
            raise DataError(f"{path}: row {number} has no user or no item; leave the row out, or name both")
        for name in ("propensity", "slot_propensity"):
            p = row.get(name)
            is_unknown = name == "slot_propensity" and (p is None or p != p)
            if not (is_unknown or (isinstance(p, int | float) and 0 < p <= 1)):
                raise DataError(f"{path}: row {number} has the {name} {p!r}; expected a number above 0, up to 1")
        try:
            model.reward.checked(row["value"])
        except FeedbackError as error:
            raise DataError(f"{path}: row {number}: {error}") from error
    has_answers, has_slots = "answer" in frame.columns, "slot_propensity" in frame.columns
    for _, group in groupby(enumerate(rows), key=lambda pair: pair[1]["answer"] if has_answers else pair[0]):
        own = [row for _, row in group]
        user, chances = str(own[0]["user"]), [row["propensity"] for row in own]
        items = [str(row["item"]) for row in own]
        if len({row["user"] for row in own}) > 1:
            raise DataError(f"{path}: answer {own[0]['answer']!r} has rows of several users; number every answer apart")
        values = [None if row["value"] is None or isnan(row["value"]) else float(row["value"]) for row in own]
        unknown = chances if len(own) == 1 else [np.nan] * len(own)
        slots = [row["slot_propensity"] for row in own] if has_slots else unknown
        rewards = [0.0 if value is None else float(model.reward.is_satisfied(value)) for value in values]
        yield user, values, LoggedAnswer(user, items, chances, slots, rewards)


def _read(path: Path) -> "pl.DataFrame":
    import polars as pl

    texts = {"user": pl.String, "item": pl.String}
    try:
        if path.suffix == ".parquet":
            frame = pl.read_parquet(path)
            return frame.with_columns(pl.col(name).cast(pl.String) for name in texts if name in frame.columns)
        return pl.read_csv(path, schema_overrides=texts)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise DataError(f"cannot read {path}: {str(error).splitlines()[0]}") from error
