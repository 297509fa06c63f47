"""Do intervals widen with ignorance? Shares of satisfied new users per item, by how well the items are known.

A new user's own probability cannot be observed, the share of new users whom an item satisfies can. For them the chance
is the item's expected share, and its uncertainty is the item's part of an interval: the user's part averages out. The
realised share of m users is compared with the predicted distribution of such shares, whose central 80 % should hold
four of five items; a share of few users is discrete, so its place is drawn uniformly within its own probability.
"""

from typing import Any

import numpy as np

from igcf.arrays import Float32Array
from igcf.data import Interactions
from igcf.errors import ConfigError
from igcf.model import Model
from igcf.model.usage import SharePrior
from igcf.online import Recommender
from igcf.tables import Table

CLASSES = (("new", 0, 0), ("1-5", 1, 5), ("6-20", 6, 20), ("21-100", 21, 100), ("more", 101, 1 << 60))
"""Names, and least and most reactions in training."""
HELD_OUT = 0.1
LEVEL = 0.8


def held_out_users(data: Interactions, *, thin: float = 1.0, seed: int = 0) -> tuple[Interactions, Interactions]:
    """Split a tenth of the users off at random; of the others a share `thin` of the reactions is kept."""
    rng = np.random.default_rng(seed)
    users = rng.permutation(data.n_users)
    k = int(np.ceil(HELD_OUT * data.n_users))
    rest = data.only_users(np.sort(users[k:]))
    if thin < 1.0:
        rest = rest.subset(rng.random(len(rest.values)) < thin)
    return rest, data.only_users(np.sort(users[:k]))


def interval_rows(model: Model, truth: Float32Array, *, seed: int = 0) -> list[dict[str, Any]]:
    """Compare the realised shares of held-out users, (users, items) with NaN, with what the model says of new users."""
    from scipy.stats import beta, betabinom

    calibration = model.calibration
    if model.reactions is None or not calibration.share_strength:
        raise ConfigError("this model has no counts of reactions; train it again")
    prior = SharePrior(calibration.share_intercept, calibration.share_slope, calibration.share_strength)
    a, b = prior.of(model.reactions)
    n_reacted = (~np.isnan(truth)).sum(axis=0)
    n_satisfied = model.reward.is_satisfied(truth).sum(axis=0)
    chances, rng = Recommender(model).session().chances(), np.random.default_rng(seed)
    found = []
    for name, least, most in CLASSES:
        counts = model.reactions[:, 0]
        own = np.flatnonzero((counts >= least) & (counts <= most) & (n_reacted > 0))
        if not len(own):
            continue
        m, s = n_reacted[own], n_satisfied[own]
        place = betabinom.cdf(s - 1, m, a[own], b[own]) + rng.random(len(own)) * betabinom.pmf(s, m, a[own], b[own])
        low, high = (beta.ppf(level, a[own], b[own]) for level in (0.1, 0.9))
        found.append(
            {
                "reactions": name,
                "items": len(own),
                "held_out": int(m.sum()),
                "satisfied": float(s.sum() / m.sum()),
                "chance": float((chances.chance[own] * m).sum() / m.sum()),
                "within": float((np.abs(place - 0.5) <= LEVEL / 2).mean()),
                "width_of_share": float((high - low).mean()),
                "width": float((chances.high - chances.low)[own].mean()),
            }
        )
    return found


def interval_table(dataset: str, rows: list[dict[str, Any]]) -> Table:
    """Build the table of intervals by number of reactions."""
    header = (
        "reactions",
        "items",
        "held out",
        "satisfied",
        "chance",
        "shares in 80 %",
        "width of share",
        "low to high",
    )
    numbers = ("satisfied", "chance", "within", "width_of_share", "width")
    lines = [
        (row["reactions"], str(row["items"]), str(row["held_out"]), *(f"{row[name]:.3f}" for name in numbers))
        for row in rows
    ]
    return Table(f"{dataset}, intervals of new users by reactions to the item in training", header, tuple(lines))
