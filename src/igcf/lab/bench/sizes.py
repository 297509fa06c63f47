"""Amounts to measure: everything, or a taste of it for tests."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Sizes and repetitions of all parts."""

    dim: int = 64
    """Size d of the vectors in the online part."""
    items: tuple[tuple[int, int, int], ...] = ((3_706, 12, 100), (100_000, 6, 10), (1_000_000, 4, 4))
    """Catalogue sizes of the single user, each with turns and rounds in a row per turn."""
    textbook_items: int = 100_000
    """Size of the largest catalogue that the textbook way is measured on."""
    indexed: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    """Catalogue sizes of the answers from an index."""
    history: int = 100
    """Number of stored reactions that a belief is rebuilt from."""
    logged: tuple[int, int, int] = (500, 50, 100_000)
    """Logged reactions of a known user, neighbours of an item, and items of the largest catalogue they are tried on."""
    users: int = 200
    rounds: int = 120
    many_users: int = 5_000
    """Number of users met in blocks, for `many_rounds` rounds, to see that memory does not grow with them."""
    many_rounds: int = 3
    log: tuple[int, int, int] = (3_020, 3_706, 500_000)
    """Users, items and interactions of the graph: 10^6 non-zeros."""
    dims: tuple[int, ...] = (32, 64, 128, 256)
    repeats: int = 15
    """Number of repetitions of the sparse products."""
    step_repeats: int = 10
    expert_dims: tuple[int, int] = (49, 33)
    """Sizes of the two experts' vectors in the default model."""
    starts: int = 7
    """Number of processes started for each start-up time."""
    peer_items: int = 3_706
    peer_repeats: int = 4


FULL = Sizes()
QUICK = Sizes(
    dim=8,
    items=((200, 3, 2), (1_000, 2, 2)),
    textbook_items=1_000,
    indexed=(300, 1_200),
    history=10,
    logged=(10, 3, 1_000),
    users=6,
    rounds=4,
    many_users=20,
    many_rounds=2,
    log=(60, 40, 300),
    dims=(4, 8),
    repeats=2,
    step_repeats=2,
    expert_dims=(4, 3),
    starts=1,
    peer_items=50,
    peer_repeats=1,
)
