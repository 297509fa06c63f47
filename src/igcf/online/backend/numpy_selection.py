"""The best available items in NumPy, and where they stand."""

import numpy as np

from igcf.arrays import AnyFloatArray, BoolArray, IntArray
from igcf.online.backend.types import MakeRng, Selection

LEAST = float(np.finfo(np.float32).min)
"""Any score is at least this; what is not available has less."""

FEW = 3
"""Items whose ranks are counted one by one, which needs no sorting of what is above them."""


def select_users(
    scores: AnyFloatArray, available: BoolArray, k: int, make_rng: MakeRng
) -> tuple[IntArray, AnyFloatArray]:
    """Select the `k` best available items of each user, best first; ties are broken at random.

    Args:
        scores: of shape (users, items).
        available: of shape (users, items); at least `k` items of every user.
        k: how many.
        make_rng: asked only where scores are equal.

    Returns:
        Rows and scores of the selected items, both of shape (users, k).
    """
    rows: IntArray = np.empty((len(available), k), dtype=np.int64)
    best: AnyFloatArray = np.empty((len(available), k), dtype=scores.dtype)
    for user in range(len(available)):
        rows[user], best[user] = _best_of(scores[user], available[user], k, make_rng)
    return rows, best


def _best_of(scores: AnyFloatArray, available: BoolArray, k: int, make_rng: MakeRng) -> tuple[IntArray, AnyFloatArray]:
    masked = np.where(available, scores, -np.inf)
    parted = masked.copy()
    parted.partition(len(masked) - k)
    rows = (masked >= max(parted.item(len(masked) - k), LEAST)).nonzero()[0]
    best = masked[rows]
    order: AnyFloatArray | IntArray = rows
    if len(np.unique(best)) < len(rows):  # no draws without need
        order = make_rng().random(len(rows))
    chosen = rows[np.lexsort((order, -best))[:k]]
    return chosen, masked[chosen]


def count_above(means: AnyFloatArray, available: BoolArray, of: AnyFloatArray) -> IntArray:
    """Count the available means (items,) above each of some numbers (k,)."""
    if len(of) <= FEW:
        return np.array([np.count_nonzero((means > mean) & available) for mean in of], dtype=np.int64)
    above = np.sort(means[available & (means > of.min())])
    return np.asarray(len(above) - above.searchsorted(of, side="right"), dtype=np.int64)


def described(
    rows: IntArray, scores: AnyFloatArray, means: AnyFloatArray, stds: AnyFloatArray, above: IntArray
) -> Selection:
    """Return the columns of some items as lists; ranks by the mean follow from how many lie above it."""
    return Selection(rows.tolist(), scores.tolist(), means.tolist(), stds.tolist(), (above + 1).tolist())
