"""A world with a known answer: even users like even items, odd users like odd ones."""

import numpy as np

from igcf.arrays import Float32Array
from igcf.data import Interactions
from igcf.lab.baselines import Task

N_ITEMS = 24


def checkerboard(n_users: int, *, seed: int, share: float = 0.6) -> Interactions:
    """A log in which every user rated about `share` of the items: 4 or 5 if the parities agree, otherwise 1 or 2."""
    rng = np.random.default_rng(seed)
    user, item = np.divmod(np.arange(n_users * N_ITEMS), N_ITEMS)
    stars = np.where(user % 2 == item % 2, 4, 1) + rng.integers(0, 2, len(user))
    seen = (rng.random(len(user)) < share) | (user == 0)  # the first user rates all, so that every item is known
    return Interactions(
        user_ids=tuple(f"u{seed}-{number}" for number in range(n_users)),
        item_ids=tuple(f"i{number}" for number in range(N_ITEMS)),
        user_idx=user[seen].astype(np.int32),
        item_idx=item[seen].astype(np.int32),
        values=stars[seen].astype(np.float32),
        timestamps=rng.integers(0, 1000, int(seen.sum())),
    )


def task(rounds: int = 12, slate: int = 1) -> Task:
    """Training and validation users of the checkerboard."""
    return Task(checkerboard(60, seed=1), 4.0, rounds, slate, (checkerboard(20, seed=2),))


def complete_truth(n_users: int = 10) -> Float32Array:
    """Test users who react to every item."""
    return checkerboard(n_users, seed=3, share=1.0).dense()
