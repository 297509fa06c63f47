import json
from pathlib import Path

import numpy as np
from click.testing import CliRunner

from igcf.data import load_dataset
from igcf.lab.bench.worlds import random_experts, random_model, random_vectors
from tools.catalogues import clustered, replicated
from tools.retrieval import main


def test_replicated_items_keep_the_population_and_stay_near_their_originals() -> None:
    model = random_model(random_vectors(50, 8))
    more = replicated(model, 500)
    np.testing.assert_array_equal(more.prior_mean, model.prior_mean)
    apart = more.item_vectors - model.item_vectors[np.arange(500) % 50]
    assert 0.2 < apart.std() / model.item_vectors.std() < 0.4


def test_clustered_items_have_the_moments_of_the_originals() -> None:
    model = random_experts(400, 5, 4)
    more = clustered(model, 4_000)
    for own, original in zip(more.channels, model.channels, strict=True):
        np.testing.assert_allclose(own.vectors.mean(axis=0), original.vectors.mean(axis=0), atol=0.1)
        np.testing.assert_allclose(own.vectors.std(axis=0), original.vectors.std(axis=0), atol=0.1)


def test_one_command_measures_and_saves_a_catalogue(tmp_path: Path) -> None:
    log = load_dataset("synthetic")
    model = random_model(random_vectors(log.n_items, 6))
    model.item_ids = log.item_ids
    model.save(tmp_path / "m")
    asked = ["--model", str(tmp_path / "m"), "--dataset", "synthetic", "--items", "3000", "--users", "1"]
    result = CliRunner().invoke(main, [*asked, "--catalogue", "clustered", "--save", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "out" / "clustered.json").read_text())
    assert {(line["nu"], line["reactions"]) for line in found["lines"]} == {
        (nu, n) for nu in (0, 0.5) for n in (0, 10, 100)
    }
    assert all(line["first"] >= -1e-6 and 0.5 <= line["recall"] <= 1 for line in found["lines"])
