"""Items in NumPy: means and variances after an update, the best available ones, and chances of a few."""

import numpy as np
import numpy.typing as npt

from igcf.arrays import AnyFloatArray, BoolArray, FloatArray, IntArray
from igcf.model.channel import activations, expectation, gradients, sigmoid
from igcf.online.backend.numpy_beliefs import USERS, update_in_turn
from igcf.online.backend.types import (
    Arrays,
    Block,
    BlockRewards,
    Columns,
    Evidence,
    ItemTerms,
    MakeRng,
    Mixture,
    Moments,
    Selection,
)

CHUNK = 1_024  # items per block when all variances are computed: the product stays in the cache
LEAST = float(np.finfo(np.float32).min)  # any score is at least this; what is not available has less

WIDTH = 1.2815515655446004
"""Standard deviations around the mean within which a normal variable lies with probability 0.8. Native: the same."""
LEVELS = np.array([[0.1], [0.9]])  # ends of that interval as levels, (2, 1)
CLIPPED = 0.005  # smallest and, from 1, largest probability to take the logit of
Triple = tuple[FloatArray, FloatArray, FloatArray]  # chances, lower and upper ends of their intervals, as arrays


def observe_and_rescore(
    mean: FloatArray, cov: FloatArray, row: int, blocks: tuple[Block, ...], rewards: BlockRewards, moments: Moments
) -> None:
    """Update one user's belief by a reaction to the item at `row`, and carry it over to all items, in place.

    With w and step of each channel: c = items w, z += step c, variances -= c c; what rounding leaves below zero
    becomes zero. `rewards` has one per block and channel of it; NaN reveals nothing. `moments` are arrays of shape
    (items,); none where they are not kept.
    """
    for block, own_rewards in zip(blocks, rewards, strict=True):
        x = np.array([vectors[row] for vectors in block.vectors], dtype=np.float64)
        noise = np.array([each[row] for each in block.noise])
        span = slice(block.start, block.start + x.shape[1])
        evidence = Evidence(x, np.array(own_rewards), noise, block.is_logit)
        w, steps = update_in_turn(mean[span], cov[span, span], evidence)
        for place, items in zip(block.places, block.items, strict=True) if moments.z else ():
            z, variances = moments.z[place], moments.variances[place]
            products = items @ w.T.astype(items.dtype)  # (items, channels)
            z += products @ steps.astype(items.dtype)
            variances -= np.einsum("nc,nc->n", products, products)
            np.maximum(variances, 0.0, out=variances)


def rescore_users(products: AnyFloatArray, steps: FloatArray, z: AnyFloatArray, variances: AnyFloatArray) -> None:
    """Carry one update of each of many users over to all items, in place; `products` = w items' is overwritten.

    All but `steps` (users,) are of shape (users, items).
    """
    own_steps = steps[:, None].astype(z.dtype)
    for first in range(0, len(products), USERS):
        part = slice(first, first + USERS)
        c = products[part]
        z[part] += c * own_steps[part]
        c *= c
        variances[part] -= c
        np.maximum(variances[part], 0.0, out=variances[part])


def variances_of(items: AnyFloatArray, cov: FloatArray, rows: IntArray | None = None) -> AnyFloatArray:
    """The variance x' cov x of all items, or of those at `rows`, in the precision of the items (items, d)."""
    own_cov = cov.astype(items.dtype)
    variances = np.empty(len(items) if rows is None else len(rows), dtype=items.dtype)
    for start in range(0, len(variances), CHUNK):
        part = items[start : start + CHUNK] if rows is None else items[rows[start : start + CHUNK]]
        np.einsum("nd,nd->n", part @ own_cov, part, out=variances[start : start + CHUNK])
    return np.maximum(variances, 0.0, out=variances)


def moments_at(
    vectors: AnyFloatArray, rows: IntArray, mean: FloatArray, cov: FloatArray
) -> tuple[AnyFloatArray, AnyFloatArray]:
    """Mean x . mean and variance x' cov x of the items at `rows`, in the precision of the vectors (items, d)."""
    x = vectors[rows]
    return x @ mean.astype(x.dtype), variances_of(x, cov)


def multiply(items: AnyFloatArray, user: AnyFloatArray) -> AnyFloatArray:
    """The products of all item vectors (items, d) with a user's vector (d,), in their precision."""
    return np.asarray(items @ user)


def add_information(
    vectors: AnyFloatArray, noise: FloatArray, rows: IntArray, rewards: FloatArray, sums: FloatArray
) -> None:
    """Add reward x / noise of the items at `rows` to `sums` (d,), in place."""
    sums += (rewards / noise[rows]) @ vectors.take(rows, axis=0)


def expected_rewards(mixture: Mixture, z: Arrays) -> AnyFloatArray:
    """The expected reward from the z of all scored channels, arrays of one shape."""
    model = mixture.model
    return expectation(model.terms, activations(model.channels, dict(zip(model.scored, z, strict=True))))


def reward_variances(mixture: Mixture, z: Arrays, variances: Arrays) -> AnyFloatArray:
    """The variance of the expected reward to first order, from the means and variances of the channels' z.

    Channels that share a block of the user's vector are taken as moving together, which never understates.
    """
    model = mixture.model
    expected = activations(model.channels, dict(zip(model.scored, z, strict=True)))
    slopes = gradients(model.channels, model.terms, expected)
    deviations: dict[int, AnyFloatArray] = {}
    for number, own in zip(model.scored, variances, strict=True):
        part, start = np.sqrt(own) * np.abs(slopes[number]), model.channels[number].start
        deviations[start] = deviations[start] + part if start in deviations else part
    return np.asarray(sum(part * part for part in deviations.values()))


def select_users(
    scores: AnyFloatArray, available: BoolArray, k: int, make_rng: MakeRng
) -> tuple[IntArray, AnyFloatArray]:
    """Select the `k` best available items of each user by `scores` (users, items), best first: rows and scores.

    At least `k` items of every user are available. Ties are broken at random; without them nothing is drawn.
    """
    found = [_best_of(own, is_open, k, make_rng) for own, is_open in zip(scores, available, strict=True)]
    return np.stack([rows for rows, _ in found]), np.stack([best for _, best in found])


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
    above = np.sort(means[available & (means > of.min())])
    return np.asarray(len(above) - above.searchsorted(of, side="right"), dtype=np.int64)


def described(
    rows: IntArray, scores: AnyFloatArray, means: AnyFloatArray, stds: AnyFloatArray, above: IntArray
) -> Selection:
    """Return the columns of some items as lists; ranks by the mean follow from how many lie above it."""
    return Selection(rows.tolist(), scores.tolist(), means.tolist(), stds.tolist(), (above + 1).tolist())


def chances_of_logits(
    rows: list[int], z: AnyFloatArray, variances: AnyFloatArray, slope: float, spread: float, items: ItemTerms
) -> Columns:
    """Chances, lows and highs of a few items from the means and variances (items,) of the logit."""
    chance, low, high = logit_chances(z[rows], variances[rows], slope, spread, items.at(rows))
    return chance.tolist(), low.tolist(), high.tolist()


def logit_chances(m: npt.ArrayLike, v: npt.ArrayLike, slope: float, spread: float, items: ItemTerms) -> Triple:
    """E[sigmoid(a z + offset)] of z ~ N(m, s^2 v), by the probit approximation, and its quantiles."""
    mean, var = np.asarray(m, dtype=np.float64), np.asarray(v, dtype=np.float64)
    middle, of_user = slope * mean + items.offset, (slope * spread) ** 2 * var + items.missing
    chance = sigmoid(middle / np.sqrt(1.0 + np.pi / 8.0 * of_user))
    return chances_around(chance, middle, WIDTH * np.sqrt(of_user + items.own))


def chances_around(chance: FloatArray, middle: FloatArray, half: FloatArray) -> Triple:
    """The chance with the interval of the logits `middle` -+ `half`, widened to contain it."""
    return chance, np.minimum(sigmoid(middle - half), chance), np.maximum(sigmoid(middle + half), chance)


def probability_chances(means: FloatArray, stds: FloatArray, slope: float, shift: float, spread: float) -> Triple:
    """Chances from expected probabilities, which need no further averaging; intervals of a Beta of the same moments."""
    from scipy.special import betaincinv

    p = np.minimum(np.maximum(means, CLIPPED), 1.0 - CLIPPED)
    chance = sigmoid(slope * np.log(p / (1.0 - p)) + shift)
    most = chance * (1.0 - chance)
    variance = np.square(slope * spread * stds * most / (p * (1.0 - p)))
    weight = most / np.minimum(np.maximum(variance, 1e-9 * most), 0.9 * most) - 1.0
    low, high = betaincinv(chance * weight, (1.0 - chance) * weight, LEVELS)
    return chance, np.minimum(low, chance), np.maximum(high, chance)


def value_chances(means: FloatArray, stds: FloatArray, noise: FloatArray, line: float) -> Triple:
    """P(value >= line) of values ~ N(mean, std^2 + noise), with an interval for what is not noise."""
    from scipy.special import ndtr

    chance = ndtr((means - line) / np.sqrt(stds * stds + noise))
    low, high = (ndtr((means + side * WIDTH * stds - line) / np.sqrt(noise)) for side in (-1.0, 1.0))
    return chance, np.minimum(low, chance), np.maximum(high, chance)
