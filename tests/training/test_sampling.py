import pytest
import torch
from torch.distributions import Normal

from igcf.training.variational import objective
from igcf.training.variational.objective import Parameters


@pytest.mark.parametrize(
    ("n_nodes", "dim", "piece"), [(1, 1, 1 << 16), (7, 1, 3), (5, 33, 16), (40, 6, 240), (3, 4, 5)]
)
def test_pieces_give_the_same_draw_kl_and_gradients_as_automatic_differentiation(
    n_nodes: int, dim: int, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objective, "PIECE", piece)
    start = torch.Generator().manual_seed(0)
    values = [torch.randn(n_nodes, dim, dtype=torch.float64, generator=start) * 3 for _ in range(4)]
    results = []
    for is_plain in (True, False):
        mean, rho = (value.clone().requires_grad_() for value in values[:2])
        if is_plain:
            std = Parameters(mean, rho).std
            sample = torch.addcmul(mean, std, values[3])
            kl = torch.distributions.kl_divergence(Normal(mean, std), Normal(0.0, 0.7)).sum()
        else:
            sample, kl = objective.sample_and_kl(mean, rho, values[3], 0.7)
        ((sample * values[2]).sum() + 0.3 * kl).backward()  # type: ignore[no-untyped-call]
        results.append((sample.detach(), kl.detach(), mean.grad, rho.grad))
    for plain, pieces in zip(*results, strict=True):
        torch.testing.assert_close(pieces, plain)
