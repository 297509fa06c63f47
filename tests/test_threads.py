import os
import subprocess
import sys

import pytest
from threadpoolctl import threadpool_info

from igcf.threads import VARIABLES, at_most_threads, blas_threads, one_thread_for_new_libraries, prefer_one_thread


def blas_pools() -> list[int]:
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_blas_is_limited_inside_the_block_and_restored_after_an_error() -> None:
    before = blas_pools()
    inside: list[int | str] = []

    def fail() -> None:
        with at_most_threads(1):
            inside.append(blas_threads())
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail()
    assert inside == [1]
    assert blas_pools() == before


def test_a_limit_never_raises_the_number_of_threads() -> None:
    with at_most_threads(1):
        with at_most_threads(64):
            assert blas_threads() == 1
        assert blas_threads() == 1


@pytest.mark.parametrize("missing", ["", "numba"])
def test_torch_and_numba_are_restored_after_an_error_also_where_numba_is_absent(missing: str) -> None:
    code = f"""
import sys
if {missing!r}:
    sys.modules[{missing!r}] = None
import torch
from igcf.graph.sparse_products import compiled
from igcf.threads import at_most_threads
compiled()
import_numba = {missing!r} != "numba"
if import_numba:
    import numba
torch.set_num_threads(2)
try:
    with at_most_threads(1, ("numba", "torch")):
        assert torch.get_num_threads() == 1
        assert not import_numba or numba.get_num_threads() == 1
        raise ValueError
except ValueError:
    pass
assert torch.get_num_threads() == 2, torch.get_num_threads()
assert not import_numba or numba.get_num_threads() == 2
"""
    environment = os.environ | {"NUMBA_NUM_THREADS": "2"}
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert result.returncode == 0, result.stderr


def test_libraries_that_are_loaded_later_start_with_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLES[0], "3")
    monkeypatch.delenv(VARIABLES[1], raising=False)
    monkeypatch.setenv("NUMBA_NUM_THREADS", os.environ.get("NUMBA_NUM_THREADS", "1"))
    inside: list[int | str] = []

    def fail() -> None:
        with one_thread_for_new_libraries():
            inside.extend(os.environ[name] for name in VARIABLES)
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail()
    assert set(inside) == {"1"}
    assert os.environ[VARIABLES[0]] == "3"
    assert VARIABLES[1] not in os.environ


def test_one_thread_is_preferred_only_where_the_environment_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLES[0], "3")
    monkeypatch.setenv(VARIABLES[1], "")
    monkeypatch.delenv(VARIABLES[1])
    prefer_one_thread()
    assert os.environ[VARIABLES[0]] == "3"
    assert os.environ[VARIABLES[1]] == "1"
