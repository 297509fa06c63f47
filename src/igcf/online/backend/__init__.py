"""The inner loops of the online phase: one interface, in NumPy and in C, chosen once when this package is imported.

Both do the same up to rounding. The C loops are used where the installation found a compiler; `IGCF_COMPILED=0` in the
environment asks for NumPy. Loops that were compiled from an older source are not used, with a warning that says so.
"""

import os
import warnings

from igcf.online.backend import numpy_beliefs, numpy_items

__all__ = ["NumpyBackend", "loops"]

INTERFACE = 1  # the interface of the C loops that this code calls, as in `native/module.c`


class NumpyBackend:
    """Everything that the engine needs computed, in NumPy: the interface of all backends and what they fall back to."""

    name = "numpy"
    update_beliefs = staticmethod(numpy_beliefs.update_beliefs)
    learn = staticmethod(numpy_beliefs.learn)
    learn_in_turn = staticmethod(numpy_beliefs.learn_in_turn)
    chances_of_logits = staticmethod(numpy_items.chances_of_logits)
    counted_class = staticmethod(numpy_beliefs.counted_class)
    counted_classes = staticmethod(numpy_beliefs.counted_classes)
    observe_and_rescore = staticmethod(numpy_items.observe_and_rescore)
    rescore_users = staticmethod(numpy_items.rescore_users)
    variances_of = staticmethod(numpy_items.variances_of)
    moments_at = staticmethod(numpy_items.moments_at)
    multiply = staticmethod(numpy_items.multiply)
    add_information = staticmethod(numpy_items.add_information)
    find_mode = staticmethod(numpy_beliefs.find_mode)
    expected_rewards = staticmethod(numpy_items.expected_rewards)
    reward_variances = staticmethod(numpy_items.reward_variances)
    select_users = staticmethod(numpy_items.select_users)
    count_above = staticmethod(numpy_items.count_above)


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
