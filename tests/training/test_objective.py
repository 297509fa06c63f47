import math

import numpy as np
import pytest
import torch
from torch import Tensor

from igcf.training.variational import objective
from igcf.training.variational.objective import sample_and_kl

M, N, D = 7, 5, 3


def toy() -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Users, items, a mask of observed pairs, scores and targets of these pairs, in double precision."""
    generator = torch.Generator().manual_seed(0)
    U = torch.randn(M, D, generator=generator, dtype=torch.float64)
    V = torch.randn(N, D, generator=generator, dtype=torch.float64)
    mask = torch.rand(M, N, generator=generator) < 0.4
    targets = (torch.rand(M, N, generator=generator, dtype=torch.float64) < 0.5).double()
    return U, V, mask, (U @ V.T)[mask], targets[mask]


def gaussian_kl(mean: Tensor, std: Tensor, prior_std: float) -> Tensor:
    rho = std.expm1().log()  # softplus of it is std
    return sample_and_kl(mean, rho, torch.zeros_like(mean), prior_std)[1]


def test_kl_agrees_with_a_sampled_estimate() -> None:
    mean, std, prior = torch.tensor([0.5, -1.0]), torch.tensor([0.3, 2.0]), 1.3
    x = mean + std * torch.randn(400_000, 2, generator=torch.Generator().manual_seed(0))
    log_q = -(((x - mean) / std) ** 2) / 2 - std.log()
    log_p = -((x / prior) ** 2) / 2 - math.log(prior)
    estimate = (log_q - log_p).sum(dim=1).mean()
    assert gaussian_kl(mean, std, prior).item() == pytest.approx(estimate.item(), rel=0.01)


def test_kl_is_the_one_of_torch() -> None:
    mean, std = torch.randn(6, 4).double(), torch.rand(6, 4).double() + 0.1
    expected = torch.distributions.kl_divergence(
        torch.distributions.Normal(mean, std), torch.distributions.Normal(0.0, 0.7)
    ).sum()
    torch.testing.assert_close(gaussian_kl(mean, std, 0.7), expected)


def test_kl_vanishes_at_the_prior_and_nowhere_else() -> None:
    """Without data the best std is the prior's; the paper's halved entropy term would give prior_std / sqrt(2)."""
    at_prior = gaussian_kl(torch.zeros(5), torch.full((5,), 1.3), 1.3).item()
    assert at_prior == pytest.approx(0.0, abs=1e-6)
    assert gaussian_kl(torch.zeros(5), torch.full((5,), 1.3 / math.sqrt(2)), 1.3).item() > 0.1


def test_full_data_loss_agrees_with_visiting_every_pair() -> None:
    U, V, mask, scores, _ = toy()
    targets = torch.where(mask, 1.5, 0.0).double()
    weights = torch.where(mask, 1.0, 0.25)
    brute = (weights * (targets - U @ V.T) ** 2).sum() / (2 * 0.09)
    found = objective.full_gaussian(U, V, scores, targets[mask], noise_var=0.09, missing_weight=0.25)
    torch.testing.assert_close(found, brute)


def test_full_data_loss_without_missing_weight_is_the_observed_loss() -> None:
    U, V, _, scores, targets = toy()
    full = objective.full_gaussian(U, V, scores, targets, noise_var=0.09, missing_weight=0.0)
    torch.testing.assert_close(full, objective.observed_gaussian(scores, targets, noise_var=0.09))


def test_observed_binary_loss_is_the_log_likelihood_of_the_label() -> None:
    scores, targets = torch.tensor([2.0, -1.0]), torch.tensor([1.0, 0.0])
    expected = -math.log(1 / (1 + math.exp(-2.0))) - math.log(1 - 1 / (1 + math.exp(1.0)))
    assert objective.observed_bernoulli(scores, targets).item() == pytest.approx(expected, rel=1e-5)


def exact_full_bernoulli(U: Tensor, V: Tensor, mask: Tensor, targets: Tensor) -> Tensor:
    failures = torch.nn.functional.softplus((U @ V.T)[~mask]).sum()
    return failures + objective.observed_bernoulli((U @ V.T)[mask], targets)


def test_binary_bound_lies_above_the_loss_over_every_pair() -> None:
    U, V, mask, scores, targets = toy()
    for scale in (0.01, 0.3, 1.0, 4.0):
        bound = objective.full_bernoulli_bound(scale * U, V, scale * scores, targets, missing_weight=1.0)
        exact = exact_full_bernoulli(scale * U, V, mask, targets)
        assert bound >= exact - 1e-9


def test_binary_bound_is_tight_where_all_missing_scores_are_equal_in_size() -> None:
    """With scores of -2 or 2 everywhere the shared xi = 2 touches the loss at every pair."""
    U, V = torch.tensor([[1.0], [-1.0]]).double(), torch.tensor([[2.0], [2.0], [-2.0]]).double()
    nothing = torch.zeros(0).double()
    bound = objective.full_bernoulli_bound(U, V, nothing, nothing, missing_weight=1.0)
    torch.testing.assert_close(bound, torch.nn.functional.softplus(U @ V.T).sum())


def test_binary_bound_is_smallest_at_the_chosen_xi() -> None:
    U, V, mask, _, _ = toy()
    missing = (U @ V.T)[~mask]
    chosen = math.sqrt((missing**2).mean().item())

    def bound(xi: float) -> float:
        lam = objective.curvature(xi)
        return (math.log1p(math.exp(-xi)) + (missing + xi) / 2 + lam * (missing**2 - xi**2)).sum().item()

    assert bound(chosen) <= min(bound(0.9 * chosen), bound(1.1 * chosen))


def test_binary_loss_without_missing_pairs_is_the_observed_loss() -> None:
    U, V, _, _, _ = toy()
    scores, targets = (U @ V.T).reshape(-1), torch.ones(M * N).double()
    full = objective.full_bernoulli_bound(U, V, scores, targets, missing_weight=1.0)
    torch.testing.assert_close(full, objective.observed_bernoulli(scores, targets))


@pytest.mark.parametrize("name", ["full_gaussian", "full_bernoulli_bound"])
def test_gradients_agree_with_finite_differences(name: str) -> None:
    U, V, mask, _, targets = toy()

    def loss(users: Tensor, items: Tensor) -> Tensor:
        scores = (users @ items.T)[mask]
        if name == "full_gaussian":
            return objective.full_gaussian(users, items, scores, targets, noise_var=0.3, missing_weight=0.5)
        return objective.full_bernoulli_bound(users, items, scores, targets, missing_weight=0.5)

    assert torch.autograd.gradcheck(loss, (U.requires_grad_(), V.requires_grad_()))


def test_curvature_is_smooth_at_zero() -> None:
    assert objective.curvature(0.0) == pytest.approx(objective.curvature(1.1e-4), rel=1e-6)
    assert np.isfinite(objective.curvature(1e6))
