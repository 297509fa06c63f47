"""MovieLens-1M under the protocol of the paper; needs IGCF_DATA_DIR."""

import numpy as np
import pytest

from igcf.data import cold_start, load_dataset
from igcf.online import Greedy, ModelLearner, replay
from igcf.training import pretrain


@pytest.mark.realdata
@pytest.mark.slow
def test_ml_1m_cold_users_like_at_least_79_of_120_items() -> None:
    split = cold_start(load_dataset("ml-1m"), rng=np.random.default_rng(0))
    model = pretrain(split.train, validation=split.validation, missing="zero", method="graph", dim=64, satisfied=4.0)
    shown = replay(ModelLearner(model, Greedy()), split.test.dense(), rounds=120, rng=np.random.default_rng(0))
    hits = model.reward.is_satisfied(shown.values)[:, :, 0]
    assert len(hits) == 200
    assert hits.sum(axis=1).mean() >= 79.0
