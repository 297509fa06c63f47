"""How a reaction in the units of the log becomes the number that a model is trained on and updated with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import EllipsisType
from typing import cast, get_args

import numpy as np
import numpy.typing as npt

from igcf.arrays import BoolArray, FloatArray
from igcf.config import RewardKind as RewardKind
from igcf.errors import ConfigError, FeedbackError, quoted

KINDS: tuple[RewardKind, ...] = get_args(RewardKind)
NO_NUMBERS = (bool, np.bool_)  # although a bool is an int
NUMBERS = (float, int, np.integer, np.floating)


@dataclass(frozen=True)
class Reward:
    """Maps a value to a reward; a shown item without any reaction (NaN) has reward 0.

    `raw` is the value itself, `scaled` divides by the log's largest absolute value, `satisfied` is
    1[value >= threshold], `exposed` is 1 for any reaction at all, `liked` is 1[value >= threshold] of a reaction and,
    without one, unknown. Where every reaction of the log is a success (`is_implicit`), a value below all of them is
    evidence against the item, like no reaction: it counts as one that was shown and not chosen.

    Example:
        >>> import igcf
        >>> reward = igcf.model.Reward("satisfied", threshold=4.0, low=1.0, high=5.0)
        >>> reward.of([5.0, 3.0, float("nan")]).tolist()
        [1.0, 0.0, 0.0]
    """

    kind: RewardKind
    threshold: float
    """A reaction of at least this value is a success, whatever the kind."""
    low: float
    """Smallest value in the log."""
    high: float
    """Largest value in the log."""

    def __post_init__(self) -> None:
        """Refuse an unknown kind and an empty range."""
        if self.kind not in KINDS:
            raise ConfigError(f"reward must be one of {', '.join(KINDS)}, got {self.kind!r}")
        if not (np.isfinite([self.threshold, self.low, self.high]).all() and self.low <= self.high):
            raise ConfigError(f"reward needs finite low <= high and threshold, got {self}")

    @classmethod
    def from_log(cls, values: npt.NDArray[np.floating], kind: RewardKind, threshold: float) -> "Reward":
        """Build the reward of a log with these values; `igcf.data.success_in` chooses the threshold."""
        low, high = (float(np.nanmin(values)), float(np.nanmax(values))) if len(values) else (0.0, 1.0)
        return cls(kind, float(threshold), low, high)

    @cached_property
    def is_implicit(self) -> bool:
        """Whether every reaction of the log is a success."""
        return self.threshold <= self.low

    @cached_property
    def scale(self) -> float:
        """Number that `scaled` divides by: the largest absolute value of the log."""
        return max(abs(self.low), abs(self.high)) or 1.0

    def of(self, values: npt.ArrayLike) -> FloatArray:
        """Return one reward per value; an item shown without a reaction (NaN) gives 0, or NaN, unknown, for `liked`."""
        value = np.asarray(values, dtype=np.float64)
        if self.is_implicit:
            value = np.where(value >= self.low, value, np.nan)
        if self.kind == "liked":
            return np.where(np.isnan(value), np.nan, value >= self.threshold)
        if self.kind == "satisfied":
            return (value >= self.threshold).astype(np.float64)
        if self.kind == "exposed":
            return np.asarray(value == value, dtype=np.float64)  # 0 for NaN
        reward = np.nan_to_num(value, nan=0.0)
        return reward / self.scale if self.kind == "scaled" else reward

    def of_one(self, value: float) -> float:
        """Return the reward of one value, without an array."""
        if value != value or (self.is_implicit and value < self.low):  # NaN is not itself
            return float("nan") if self.kind == "liked" else 0.0
        if self.kind in ("liked", "satisfied"):
            return float(value >= self.threshold)
        return {"exposed": 1.0, "scaled": value / self.scale}.get(self.kind, value)

    def is_satisfied(self, values: npt.ArrayLike) -> BoolArray:
        """Return whether each value is a success; NaN never is."""
        return np.asarray(np.asarray(values, dtype=np.float64) >= (self.low if self.is_implicit else self.threshold))

    def checked(self, value: object) -> float:
        """Return a value as a float (None, shown without a reaction, becomes NaN); an invalid one is an error."""
        if value is None:
            return float("nan")
        if type(value) is float and self.least <= value <= self.high:
            return value
        if isinstance(value, NO_NUMBERS) or not isinstance(value, NUMBERS):
            raise FeedbackError(f"value {quoted(value)} is a {type(value).__name__}; {self._expected}")
        try:
            number = float(value)
        except OverflowError:  # an int beyond the range of floats
            number = float("inf")
        if not self.least <= number <= self.high:  # also refuses NaN
            scale = f"{self.least:g} to {self.high:g}"
            raise FeedbackError(f"value {number:g} is outside the scale of the log, {scale}; pass a value from {scale}")
        return number

    def checked_all(self, values: Sequence[object]) -> list[float]:
        """`checked` of each; plain floats, as in any stored history, are checked at once."""
        if set(map(type, values)) == {float}:
            numbers = cast("list[float]", list(values))
            if not np.isnan(sum(numbers)) and self.least <= min(numbers) and max(numbers) <= self.high:
                return numbers
        return [self.checked(value) for value in values]

    @cached_property
    def least(self) -> float:
        """Smallest value of a reaction: that of the log, or 0 where every reaction of the log is a success."""
        return min(self.low, 0.0) if self.is_implicit else self.low

    @property
    def _expected(self) -> str:
        return f"expected a number like those of the log, {self.least:g} to {self.high:g}"


def reaction_value(
    reward: Reward, kinds: Mapping[str, float], value: "float | EllipsisType | None", kind: str | None
) -> float:
    """Return the value of a reaction as the belief learns it, or refuse it; see `Model.reaction_value`."""
    if kind is not None:
        if value is not ...:
            raise FeedbackError(f"the reaction has a kind, {kind!r}, and a value, {value!r}; give one of them")
        if kind not in kinds:
            known = f"known are {', '.join(map(repr, kinds))}" if kinds else "this model has no kinds"
            raise FeedbackError(f"kind {kind!r} is not known; {known}")
        return reward.checked(kinds[kind])
    if value is not ...:
        return reward.checked(value)
    if not reward.is_implicit:
        raise FeedbackError(
            f"the reaction has no value; expected a number like those of the log, {reward.low:g} to {reward.high:g}, "
            "or None for shown without a reaction"
        )
    return reward.high
