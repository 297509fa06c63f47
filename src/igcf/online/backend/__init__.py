"""The inner loops of the online phase: one interface, in NumPy and in C, chosen once when this package is imported.

Both do the same up to rounding. The C loops are used where the installation found a compiler; `IGCF_COMPILED=0` in the
environment asks for NumPy.
"""

import os
from typing import Protocol

from igcf.arrays import AnyFloatArray, BoolArray, FloatArray, IntArray
from igcf.online.backend import numpy_backend
from igcf.online.backend.types import (
    Arrays,
    Block,
    Bounds,
    Evidence,
    MakeRng,
    Mixture,
    Moments,
    Query,
    Selection,
)

__all__ = [
    "Arrays",
    "Backend",
    "Block",
    "Bounds",
    "Evidence",
    "MakeRng",
    "Mixture",
    "Moments",
    "Query",
    "Selection",
    "loops",
]


class Backend(Protocol):
    """What the engine needs computed; the modules `numpy_*` document each function."""

    NAME: str

    def update_beliefs(  # noqa: D102
        self, means: FloatArray, covs: FloatArray, start: int, evidence: Evidence
    ) -> tuple[FloatArray, FloatArray]: ...

    def update_belief(self, mean: FloatArray, cov: FloatArray, start: int, evidence: Evidence) -> None: ...  # noqa: D102

    def observe_and_rescore(  # noqa: D102
        self, mean: FloatArray, cov: FloatArray, block: Block, row: int, rewards: tuple[float, ...], moments: Moments
    ) -> None: ...

    def rescore_users(  # noqa: D102
        self, products: AnyFloatArray, steps: FloatArray, z: AnyFloatArray, variances: AnyFloatArray
    ) -> None: ...

    def variances_of(  # noqa: D102
        self, items: AnyFloatArray, cov: FloatArray, rows: IntArray | None = None
    ) -> AnyFloatArray: ...

    def expected_rewards(self, mixture: Mixture, z: Arrays) -> AnyFloatArray: ...  # noqa: D102

    def reward_variances(self, mixture: Mixture, z: Arrays, variances: Arrays) -> AnyFloatArray: ...  # noqa: D102

    def select_users(  # noqa: D102
        self,
        means: AnyFloatArray,
        variances: AnyFloatArray | None,
        available: BoolArray,
        nu: float,
        k: int,
        make_rng: MakeRng,
    ) -> tuple[IntArray, AnyFloatArray]: ...

    def select_tracked(  # noqa: D102
        self, mixture: Mixture, moments: Moments, query: Query
    ) -> tuple[Selection, AnyFloatArray]: ...

    def select_bounded(self, mixture: Mixture, user: Bounds, query: Query) -> Selection: ...  # noqa: D102

    def describe(  # noqa: D102
        self,
        rows: IntArray,
        scores: AnyFloatArray,
        variances: AnyFloatArray,
        means: AnyFloatArray,
        available: BoolArray,
    ) -> Selection: ...


def _chosen() -> Backend:
    if os.environ.get("IGCF_COMPILED") == "0":
        return numpy_backend
    try:
        from igcf.online.backend import native_backend
    except ImportError:
        return numpy_backend
    return native_backend


loops: Backend = _chosen()
"""The backend in use."""
