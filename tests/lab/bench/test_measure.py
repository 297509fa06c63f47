import numpy as np
import pytest

from igcf.lab.bench.measure import Row, compared, exponent, interleaved, one_thread


def test_jobs_take_turns_after_one_run_to_warm_up() -> None:
    order: list[str] = []
    jobs = {name: lambda name=name: order.append(name) for name in "ab"}
    seconds = interleaved(jobs, repeats=2)
    assert order == ["a", "b", "a", "b", "a", "b"]
    assert {name: len(times) for name, times in seconds.items()} == {"a": 2, "b": 2}


def test_processor_time_takes_the_median_of_neighbouring_ratios() -> None:
    row = compared("g", "j", "r", np.array([2.0, 40.0, 2.0]), np.array([1.0, 20.0, 1.0]), at_most=2.0)
    assert (row.ratio, row.ours_ms, row.reference_ms, row.as_dict()["met"]) == (2.0, 2000.0, 1000.0, True)


def test_wall_time_takes_the_shortest_of_each() -> None:
    row = compared("g", "j", "r", np.array([9.0, 3.0]), np.array([1.0, 8.0]), at_most=2.0, clock="wall")
    assert (row.ratio, row.as_dict()["met"]) == (3.0, False)


def test_a_row_without_a_target_is_neither_met_nor_missed() -> None:
    assert Row("g", "j", "r", 1.0, 1.0, 1.0, None, "cpu", 1).as_dict()["met"] is None


def test_the_exponent_of_a_power_law_is_its_power() -> None:
    sizes = [10, 100, 1000]
    assert exponent(sizes, [3.0 * size**1.5 for size in sizes]) == pytest.approx(1.5)


def test_threads_are_given_back() -> None:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with one_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
