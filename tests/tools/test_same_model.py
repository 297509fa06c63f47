from dataclasses import replace

import numpy as np
import pytest

from igcf.config import ExpertsConfig
from igcf.data import synthetic_catalogue
from igcf.model import Model
from igcf.training.experts import fit_experts
from tools.same_model import chosen, gram_difference, map_difference


@pytest.fixture(scope="module")
def model() -> Model:
    config = ExpertsConfig(satisfied=4.0, iterations=2, logistic_dim=4, validate_rounds=10, linear_dim=6)
    return fit_experts(synthetic_catalogue(n_users=200, n_items=50, seed=3), config)


def test_a_model_does_not_differ_from_itself(model: Model) -> None:
    assert (gram_difference(model, model), map_difference(model, model)) == (0.0, 0.0)
    assert chosen(model) == chosen(model)


def test_turned_axes_are_no_difference_and_other_vectors_are(model: Model) -> None:
    first, *others = model.channels
    turned = np.linalg.qr(np.random.default_rng(0).normal(size=(first.vectors.shape[1],) * 2))[0].astype(np.float32)
    same = model.changed(neighbours=model.neighbours)
    same.channels = (replace(first, vectors=first.vectors @ turned), *others)
    assert gram_difference(model, same) < 1e-6
    same.channels = (replace(first, vectors=1.1 * first.vectors), *others)
    assert gram_difference(model, same) == pytest.approx(0.21, abs=1e-6)


def test_the_map_between_items_is_compared_whatever_the_order_of_its_sources(model: Model) -> None:
    own = model.neighbours
    assert own is not None
    backwards = replace(own, sources=own.sources[:, ::-1], weights=own.weights[:, ::-1])
    assert map_difference(model, model.changed(neighbours=backwards)) == 0.0
    assert map_difference(model, model.changed(neighbours=replace(own, weights=own.weights * 2))) == pytest.approx(1.0)
