from dataclasses import replace

import numpy as np
import pytest

from igcf.config import ExpertsConfig
from igcf.data import synthetic_catalogue
from igcf.model import Model
from igcf.training.experts import fit_experts
from tools.same_model import chosen, filter_difference, gram_difference


@pytest.fixture(scope="module")
def model() -> Model:
    config = ExpertsConfig(satisfied=4.0, iterations=2, logistic_dim=4, validate_rounds=10, linear_dim=6)
    return fit_experts(synthetic_catalogue(n_users=200, n_items=50, seed=3), config)


def test_a_model_does_not_differ_from_itself(model: Model) -> None:
    assert gram_difference(model, model) == 0.0
    assert chosen(model) == chosen(model)


def test_turned_axes_are_no_difference_and_other_vectors_are(model: Model) -> None:
    first, *others = model.channels
    turned = np.linalg.qr(np.random.default_rng(0).normal(size=(first.vectors.shape[1],) * 2))[0].astype(np.float32)
    same = model.changed(low_pass=model.low_pass)
    same.channels = (replace(first, vectors=first.vectors @ turned), *others)
    assert gram_difference(model, same) < 1e-6
    same.channels = (replace(first, vectors=1.1 * first.vectors), *others)
    assert gram_difference(model, same) == pytest.approx(0.21, abs=1e-6)


def test_filters_are_compared_whatever_the_axes_of_their_directions(model: Model) -> None:
    own = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    first = model.changed(low_pass=own)
    assert filter_difference(first, model.changed(low_pass=own[:, ::-1])) == pytest.approx(0.0, abs=1e-6)
    assert filter_difference(first, model.changed(low_pass=2 * own)) == pytest.approx(3.0, abs=1e-5)
    assert filter_difference(first, model.changed(low_pass=None)) is None
