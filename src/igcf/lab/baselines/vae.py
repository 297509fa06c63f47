"""`mult-vae`: a variational autoencoder with a multinomial likelihood (Liang et al., 2018)."""

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.nn import functional

from igcf.arrays import FloatArray
from igcf.errors import TrainingDivergedError
from igcf.lab.baselines.history import HistoryLearner, training_successes
from igcf.lab.baselines.task import Settings, Task
from igcf.threads import at_most_threads

BATCH = 256


class MultVae(nn.Module):
    """Encoder of a user's successes to a Gaussian code, and decoder to the logits of all items."""

    def __init__(self, n_items: int, hidden: int, dim: int) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(n_items, hidden), nn.Tanh(), nn.Linear(hidden, 2 * dim))
        self.decoder = nn.Sequential(nn.Linear(dim, hidden), nn.Tanh(), nn.Linear(hidden, n_items))

    def loss(self, x: Tensor, kl_weight: float, dropout: float) -> Tensor:
        """Return the negative evidence bound per user, of one draw of the code; inputs are dropped at random."""
        mean, log_var = self.encoder(functional.dropout(functional.normalize(x), dropout)).chunk(2, dim=1)
        logits = self.decoder(mean + torch.randn_like(mean) * torch.exp(log_var / 2))
        kl = (log_var.exp() + mean.square() - 1.0 - log_var).sum(1) / 2
        found: Tensor = (-(functional.log_softmax(logits, dim=1) * x).sum(1) + kl_weight * kl).mean()
        return found

    def scores(self, successes: sp.csr_array) -> FloatArray:
        """Return the logits of all items at the mean code of each user."""
        with torch.inference_mode(), at_most_threads(1, ("torch",)):
            x = functional.normalize(torch.from_numpy(successes.toarray().astype(np.float32)))
            return np.asarray(self.decoder(self.encoder(x).chunk(2, dim=1)[0]).numpy(), dtype=np.float64)


def fit_mult_vae(task: Task, settings: Settings, rng: np.random.Generator) -> HistoryLearner:
    """Train on the successes of the training users; the weight of the KL term grows over the first half."""
    users = training_successes(task).astype(np.float32)
    users = users[np.diff(users.indptr) > 0]
    with torch.random.fork_rng(devices=[]), at_most_threads(1, ("torch",)):
        torch.manual_seed(int(rng.integers(2**31)))
        model = MultVae(users.shape[1], settings["hidden"], settings["dim"])
        optimiser = torch.optim.Adam(model.parameters(), lr=settings["learning_rate"])
        for epoch in range(settings["epochs"]):
            weight = settings["kl_weight"] * min(1.0, 2.0 * (epoch + 1) / settings["epochs"])
            for rows in np.array_split(rng.permutation(users.shape[0]), -(-users.shape[0] // BATCH)):
                loss = model.loss(torch.from_numpy(users[rows].toarray()), weight, settings["dropout"])
                optimiser.zero_grad(set_to_none=True)
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
            if not torch.isfinite(loss):
                raise TrainingDivergedError(f"the loss of mult-vae is {loss.item()}; lower learning_rate")
    return HistoryLearner(model.eval().scores, task)
