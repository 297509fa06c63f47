import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from igcf.bench.worlds import random_model, random_vectors
from tools.catalogues import NU, beliefs, mixture, replicated, scored
from tools.retrieval import WAYS, built, main


def test_an_index_that_asks_all_lists_finds_the_largest_products() -> None:
    world = mixture(2000, 8)
    index = built(world.vectors, n_lists=16)
    index.file.nprobe = 16
    direction = np.random.default_rng(0).normal(size=(1, 8))
    for norms in (0.0, 0.7):
        products = world.vectors @ direction[0] + norms * np.linalg.norm(world.vectors, axis=1)
        assert set(index.search(direction, 20, norms=norms)) == set(np.argsort(-products)[:20])


@pytest.mark.parametrize("way", [name for name in WAYS if name != "8 samples"])  # draws lie further out than the bound
def test_candidates_hold_the_item_with_the_largest_bound(way: str) -> None:
    world = mixture(2000, 8)
    index = built(world.vectors, n_lists=16)
    index.file.nprobe = 16
    for _, belief in beliefs(world, 2):
        exact, order = scored(world.vectors, slice(None), belief)
        mean, std = belief.moments(world.vectors)
        np.testing.assert_allclose(exact, mean + NU * std, atol=1e-5)
        assert order[0] in WAYS[way](index, belief, np.random.default_rng(0))


def test_replicated_items_keep_the_population_and_stay_near_their_originals() -> None:
    model = random_model(random_vectors(50, 8))
    world = replicated(model, 500)
    np.testing.assert_array_equal(world.prior.mean, model.prior_mean)
    apart = world.vectors - model.item_vectors[np.arange(500) % 50]
    assert 0.2 < apart.std() / model.item_vectors.std() < 0.4


def test_one_command_gives_tables_and_a_figure(tmp_path: Path) -> None:
    sizes = ["--items", "3000", "--dim", "8", "--users", "1", "--lists", "16", "--nprobe", "4", "--out", str(tmp_path)]
    result = CliRunner().invoke(main, sizes)
    assert result.exit_code == 0, result.output
    (found,) = json.loads((tmp_path / "retrieval.json").read_text())
    assert len(found["lines"]) == 3 * len(WAYS)
    assert all(line["loss"] >= -1e-6 and 0 <= line["recall"] <= 1 for line in found["lines"])
    assert (tmp_path / "retrieval.svg").read_text().startswith("<?xml")
