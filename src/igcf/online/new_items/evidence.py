"""Evidence about one new item: one voice per user, and a fair draw of those who count where there are many."""

from collections.abc import Hashable
from dataclasses import replace
from hashlib import blake2b

from igcf.model.new_items import ItemEvidence, UserEvidence

LARGEST_NUMBER = 2**64
UNKNOWN_WEIGHT = 0.25
"""Weight of the reaction of a user about whom nothing else is known."""
PROMOTED_FROM = 10
"""An item is settled for good when about this many times as many users have reacted to it as are counted."""


def user_number(user: Hashable, item_id: str) -> int:
    """Return the number drawn for a user's reaction to an item: a hash of both, uniform from 0 to 2^64."""
    return int.from_bytes(blake2b(f"{user!r}\0{item_id}".encode(), digest_size=8).digest())


def weight_of(n_known: int, n_full: int) -> float:
    """Return the weight of a reaction of a user with so many others; from `n_full` others on it is 1."""
    share = 1.0 if n_known >= n_full else n_known / n_full
    return UNKNOWN_WEIGHT + (1.0 - UNKNOWN_WEIGHT) * share


def with_contribution(
    evidence: ItemEvidence, number: int, contribution: UserEvidence | None, most: int
) -> ItemEvidence:
    """Return the evidence after the reaction of the user with this number, instead of any before; None takes it back.

    At most `most` users count, those with the smallest numbers: a fair draw that does not depend on who came first.
    """
    if evidence.settled is not None or (contribution is None and number not in evidence.contributions):
        return evidence
    own = {key: value for key, value in evidence.contributions.items() if key != number}
    if contribution is not None:
        own[number] = contribution
    if len(own) > most:
        del own[max(own)]
        if number not in own:
            return evidence
    return replace(evidence, contributions=own)


def is_final(evidence: ItemEvidence, most: int) -> bool:
    """Whether so many users have reacted to the item that further ones would hardly change the draw.

    The largest of the `most` smallest numbers says how many were drawn: with n users it is about most / n.
    """
    own = evidence.contributions
    return len(own) >= most and max(own) < LARGEST_NUMBER // PROMOTED_FROM
