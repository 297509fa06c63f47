"""Items for somebody who is asked to name a few favourites first: well known, and as different as possible."""

from weakref import WeakKeyDictionary

import numpy as np

from igcf.arrays import FloatArray
from igcf.service.serving.served_model import ServedModel

POPULAR_SHARE = 0.25
FEWEST_POPULAR, MOST_POPULAR = 60, 400
LONGEST = 48
_known: "WeakKeyDictionary[ServedModel, list[int]]" = WeakKeyDictionary()


def starting_rows(served: ServedModel, k: int) -> list[int]:
    """Choose `k` rows, at most `LONGEST`: the first ones of an order that is computed once per model."""
    found = _known.get(served)
    if found is None:
        found = _known[served] = _spread(served)
    available = served.available()
    return [row for row in found if available is None or available[row]][:k]


def _spread(served: ServedModel) -> list[int]:
    """Order some popular items so that each one tells most about what those before it leave open.

    The liking of the popular items is Gaussian in the population; the next item is the one whose variance is largest
    once those before it are known (a pivoted Cholesky decomposition). No first category comes again before all the
    others had their turn.
    """
    model = served.model
    n_popular = min(model.n_items, max(FEWEST_POPULAR, min(MOST_POPULAR, int(POPULAR_SHARE * model.n_items))))
    rows = served.popular_rows[:n_popular]
    vectors = model.item_vectors[rows].astype(np.float64)
    cov: FloatArray = vectors @ model.prior_cov @ vectors.T
    left = np.diag(cov).copy()
    firsts = [next(iter(served.categories(row)), "") for row in rows.tolist()]
    turns = dict.fromkeys(firsts, 0)
    chosen: list[int] = []
    factors = np.zeros((n_popular, min(LONGEST, n_popular)))
    for step in range(factors.shape[1]):
        fewest = min(turns[name] for place, name in enumerate(firsts) if place not in chosen)
        open_places = [place for place, name in enumerate(firsts) if place not in chosen and turns[name] == fewest]
        best = max(open_places, key=lambda place: left[place])
        chosen.append(best)
        turns[firsts[best]] += 1
        if left[best] > 1e-12:
            factors[:, step] = (cov[:, best] - factors[:, :step] @ factors[best, :step]) / np.sqrt(left[best])
            left = np.maximum(left - factors[:, step] ** 2, 0.0)
    return [int(rows[place]) for place in chosen]
