"""The inner loops of the online phase in NumPy: what `igcf.online.backend.Backend` asks for."""

from igcf.online.backend.numpy_beliefs import update_belief, update_beliefs
from igcf.online.backend.numpy_items import (
    expected_rewards,
    observe_and_rescore,
    rescore_users,
    reward_variances,
    variances_of,
)
from igcf.online.backend.numpy_selection import describe, select_bounded, select_tracked, select_users

NAME = "numpy"

__all__ = [
    "NAME",
    "describe",
    "expected_rewards",
    "observe_and_rescore",
    "rescore_users",
    "reward_variances",
    "select_bounded",
    "select_tracked",
    "select_users",
    "update_belief",
    "update_beliefs",
    "variances_of",
]
