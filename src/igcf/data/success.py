"""What counts as a success: decided for every scale by one rule, and always said."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from igcf.arrays import Float32Array, FloatArray, IntArray
from igcf.data.interactions import Interactions
from igcf.data.registry import known_dataset
from igcf.errors import DataError

EVEN_SHARE = 0.5
"""Share of successes that is aimed at: the nearer, the more informative a reaction."""
LEAST_UPPER_SHARE = 0.1
"""Where the upper half of the scale holds fewer reactions than this, it is a scale of counts or durations."""
SCARCE = 0.02
"""A share of successes below this, or above 1 minus this, is warned about."""
MANY_VALUES = 100
"""With more distinct values than this the threshold is rounded to two digits."""
ROUNDING_SHARE = 0.02
"""Largest change of the share of successes that rounding may make."""


@dataclass(frozen=True)
class Success:
    """Threshold of success of a log, and the number of reactions that reach it."""

    threshold: float
    """A reaction of at least this value is a success."""
    n_successes: int
    n_reactions: int
    n_unrated: int = 0
    """Reactions without an opinion, which are not among `n_reactions`."""
    typical: tuple[float, ...] = ()
    """Quartiles of the values below the threshold, and of those from it on: two ordinary failures, two successes."""

    @property
    def share(self) -> float:
        """Share of the reactions that are successes."""
        return self.n_successes / self.n_reactions

    @property
    def is_implicit(self) -> bool:
        """Whether every reaction is a success, so that only the choice of items is evidence of taste."""
        return self.n_successes == self.n_reactions

    @property
    def sentence(self) -> str:
        """One line for people: `satisfied: value >= 4, 575,281 of 1,000,209 reactions (57.5 %)`."""
        what = "every reaction" if self.is_implicit else f"value >= {_number(self.threshold)}"
        text = f"satisfied: {what}, {self.n_successes:,} of {self.n_reactions:,} reactions ({_percent(self.share)})"
        return f"{text}; {self.n_unrated:,} more without an opinion" if self.n_unrated else text

    @property
    def warning(self) -> str | None:
        """One line of advice if hardly any or nearly every reaction is a success; None otherwise."""
        if self.is_implicit or SCARCE <= self.share <= 1.0 - SCARCE:
            return None
        how = "only" if self.share < SCARCE else "as many as"
        return f"{how} {_percent(self.share)} of the reactions are successes; pass satisfied= to choose another value"

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON and for the metadata of a model."""
        counts = {"successes": self.n_successes, "reactions": self.n_reactions, "unrated": self.n_unrated}
        said = {"share": self.share, "implicit": self.is_implicit, "sentence": self.sentence}
        return {"satisfied": self.threshold, **counts, **said, "typical": list(self.typical)}


def levels_of(values: Float32Array) -> tuple[Float32Array, IntArray]:
    """Return the distinct values, ascending and NaN last, and how often each occurs."""
    import polars as pl

    found = pl.Series("level", values).value_counts().sort("level")  # np.unique would sort all values
    return found["level"].to_numpy(), found["count"].to_numpy().astype(np.int64)


def success_in(
    data: Interactions, satisfied: float | None = None, *, levels: tuple[Float32Array, IntArray] | None = None
) -> Success:
    """Choose the threshold of success of a log, or check the one that is given.

    A data set that igcf knows by name has its documented threshold. For any other log:

    - One distinct value: implicit feedback, every reaction is a success.
    - Otherwise, of the values above the middle of the range, the one that divides the reactions most evenly.
    - Where less than a tenth of the reactions reaches it (counts, durations), the same among all values above the
      smallest; that is the median. With more than a hundred distinct values it is rounded to two digits.

    Args:
        data: The log.
        satisfied: The threshold, if the caller has one; an error if no reaction reaches it, or all do.
        levels: Distinct values of the log and their counts, if known (`levels_of`).
    """
    levels32, counts = levels_of(data.values) if levels is None else levels
    info = known_dataset(data)
    if satisfied is None and info is not None and len(levels32) > 1:
        satisfied = info.satisfied
    values = levels32.astype(np.float64)
    is_known = ~np.isnan(values)
    n_unrated = int(counts[~is_known].sum())
    values, counts = values[is_known], counts[is_known]
    n_reactions = int(counts.sum())
    if not n_reactions:
        raise DataError("there is no reaction, so what is a success cannot be found", kind="no-success")
    reached = counts[::-1].cumsum()[::-1]
    if len(values) == 1 and (satisfied is None or satisfied <= values[0]):
        return Success(float(values[0]), n_reactions, n_reactions, n_unrated)
    threshold = _even_threshold(values, reached) if satisfied is None else float(satisfied)
    n = int(reached[values >= threshold][0]) if threshold <= values[-1] else 0
    if n in (0, n_reactions):
        raise DataError(
            f"{'no' if n == 0 else 'every'} reaction has a value of at least {threshold:g}, so there is nothing to "
            f"learn; the values lie between {values[0]:g} and {values[-1]:g}; pass another satisfied=",
            kind="no-success",
        )
    return Success(threshold, n, n_reactions, n_unrated, _typical(values, counts, threshold))


def unrated_spike(levels: Float32Array, counts: IntArray, column: str) -> tuple[str, int] | None:
    """Find a value that may stand for no opinion: 0 or less below a graded scale, or a value far above it.

    It must be far from the others, or at least twice as frequent as its neighbour where the others do not become more
    frequent towards it, as counts do.

    Args:
        levels: Distinct values, ascending.
        counts: Number of each.
        column: Name of their column.

    Returns:
        What to say about it, and how often it occurs; None if the scale has no such spike.
    """
    counts = counts.astype(np.int64)  # products of what polars counts in 32 bits would overflow
    for place, others in ((0, slice(1, None)), (-1, slice(None, -1))):
        value, rest, n = float(levels[place]), levels[others], counts[others]
        if not 3 <= len(rest) <= MANY_VALUES or (place == 0 and (value > 0 or rest[0] <= 0)):
            continue
        spread, gap = float(rest[-1] - rest[0]), abs(value - float(rest[place]))
        is_far = gap > (1.5 * float(np.diff(rest).min()) if place == 0 else 2.0 * spread)
        # counts that fall from level to level need no explanation, unless they fall much faster here than after it
        is_steep = counts[0] * n[1] >= 2 * n[0] * n[0]
        is_spike = counts[0] >= 2 * n[0] and (is_steep or int(n.argmax()) > 0)
        if is_far if place == -1 else is_spike or (is_far and counts[place] >= n.min()):
            share = _percent(float(counts[place] / counts.sum()))
            message = (
                f"{column!r} is {_number(value)} in {share} of the rows, beside a scale of "
                f"{_number(float(rest[0]))} to {_number(float(rest[-1]))}; if it means not rated, say unrated= "
                f"{_number(value)}: such a reaction is then no opinion, and no dislike"
            )
            return message, int(counts[place])
    return None


def _typical(levels: FloatArray, counts: IntArray, threshold: float) -> tuple[float, ...]:
    """Return the first and third quartile of the values below the threshold, and of the others."""
    found: list[float] = []
    for part in (levels < threshold, levels >= threshold):
        cumulated = counts[part].cumsum()
        found += levels[part][np.searchsorted(cumulated, [0.25 * cumulated[-1], 0.75 * cumulated[-1]])].tolist()
    return tuple(found)


def _even_threshold(levels: FloatArray, reached: IntArray) -> float:
    """Return the rule's threshold from the sorted distinct values and the numbers of reactions from each on."""
    shares = reached / reached[0]

    def most_even(places: IntArray) -> int:  # of equally near ones the last, which is the highest value
        backwards = places[::-1]
        return int(backwards[np.abs(shares[backwards] - EVEN_SHARE).argmin()])

    above = np.arange(1, len(levels))  # from the smallest value on all would be successes
    chosen = most_even(above[levels[above] > (levels[0] + levels[-1]) / 2])
    if shares[chosen] < LEAST_UPPER_SHARE:
        chosen = most_even(above)
    threshold = float(levels[chosen])
    if len(levels) > MANY_VALUES:
        rounded = float(f"{threshold:.2g}")
        place = int(np.searchsorted(levels, rounded))
        if 0 < place < len(levels) and abs(shares[place] - shares[chosen]) <= ROUNDING_SHARE:
            threshold = rounded
    return threshold


def _number(value: float) -> str:
    """Write a threshold as a person would: 4, 1.5, 240, 530,309."""
    return f"{value:,.0f}" if value == round(value) else f"{value:.6g}"


def _percent(share: float) -> str:
    """Write a share in percent with as many digits as it needs to be neither 0 nor 100."""
    text = f"{100 * share:.1f}"
    if share < 1 and text in ("0.0", "100.0"):
        text = f"{100 * share:.3g}" if share < 0.5 else f"{100 * share:.6g}"
    return f"{'100' if share == 1 else text} %"
