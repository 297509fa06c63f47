from typing import Any

import numpy as np
import pytest

from igcf.config import GraphConfig
from igcf.graph import normalised_adjacency
from igcf.lab.bench import graph
from igcf.lab.bench.worlds import STARS, random_log, random_pairs
from igcf.training import StepStats
from igcf.training.variational.run import GraphTrainingData


@pytest.mark.parametrize(("n_users", "n_items", "n_pairs", "dim"), [(20, 13, 60, 5), (7, 1, 5, 1), (30, 40, 3, 33)])
def test_all_sparse_products_agree(n_users: int, n_items: int, n_pairs: int, dim: int) -> None:
    adjacency = normalised_adjacency(n_users, n_items, *random_pairs(n_users, n_items, n_pairs))
    dense = np.random.default_rng(0).standard_normal((n_users + n_items, dim), dtype=np.float32)
    results: list[Any] = [job() for job in graph.product_jobs(adjacency, graph.torch_csr(adjacency), dense).values()]
    assert len(results) == 3
    for result in results[1:]:
        np.testing.assert_allclose(np.asarray(result), results[0], atol=1e-5)


@pytest.mark.slow
def test_a_step_and_its_products_run_on_the_same_world() -> None:
    world = GraphTrainingData.from_log(random_log(30, 20, 120), GraphConfig(dim=4), STARS)
    graph.bare_products(world)()
    stats = graph.whole_step(world)()
    assert isinstance(stats, StepStats)
    assert np.isfinite(stats.loss)
