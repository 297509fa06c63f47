"""A small log with times and categories, big enough for every protocol."""

from functools import cache

from igcf.data import Interactions, synthetic_catalogue
from igcf.lab.evaluate import Setup, setup_for


@cache
def log() -> Interactions:
    return synthetic_catalogue(n_users=160, n_items=120, seed=0)


def setup(protocol: str = "cold-start", **changes: object) -> Setup:
    options: dict[str, object] = {"n_users": 12, "min_reactions": 20, "rounds": 12, **changes}
    return setup_for(log(), protocol, **options)


FAST = ("random", "pop", "pca-gp")
