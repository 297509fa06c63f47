"""`mult-vae`: a variational autoencoder with a multinomial likelihood (Liang et al., 2018)."""

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.nn import functional

from igcf.arrays import FloatArray, IntArray
from igcf.errors import TrainingDivergedError
from igcf.lab.baselines.history import HistoryLearner, training_successes
from igcf.lab.baselines.task import Settings, Task
from igcf.threads import at_most_threads

BATCH = 128


class MultVae(nn.Module):
    """Encoder of a user's successes to a Gaussian code, and decoder to the logits of all items."""

    def __init__(self, n_items: int, hidden: int, dim: int) -> None:
        super().__init__()
        first = nn.Linear(n_items, hidden)
        self.of_item, self.bias = nn.Parameter(first.weight.detach().T.contiguous()), nn.Parameter(first.bias.detach())
        self.code = nn.Linear(hidden, 2 * dim)
        self.decoder = nn.Sequential(nn.Linear(dim, hidden), nn.Tanh(), nn.Linear(hidden, n_items))

    def encode(self, users: sp.csr_array, dropout: float = 0.0) -> tuple[Tensor, Tensor]:
        """Return mean and log variance of the users' codes; only the rows of what they liked are read."""
        starts, items = (torch.from_numpy(each.astype(np.int64)) for each in (users.indptr, users.indices))
        sizes = np.maximum(np.diff(users.indptr), 1)
        values = torch.from_numpy(np.repeat(sizes**-0.5, np.diff(users.indptr)).astype(np.float32))
        hidden = functional.embedding_bag(
            items, self.of_item, starts[:-1], mode="sum", per_sample_weights=functional.dropout(values, dropout)
        )
        mean, log_var = self.code(torch.tanh(hidden + self.bias)).chunk(2, dim=1)
        return mean, log_var

    def loss(self, users: sp.csr_array, kl_weight: float, dropout: float) -> Tensor:
        """Return the negative evidence bound per user, of one draw of the code; inputs are dropped at random."""
        mean, log_var = self.encode(users, dropout)
        logits = self.decoder(mean + torch.randn_like(mean) * torch.exp(log_var / 2))
        kl = (log_var.exp() + mean.square() - 1.0 - log_var).sum(1) / 2
        liked = torch.from_numpy(users.toarray())
        found: Tensor = (liked.sum(1) * logits.logsumexp(1) - (logits * liked).sum(1) + kl_weight * kl).mean()
        return found

    def scores(self, successes: sp.csr_array) -> FloatArray:
        """Return the logits of all items at the mean code of each user."""
        with torch.inference_mode(), at_most_threads(1, ("torch",)):
            return np.asarray(self.decoder(self.encode(successes)[0]).numpy(), dtype=np.float64)


def fit_mult_vae(task: Task, settings: Settings, rng: np.random.Generator) -> HistoryLearner:
    """Train on the successes of the training users; the weight of the KL term grows over the first half."""
    users = training_successes(task).astype(np.float32)
    users = users[np.diff(users.indptr) > 0]
    n_batches = -(-users.shape[0] // BATCH)
    batches: list[IntArray] = []
    with torch.random.fork_rng(devices=[]), at_most_threads(1, ("torch",)):
        torch.manual_seed(int(rng.integers(2**31)))
        model = MultVae(users.shape[1], settings["hidden"], settings["dim"])
        optimiser = torch.optim.Adam(model.parameters(), lr=settings["learning_rate"], fused=True)
        for step in range(settings["steps"]):
            weight = settings["kl_weight"] * min(1.0, 2.0 * (step + 1) / settings["steps"])
            batches = batches or np.array_split(rng.permutation(users.shape[0]), n_batches)
            loss = model.loss(users[batches.pop()], weight, settings["dropout"])
            optimiser.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            if not torch.isfinite(loss):
                raise TrainingDivergedError(f"the loss of mult-vae is {loss.item()}; lower learning_rate")
    return HistoryLearner(model.eval().scores, task)
