"""The requests that change something, each prepared first and sent when the trap is set."""

from collections.abc import Callable

from tools.torture import calls
from tools.torture.ledger import Ledger, Reaction

Send = Callable[[], object]
Prepare = Callable[[Ledger, int, str], Send]
"""From the ledger, a port and a name for the user to what sends the request."""


def first_reaction(ledger: Ledger, port: int, user: str) -> Send:
    """React for the first time."""
    return lambda: calls.react(ledger, port, _reaction(ledger, user, 0))


def further_reaction(ledger: Ledger, port: int, user: str) -> Send:
    """React to one more item; the session is in memory."""
    calls.react(ledger, port, _reaction(ledger, user, 0))
    calls.recommend(ledger, port, user)
    return lambda: calls.react(ledger, port, _reaction(ledger, user, 1))


def batch(ledger: Ledger, port: int, user: str) -> Send:
    """React for three users at once, one of them twice."""
    users = [user, f"{user}-b", f"{user}-c", user]
    return lambda: calls.react_batch(ledger, port, [_reaction(ledger, each, n) for n, each in enumerate(users)])


def skip(ledger: Ledger, port: int, user: str) -> Send:
    """Put an item aside."""
    calls.react(ledger, port, _reaction(ledger, user, 0))
    return lambda: calls.react(ledger, port, _reaction(ledger, user, 1, "skip"))


def retraction(ledger: Ledger, port: int, user: str) -> Send:
    """Take a reaction back."""
    reactions = [_reaction(ledger, user, n) for n in range(2)]
    for reaction in reactions:
        calls.react(ledger, port, reaction)
    return lambda: calls.take_back(ledger, port, reactions[0])


def history(ledger: Ledger, port: int, user: str) -> Send:
    """Tell what a user did elsewhere."""
    calls.react(ledger, port, _reaction(ledger, user, 0))
    return lambda: calls.add_history(ledger, port, [_reaction(ledger, user, n, "logged") for n in range(200, 203)])


def deletion(ledger: Ledger, port: int, user: str) -> Send:
    """Delete a user."""
    calls.react(ledger, port, _reaction(ledger, user, 0))
    return lambda: calls.delete_user(ledger, port, user)


OPERATIONS: dict[str, Prepare] = {
    "first reaction": first_reaction,
    "further reaction": further_reaction,
    "batch": batch,
    "skip": skip,
    "retraction": retraction,
    "history": history,
    "deletion": deletion,
}


def _reaction(ledger: Ledger, user: str, number: int, evidence: str = "shown") -> Reaction:
    value = None if evidence == "skip" else float(1 + number % 5)
    reaction = Reaction(user, f"{user}-e{number}", f"item-{number}", value, evidence)
    ledger.add(reaction)
    return reaction
