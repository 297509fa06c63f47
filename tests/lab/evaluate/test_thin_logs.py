import numpy as np
import pytest

from igcf.lab.evaluate import prepare, setup_for
from igcf.lab.evaluate.thin_logs import ROWS, at_most, kept_share, thin_log_table
from tests.lab.evaluate.worlds import log


def test_at_most_n_reactions_of_a_user_are_kept_and_all_where_there_are_fewer() -> None:
    whole, part = log(), at_most(log(), 5, np.random.default_rng(0))
    before = np.bincount(whole.user_idx, minlength=whole.n_users)
    np.testing.assert_array_equal(np.bincount(part.user_idx, minlength=whole.n_users), np.minimum(before, 5))


def test_a_share_of_the_reactions_is_kept() -> None:
    part = kept_share(log(), 0.3, np.random.default_rng(0))
    assert len(part) == pytest.approx(0.3 * len(log()), rel=0.1)
    assert (np.bincount(part.user_idx) > 0).all()


def test_the_training_log_is_thinned_and_the_test_users_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    small = setup_for(log(), "cold-start", n_users=12, rounds=12, min_reactions=20)
    monkeypatch.setattr("igcf.lab.evaluate.thin_logs.setup_for", lambda data, protocol, n_users: small)
    rows = {label: ROWS[label] for label in ("pop-satisfied", "pca-gp")}
    begun: list[str] = []
    table = thin_log_table(log(), per_user=3, rows=rows, step=begun.append)
    train = prepare(log(), small, 0).task.train
    n_kept = int(np.minimum(np.bincount(train.user_idx), 3).sum())
    assert table.title == f"synthetic, at most 3 reactions of each training user: {n_kept} reactions"
    assert table.header == ("method", "P@10", "P@12")
    assert begun == [row[0] for row in table.rows] == list(rows)
    assert table == thin_log_table(log(), per_user=3, rows=rows)
    assert table.rows != thin_log_table(log(), rows=rows).rows
