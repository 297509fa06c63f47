"""How much new items are tried, and the account of what that costs."""

import math
from dataclasses import dataclass

from igcf.errors import ConfigError

WEIGHT = 50.0
"""Expected rewards that count as come true before the first reaction, where the price of trials is counted."""
MEMORY = 12_000
"""Answers after which what was saved for trials is forgotten, so that it is not spent on a few users at once."""


@dataclass(frozen=True)
class Exposure:
    """How much new items are tried, beyond being shown where they are expected to please most."""

    share: float = 0.3
    """Largest share of the items shown to a user that are trials."""
    price: float = 0.01
    """Largest share of what the other items would have brought that new items may cost, all users together: trials are
    paid for by this and by what new items bring. At 1 trials are not counted."""
    most: int = 50
    """Largest number of trials of an item: it is judged then."""
    known: int = 10
    """Number of reactions of a user before they are asked to try anything: what they say then tells more."""
    fit: float = 0.4
    """How much more than of the population the user must be expected to like the item if it is a good one, in standard
    deviations of the population."""
    doubt: float = 0.002
    """Probability of a class of items below which an item is no longer tried in the hope that it belongs to it."""
    turn: float = 0.02
    """How much more an item must be hoped for than another one to be tried before it, per reaction that it had more."""
    horizon: int = 30
    """Items that a user will still be shown: one that gives way is shown later, and the last of these is lost."""
    caution: float = 1.15
    """How much more than expected a known item that gives way counts as bringing: what is given up is estimated, and
    users of whom less is learned on new items are served a little worse afterwards."""
    settled: int = 200
    """Reactions after which an item is settled: it is then learned no further."""

    def __post_init__(self) -> None:
        """Refuse what is no share or no number."""
        for name in ("share", "price", "doubt"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"{name} must lie between 0 and 1, got {getattr(self, name)}")
        if min(self.most, self.known, self.turn) < 0 or min(self.settled, self.horizon) < 1 or self.fit != self.fit:
            raise ConfigError(
                f"most, known and turn must not be negative, settled and horizon at least 1, fit a number, got {self}"
            )
        if not 0 < self.caution < math.inf:
            raise ConfigError(f"caution must be a positive number, got {self.caution}")


class Account:
    """What may be spent on trials, in rewards of all users together.

    It takes in the price, a share of what known items bring, and what new items bring, and pays for the known items
    that are not shown because of new ones.
    """

    def __init__(self, price: float, caution: float = 1.0) -> None:
        self._price, self._caution = price, caution
        self.balance = 0.0
        self._came, self._expected = WEIGHT, WEIGHT  # of known items

    def copy(self) -> "Account":
        """Return an account that goes on from here."""
        other = Account(self._price, self._caution)
        other.balance, other._came, other._expected = self.balance, self._came, self._expected
        return other

    def note_known(self, expected: float, reward: float) -> None:
        """Note what was expected of a known item, and what it brought."""
        self._came += reward
        self._expected += expected

    def note_new(self, reward: float) -> None:
        """Note what a new item brought, whether it was shown for its merit or tried."""
        self.balance += reward

    def begin(self, n_answers: int, expected_of_known: float, given_up: float) -> None:
        """Begin some answers: what is expected of their known items, and of those that gave way to new ones."""
        if self.balance > 0:
            self.balance *= max(0.0, 1.0 - n_answers / MEMORY)
        self.balance += self._scale * (self._price * expected_of_known - self._caution * given_up)

    def pay(self, given_up: float) -> bool:
        """Pay for a trial, if there is enough for it."""
        cost = self._scale * self._caution * max(given_up, 0.0)
        if self._price < 1 and (self.balance <= 0 or cost > self.balance):
            return False
        self.balance -= cost
        return True

    @property
    def _scale(self) -> float:
        """Rewards per expected reward: what is shown is chosen for being expected to please, which overrates it."""
        return max(self._came, 0.0) / self._expected if self._expected > 0 else 1.0
