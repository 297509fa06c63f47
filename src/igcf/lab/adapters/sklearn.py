"""igcf as a scikit-learn estimator: `InteractiveRecommender().fit(X, y).recommend(users)`."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from igcf.arrays import FloatArray
from igcf.data import Interactions
from igcf.errors import ConfigError, IgcfError
from igcf.online import Recommender, Session
from igcf.training import pretrain

try:
    from sklearn.base import BaseEstimator
    from sklearn.metrics import roc_auc_score
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise ConfigError("this adapter needs scikit-learn; install it with `pip install 'igcf[sklearn]'`") from error


class InteractiveRecommender(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Learn the population of users once, then users by their reactions.

    `X` has two columns, the ids of user and item; `y` has the values of the reactions, 1 where it is left out.

    Args:
        satisfied: smallest value of a success; None: found in the values.
        random_state: seed of the training, an integer.

    Example:
        >>> import numpy as np
        >>> from igcf.lab.adapters.sklearn import InteractiveRecommender
        >>> X = np.array([[user, item] for user in range(40) for item in range(20) if (user + item) % 3])
        >>> y = np.where((X.sum(axis=1)) % 2, 5.0, 2.0)
        >>> found = InteractiveRecommender().fit(X, y).partial_fit([[99, 0], [99, 1]], [2.0, 5.0])
        >>> found.recommend([99], k=3).shape
        (1, 3)
    """

    def __init__(self, *, satisfied: float | None = None, random_state: int = 0) -> None:
        self.satisfied, self.random_state = satisfied, random_state

    def __sklearn_tags__(self) -> Any:
        """Say that ids may be text."""
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.categorical = True
        return tags

    def fit(self, X: Any, y: Any = None) -> "InteractiveRecommender":
        """Pretrain; the users of `X` are known by their record from now on, in which absence counts too."""
        users, items, values = self._reactions(X, y, reset=True)
        try:
            log = Interactions.from_arrays(list(map(str, users)), list(map(str, items)), values)
            model = pretrain(log, satisfied=self.satisfied, seed=self.random_state, progress=False)
        except IgcfError as error:
            raise ValueError(str(error)) from error
        self.recommender_ = Recommender(model, seed=self.random_state)
        self.item_of_ = {str(item): item for item in items}
        self._records: dict[str, list[tuple[str, float]]] = {}
        for user, item, value in zip(users, items, values, strict=True):
            self._records.setdefault(str(user), []).append((str(item), value))
        self._sessions: dict[str, Session] = {}
        return self

    def partial_fit(self, X: Any, y: Any = None) -> "InteractiveRecommender":
        """Learn from reactions to what was shown, in closed form; the population is that of `fit`.

        Users who were not in `fit` start from the population. The first call is a `fit`.
        """
        if not hasattr(self, "recommender_"):
            return self.fit(X, y)
        try:
            for user, item, value in zip(*self._reactions(X, y, reset=False), strict=True):
                self.session(user).observe(str(item), value)
        except IgcfError as error:
            raise ValueError(str(error)) from error
        return self

    def predict(self, X: Any) -> FloatArray:
        """Return the chance that the user is satisfied with the item if they react; NaN for unknown items."""
        check_is_fitted(self)
        users, items, _ = self._reactions(X, None, reset=False)
        chances = {user: np.append(self.session(user).chances().chance, np.nan) for user in set(users)}
        rows = [self.recommender_.model.known_row(str(item)) for item in items]
        return np.array([chances[user][-1 if row is None else row] for user, row in zip(users, rows, strict=True)])

    def score(self, X: Any, y: Any) -> float:
        """Return how well `predict` ranks successes before other reactions to known items: the area under the ROC."""
        chances = self.predict(X)
        is_known = ~np.isnan(chances)
        is_success = np.asarray(y)[is_known] >= self.recommender_.model.metadata["success"]["satisfied"]
        return float(roc_auc_score(is_success, chances[is_known]))

    def recommend(self, users: Sequence[object], k: int = 10) -> Any:
        """Return the ids of the `k` best items of each user that are not in their record, best first, (users, k)."""
        check_is_fitted(self)
        picks = self.recommender_.recommend([self.session(user) for user in users], k)
        return np.array([[self.item_of_[pick.item_id] for pick in own] for own in picks])

    def session(self, user: object) -> Session:
        """Return the session of a user, with all that is known of them."""
        check_is_fitted(self)
        name = str(user)
        if name not in self._sessions:
            self._sessions[name] = self.recommender_.session(logged=self._records.get(name, ()), user=name)
        return self._sessions[name]

    def _reactions(self, X: Any, y: Any, *, reset: bool) -> tuple[list[Any], list[Any], list[float]]:
        """Return users, items and values as lists."""
        how = {"dtype": None, "reset": reset, "ensure_min_features": 2, "ensure_min_samples": 2 if reset else 1}
        if y is None:
            X = validate_data(self, X, **how)
        else:
            X, y = validate_data(self, X, y, y_numeric=True, **how)
        if X.shape[1] != 2:
            raise ValueError(f"X has {X.shape[1]} columns; expected two, the ids of user and item")
        return X[:, 0].tolist(), X[:, 1].tolist(), [1.0] * len(X) if y is None else np.asarray(y, float).tolist()
