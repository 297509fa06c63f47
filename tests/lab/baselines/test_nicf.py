import numpy as np
import pytest
import torch

from igcf.lab.baselines.nicf import (
    Episodes,
    Nicf,
    QNetwork,
    batch_loss,
    discount,
    exploration,
    last_items,
    play_sessions,
    rating_levels,
)
from igcf.model import Reward
from igcf.online import replay

STARS = Reward("raw", threshold=4.0, low=1.0, high=5.0)


def network(n_items: int = 9, dim: int = 4) -> QNetwork:
    return QNetwork(n_items, dim, torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("epoch", "epsilon", "gamma"),
    [
        (0, 1.0, 0.0),
        (300, 0.833, 0.020),
        (500, 0.536, 0.034),
        (1000, 0.283, 0.078),
        (1500, 0.192, 0.135),
        (2000, 0.146, 0.217),
        (2500, 0.117, 0.363),
        (2800, 0.105, 0.556),
        (2900, 0.101, 0.689),
        (2950, 0.100, 0.799),
        (2999, 0.098, 0.8),
    ],
)
def test_schedules_are_those_of_the_released_code(epoch: int, epsilon: float, gamma: float) -> None:
    assert exploration(epoch) == pytest.approx(epsilon, abs=6e-4)
    assert discount(epoch) == pytest.approx(gamma, abs=6e-4)


def test_stars_keep_their_level_and_no_reaction_is_level_zero() -> None:
    values = np.array([np.nan, 1, 2, 3, 4, 5], dtype=np.float32)
    assert rating_levels(values, STARS).tolist() == [0, 1, 2, 3, 4, 5]


def test_other_scales_are_satisfied_from_level_four() -> None:
    ratio = Reward("raw", threshold=2.0, low=0.5, high=2.0)
    assert rating_levels(np.array([0.5, 2.0, np.nan], dtype=np.float32), ratio).tolist() == [1, 5, 0]
    zero_to_five = Reward("raw", threshold=4.0, low=0.0, high=5.0)
    levels = rating_levels(np.arange(6, dtype=np.float32), zero_to_five)
    assert levels.tolist() == [1, 1, 2, 3, 4, 5]


def test_the_released_state_is_the_last_item_of_each_level() -> None:
    items = torch.tensor([[3, 7, 5, 2], [1, 2, 3, 4]])
    levels = torch.tensor([[4, 0, 4, -1], [1, 1, 1, 5]])
    assert last_items(items, levels).tolist() == [[7, 0, 0, 0, 5, 0], [0, 3, 0, 0, 0, 4]]


def test_parameters_number_as_in_the_released_network() -> None:
    """Six tables of 3707 x 50, layer norms 600, 300 x 50 + 50, 50 x 3707 + 3707."""
    net = network(n_items=3706, dim=50)
    assert sum(part.numel() for part in net.parameters()) == 1_112_100 + 600 + 15_050 + 189_057


@pytest.mark.parametrize(("t", "mask"), [(0, False), (1, True), (2, False)])
def test_target_is_reward_plus_discounted_maximum_over_all_items(t: int, mask: bool) -> None:
    """The maximum leaves out number 0 only, or with `mask` also what was shown; the last round has no future."""
    net = network()
    items, levels = torch.tensor([[3, 7, 5]]), torch.tensor([[4, 0, 5]])
    loss = batch_loss(net, items, levels, np.array([t]), 0.5, mask_target=mask)
    before = torch.where(torch.arange(3) < t, levels, -1)
    after = torch.where(torch.arange(3) <= t, levels, -1)
    following = net(last_items(items, after)).detach()[0]
    allowed = [item for item in range(1, 10) if not (mask and item in items[0, : t + 1].tolist())]
    target = float(levels[0, t] >= 4) + (0.5 * following[allowed].max() if t < 2 else 0.0)
    value = net(last_items(items, before))[0, items[0, t]]
    torch.testing.assert_close(loss, (value - target) ** 2)


def test_sessions_show_no_item_twice_and_record_the_users_levels() -> None:
    truth = np.random.default_rng(0).integers(0, 6, size=(5, 10)).astype(np.int64)
    items, levels = play_sessions(network(), truth, 9, 0.5, np.random.default_rng(1))
    for user in range(5):
        assert sorted(items[user].tolist()) == list(range(1, 10))
        assert levels[user].tolist() == truth[user, items[user]].tolist()


def test_replay_keeps_the_latest_sessions() -> None:
    episodes = Episodes(rounds=2, capacity=100)
    for number in range(1, 4):
        episodes.add(np.full((25, 2), number), np.zeros((25, 2), dtype=np.int64))
    assert sorted(set(episodes.items[:, 0].tolist())) == [2, 3]


def test_the_learner_shows_what_the_network_values_most() -> None:
    net = network()
    table = np.random.default_rng(0).integers(1, 6, size=(3, 9)).astype(np.float32)
    shown = replay(Nicf(net, STARS), table, rounds=4, rng=np.random.default_rng(0))
    items, levels = torch.from_numpy(shown.rows[:, :3, 0].astype(np.int64) + 1), rating_levels(shown.values, STARS)
    values = net(last_items(items, torch.from_numpy(levels[:, :3, 0]))).detach().numpy()
    for user in range(3):
        left = [row for row in range(9) if row not in shown.rows[user, :3, 0]]
        assert shown.rows[user, 3, 0] in left
        best = max(values[user, row + 1] for row in left)  # which several items may share, up to rounding
        np.testing.assert_allclose(values[user, shown.rows[user, 3, 0] + 1], best, rtol=1e-5)


def test_tabulated_values_are_those_of_the_network() -> None:
    net = network()
    last = np.random.default_rng(0).integers(0, 10, size=(20, 6))
    values = net(torch.from_numpy(last)).detach()
    np.testing.assert_allclose(net.frozen()(last), values.numpy(), atol=1e-6)
    items = torch.from_numpy(last[:, 0])
    torch.testing.assert_close(net.values_of(torch.from_numpy(last), items), values[torch.arange(20), items])
