"""The inner loops of the online phase: one interface, in NumPy and in C, chosen once when this package is imported.

Both do the same up to rounding. The C loops are used where the installation found a compiler; `IGCF_COMPILED=0` in the
environment asks for NumPy.
"""

import os

from igcf.online.backend.numpy_backend import NumpyBackend

__all__ = ["NumpyBackend", "loops"]


def _chosen() -> NumpyBackend:
    if os.environ.get("IGCF_COMPILED") == "0":
        return NumpyBackend()
    try:
        from igcf.online.backend.native_backend import NativeBackend
    except ImportError:
        return NumpyBackend()
    return NativeBackend()


loops: NumpyBackend = _chosen()
"""The backend in use."""
