"""What goes into a session and what comes out of it: reactions, recommendations, explanations."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from igcf.online.belief import Belief
from igcf.online.evidence import LoggedBelief
from igcf.tables import MOST_ROWS, html_card, percent

Reaction = tuple[str, float | None]
"""An item id and a value in the units of the log; None: the item was shown and drew no reaction."""


class Past(NamedTuple):
    """What is known of a user before a session: reactions of both kinds, and what they led to where that is known."""

    history: list[Reaction]
    logged: list[Reaction]
    until: int | None
    belief: Belief | LoggedBelief | None
    attributes: Mapping[str, Any] | None = None
    contexts: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
    """Contexts in which reactions of the history were made, by item id."""


class Recommendation(NamedTuple):
    """One recommended item; `mean` and `std` are in reward units, `score` is what the policy ranked by.

    Example:
        With the model of the example of `igcf.Model`:

        >>> pick = igcf.Recommender(model).session().recommend()[0]
        >>> pick.item_id, pick.rank, round(pick.mean, 2), round(pick.std, 2)
        ('tea', 1, 0.6, 1.0)
    """

    item_id: str
    score: float
    mean: float
    std: float
    rank: int
    mean_rank: int
    """The rank that `mean` alone would have given it: further down than `rank` means shown in order to learn."""
    chance: float = math.nan
    """Probability that the user is satisfied if they react to the item; of a reaction, where every one is a success."""
    low: float = math.nan  # lower and
    high: float = math.nan  # upper end of the chance's 80 % interval
    propensity: float = math.nan
    """Probability that this slot showed this item, given the items above it; NaN: not known, or kept in reserve."""
    propensity_error: float = math.nan
    """Standard error of the propensity where it is estimated; 0: it is exact."""
    slot_propensity: float = math.nan
    """Probability that this slot showed this item, whatever stood above it; NaN: not known."""


class Recommendations(list[Recommendation]):
    """A list of recommendations that notebooks show as a table."""

    def _repr_html_(self) -> str:
        rows = ((one.rank, one.item_id, percent(one.chance, one.low, one.high), one.mean, one.std) for one in self)
        header = ("rank", "item", "chance (80 % interval)", "expected", "std")
        return html_card(f"{len(self)} recommendation{'s' if len(self) != 1 else ''}", header, rows)


@dataclass(frozen=True)
class Contribution:
    """Contribution of one past reaction to the expected reward of an item.

    Example:
        With the model of the example of `igcf.Model`:

        >>> session = igcf.Recommender(model).session(history=[("tea", 1.0)])
        >>> part = session.explain("juice").contributions[0]
        >>> part.item_id, part.value, round(part.amount, 2)
        ('tea', 1.0, 0.18)
    """

    item_id: str
    value: float | None
    amount: float


@dataclass(frozen=True)
class AttributeContribution:
    """What one attribute of the user adds to the expected reward of an item."""

    name: str
    value: Any
    amount: float


@dataclass(frozen=True)
class Explanation:
    """Parts of an expected reward: prior, attributes, contributions and absence sum exactly to `mean`.

    Example:
        With the model of the example of `igcf.Model`:

        >>> session = igcf.Recommender(model).session(history=[("tea", 1.0), ("coffee", 0.0)])
        >>> why = session.explain("juice")
        >>> round(why.prior, 2), [round(part.amount, 2) for part in why.contributions], round(why.mean, 2)
        (0.5, [0.18, -0.18], 0.5)
    """

    item_id: str
    prior: float
    contributions: tuple[Contribution, ...]  # of the shown reactions, oldest first
    mean: float
    std: float
    logged: tuple[Contribution, ...] = ()  # of the logged reactions
    absence: float = 0.0
    """What it adds that all other items are absent from the logged record."""
    chance: float = math.nan
    """Probability that the user is satisfied if they react to the item."""
    low: float = math.nan
    high: float = math.nan
    """Ends of the chance's 80 % interval."""
    attributes: tuple[AttributeContribution, ...] = ()
    """Of the user's known attributes."""

    def _repr_html_(self) -> str:
        """Show the parts of the expectation in a notebook, the largest reactions first."""
        parts = sorted((*self.contributions, *self.logged), key=lambda part: -abs(part.amount))
        rows: list[tuple[str, object, str]] = [("what people think of it", None, f"{self.prior:+.3f}")]
        rows += [(part.name, part.value, f"{part.amount:+.3f}") for part in self.attributes]
        rows += [(part.item_id, part.value, f"{part.amount:+.3f}") for part in parts[:MOST_ROWS]]
        if self.absence:
            rows.append(("other items are absent from the log", None, f"{self.absence:+.3f}"))
        rows.append(("expectation", None, f"{self.mean:.3f} ± {self.std:.3f}"))
        title = f"Why {self.item_id}: {percent(self.chance, self.low, self.high)}".rstrip(": ")
        return html_card(title, ("because of", "reaction", "adds"), rows, len(parts) - MOST_ROWS)
