"""The inner loops of the online phase: one interface, in NumPy and in C, chosen once when this package is imported.

Both do the same up to rounding. The C loops are used where the installation found a compiler; `IGCF_COMPILED=0` in the
environment asks for NumPy. Loops that were compiled from an older source are not used, with a warning that says so.
"""

import os
import warnings

from igcf.online.backend.numpy_backend import NumpyBackend

__all__ = ["NumpyBackend", "loops"]

INTERFACE = 1  # the interface of the C loops that this code calls, as in `native/module.c`


def _chosen() -> NumpyBackend:
    if os.environ.get("IGCF_COMPILED") == "0":
        return NumpyBackend()
    try:
        from igcf.online.backend import _native  # type: ignore[attr-defined]
    except ImportError:
        return NumpyBackend()
    found = _native.interface() if hasattr(_native, "interface") else 0
    if found != INTERFACE:
        warnings.warn(
            f"the compiled loops are outdated: interface {found}, expected {INTERFACE}; NumPy is used instead, more "
            "slowly; rebuild them with `python setup.py build_ext --inplace` or `make setup`",
            RuntimeWarning,
            stacklevel=2,
        )
        return NumpyBackend()
    from igcf.online.backend.native_backend import NativeBackend

    return NativeBackend()


loops: NumpyBackend = _chosen()  # the backend in use
