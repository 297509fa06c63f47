"""A mixed load: clients in threads, each with users of its own and some that all of them share."""

import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tools.torture import calls
from tools.torture.ledger import Ledger, Reaction
from tools.torture.worlds import N_ITEMS

OWN_USERS, SHARED_USERS = 1, 2
PAUSE_S = 0.002


class Client(threading.Thread):
    """One client: sends what `rng` says, one request after the other, until told to stop."""

    def __init__(
        self, ledger: Ledger, ports: Sequence[int], name: str, rng: random.Random, *, with_skips: bool = True
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._ledger, self._ports, self._rng = ledger, ports, rng
        self._own = [f"{name}-{number}" for number in range(OWN_USERS)]
        self._shared = [f"all-{number}" for number in range(SHARED_USERS)]
        self._with_skips = with_skips
        self._n = 0
        self.stopping = threading.Event()

    def run(self) -> None:
        """Send requests; whatever goes wrong is for the ledger."""
        try:
            n_lost = 0
            while not self.stopping.wait(PAUSE_S * self._rng.random() * (50 if self._ledger.n_lost > n_lost else 1)):
                n_lost = self._ledger.n_lost
                self._act(self._rng.choice(self._ports))
        except Exception as error:
            self._ledger.complain(f"a client failed: {type(error).__name__}: {error}")
            raise

    def _act(self, port: int) -> None:
        ledger, rng = self._ledger, self._rng
        user, kind = rng.choice(self._own), rng.random()
        if kind < 0.45:
            reaction = self._reaction(user)
            if calls.react(ledger, port, reaction) is None and rng.random() < 0.5:
                calls.react(ledger, rng.choice(self._ports), reaction)  # a client that does not wait for the repair
        elif kind < 0.60:
            calls.react(ledger, port, self._reaction(rng.choice(self._shared)))
        elif kind < 0.75:
            calls.recommend(ledger, port, user)
        elif kind < 0.84:
            users = [rng.choice([*self._own, *self._shared]) for _ in range(rng.randint(2, 5))]
            calls.react_batch(ledger, port, [self._reaction(each) for each in users])
        elif kind < 0.90:
            calls.react(ledger, port, self._reaction(user, evidence="skip" if self._with_skips else "shown"))
        elif kind < 0.95:
            self._take_back(port, user)
        elif kind < 0.98:
            calls.add_history(ledger, port, [self._reaction(user, evidence="logged") for _ in range(3)])
        else:
            calls.delete_user(ledger, port, user)
            self._n += 1
            self._own = [each if each != user else f"{self.name}-{self._n}new" for each in self._own]

    def _take_back(self, port: int, user: str) -> None:
        known = [each for each in self._ledger.of(user) if each.is_acknowledged and each.is_taken_back is False]
        if known:
            calls.take_back(self._ledger, port, self._rng.choice(known))

    def _reaction(self, user: str, evidence: str = "shown") -> Reaction:
        self._n += 1
        # Logged reactions have items of their own: one that comes again after having been shown counts differently.
        half, first = N_ITEMS // 2, N_ITEMS // 2 if evidence == "logged" else 0
        value = None if evidence == "skip" else float(self._rng.randint(1, 5))
        item = f"item-{first + self._rng.randrange(half)}"
        reaction = Reaction(user, f"{self.name}-e{self._n}", item, value, evidence)
        self._ledger.add(reaction)
        return reaction


@contextmanager
def clients(
    ledger: Ledger, ports: Sequence[int], name: str, rng: random.Random, *, n: int = 6, with_skips: bool = True
) -> Iterator[None]:
    """Have `n` clients at work during the block; at its end they finish what they have begun."""
    found = [
        Client(ledger, ports, f"{name}c{number}", random.Random(rng.getrandbits(64)), with_skips=with_skips)
        for number in range(n)
    ]
    for client in found:
        client.start()
    try:
        yield
    finally:
        for client in found:
            client.stopping.set()
        deadline = time.monotonic() + 2 * calls.TIMEOUT_S
        for client in found:
            client.join(max(0.1, deadline - time.monotonic()))
            if client.is_alive():
                ledger.complain(f"client {client.name} waits for an answer without end")
