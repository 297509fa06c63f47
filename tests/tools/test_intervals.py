"""Intervals by how well items are known, on shares that are drawn as the model believes."""

from dataclasses import replace

import numpy as np

from igcf.data import Interactions
from igcf.model.usage import Calibration, SharePrior, fit_shares
from tests.toys import ensemble_model
from tools.intervals import CLASSES, interval_rows, interval_table, items_tested, split_off

PRIOR = SharePrior(-1.0, 0.3, 6.0, 0.4, 3.0)


def drawn_log(n_items: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return reactions and successes of items, and their true shares, as the prior says."""
    rng = np.random.default_rng(seed)
    counts = np.concatenate([rng.integers(0, 6, n_items // 2), rng.integers(6, 400, n_items - n_items // 2)])
    alpha, beta = PRIOR.of(np.stack([counts, np.zeros_like(counts)], axis=1), counts == 0)
    beta = beta - counts
    shares = rng.beta(alpha, beta)
    return np.stack([counts, rng.binomial(counts, shares)], axis=1), shares


def test_the_prior_of_shares_is_found_again() -> None:
    found = fit_shares(drawn_log(20_000, 0)[0])
    assert found is not None
    np.testing.assert_allclose(found[:3], PRIOR[:3], rtol=0.1)
    assert fit_shares(np.array([[3, 3], [5, 5]])) is None


def test_a_new_item_may_have_the_share_of_any_item() -> None:
    rng = np.random.default_rng(0)
    counts = rng.integers(1, 60, 20_000)
    found = fit_shares(np.stack([counts, rng.binomial(counts, rng.beta(1.2, 1.8, 20_000))], axis=1))
    assert found is not None
    np.testing.assert_allclose(found[3:], (0.4, 3.0), rtol=0.1)


def test_four_of_five_shares_lie_in_their_intervals_in_every_class() -> None:
    reactions, shares = drawn_log(1_500, 1)
    model = ensemble_model(1_500)
    model.reactions = reactions
    model = model.changed(usage=replace(model.usage, calibration=Calibration(shares=PRIOR)))
    rng = np.random.default_rng(2)
    satisfied = rng.random((40, 1_500)) < shares
    truth = np.where(rng.random(satisfied.shape) < 0.5, np.where(satisfied, 5.0, 1.0), np.nan).astype(np.float32)
    rows = interval_rows(items_tested(model, truth))
    assert [row["reactions"] for row in rows] == [name for name, _, _ in CLASSES]
    assert all(row["is_met"] for row in rows), rows
    widths = [row["width_of_share"] for row in rows]
    assert widths == sorted(widths, reverse=True)
    cells = [cell for line in interval_table("drawn", rows).rows for cell in line]
    assert len(cells) == 50
    assert all(isinstance(cell, str) for cell in cells)


def test_widths_are_compared_at_equal_chances() -> None:
    """Intervals are twice as wide where the chance is .5 as where it is .1; those of rare items half as wide again."""
    chance = np.tile([0.1, 0.5], 20)
    known = np.stack(
        [np.full(40, 500.0), *np.ones((2, 40)), chance, *np.ones((2, 40)), np.where(chance > 0.2, 0.4, 0.2)]
    )
    rare = np.array([[3.0], [1.0], [1.0], [0.1], [1.0], [1.0], [0.3]])
    first, last = interval_rows(np.concatenate([rare, known], axis=1).T)
    assert first["width"] == last["width"]
    np.testing.assert_allclose((first["relative_width"], last["relative_width"]), (1.5, 1.0))


def test_nothing_is_learned_of_a_tenth_of_the_items() -> None:
    rng = np.random.default_rng(0)
    users, items = np.divmod(rng.permutation(60 * 200)[:6_000], 200)
    data = Interactions.from_arrays(users, items, rng.integers(1, 6, 6_000).astype(np.float64))
    rest, held_out = split_off(data, seed=3)
    n_gone = 200 - len(np.unique(rest.item_idx))
    assert 10 <= n_gone <= 40
    assert held_out.n_users == 6
    assert len(split_off(data, thin=0.1, seed=3)[0].values) < 0.2 * len(rest.values)
