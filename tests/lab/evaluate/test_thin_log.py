import numpy as np
import pytest

from igcf.errors import ConfigError
from igcf.lab.evaluate import evaluate, prepare, setup_for
from igcf.lab.evaluate.protocols import protocol_named
from igcf.lab.evaluate.protocols.thin import at_most, kept_share
from igcf.lab.evaluate.tables import results_tables
from tests.lab.evaluate.worlds import log


def test_at_most_n_reactions_of_a_user_are_kept_and_all_where_there_are_fewer() -> None:
    whole, part = log(), at_most(log(), 5, np.random.default_rng(0))
    before = np.bincount(whole.user_idx, minlength=whole.n_users)
    np.testing.assert_array_equal(np.bincount(part.user_idx, minlength=whole.n_users), np.minimum(before, 5))


def test_a_share_of_the_reactions_is_kept() -> None:
    part = kept_share(log(), 0.3, np.random.default_rng(0))
    assert len(part) == pytest.approx(0.3 * len(log()), rel=0.1)
    assert (np.bincount(part.user_idx) > 0).all()


def test_the_training_log_is_thinned_and_the_test_users_are_not() -> None:
    small = {"n_users": 12, "rounds": 12, "min_reactions": 20}
    cold, thin = (setup_for(log(), each, **small) for each in ("cold-start", protocol_named("thin-log", per_user=3)))
    whole, part = (prepare(log(), each, 0) for each in (cold, thin))
    assert len(part.task.train) == int(np.minimum(np.bincount(whole.task.train.user_idx), 3).sum())
    np.testing.assert_array_equal(part.truth[0], whole.truth[0])
    assert part.task.refitted() is part.task
    table = results_tables(evaluate(log(), thin, ("pop-satisfied", "pca-gp")))[0]
    assert "at most 3 reactions per user" in table.title
    with pytest.raises(ConfigError, match="needs --keep SHARE or --per-user N"):
        protocol_named("thin-log")
