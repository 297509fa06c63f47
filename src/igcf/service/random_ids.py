"""Ids that nobody can guess, drawn from the system's random numbers many at a time.

Asking the system gives the interpreter's lock away, which a busy thread then has to wait for: with every request that
costs more than the rest of making an id.
"""

import os

AT_ONCE = 256
_BYTES = 16
_waiting: list[str] = []
os.register_at_fork(after_in_child=_waiting.clear)  # no two processes hand out the same


def new_id() -> str:
    """Return 32 hexadecimal digits that were never returned before."""
    while True:
        try:
            return _waiting.pop()
        except IndexError:  # several threads may draw at once; all that is drawn is used
            drawn = os.urandom(_BYTES * AT_ONCE).hex()
            _waiting.extend(drawn[start : start + 2 * _BYTES] for start in range(0, len(drawn), 2 * _BYTES))
