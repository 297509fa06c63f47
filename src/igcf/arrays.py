"""Names for the array types that the package passes around."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]
"""Beliefs and everything that is accumulated."""
Float32Array: TypeAlias = npt.NDArray[np.float32]
"""Big matrices: item vectors, observed values."""
AnyFloatArray: TypeAlias = npt.NDArray[np.floating]
IntArray: TypeAlias = npt.NDArray[np.integer]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
