"""The Q-network of NICF (Zou et al., 2020), as released and with the attention that the paper describes.

A state is the session so far: item numbers 1..N (0: nothing) and rating levels 0..5, both (batch, rounds).
As released, the network sees only the last item of each level; with `attention` it sees them all.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

LEVELS = 6
SMALL = 1e-8


class QNetwork(nn.Module):
    """Network of the values of all items: six level embeddings -> layer norm -> one hidden layer -> (batch, N + 1)."""

    def __init__(
        self, n_items: int, dim: int, *, n_blocks: int, attention: bool, dropout: float, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.dim = dim

        def uniform(*shape: int, bound: float) -> nn.Parameter:
            return nn.Parameter((torch.rand(*shape, generator=generator) * 2 - 1) * bound)

        def glorot(*shape: int) -> nn.Parameter:
            return uniform(*shape, bound=math.sqrt(6 / (shape[-2] + shape[-1])))

        self.embeddings = uniform(LEVELS, n_items + 1, dim, bound=0.01)
        self.gain, self.bias = nn.Parameter(torch.ones(LEVELS, dim)), nn.Parameter(torch.zeros(LEVELS, dim))
        self.hidden, self.hidden_bias = glorot(LEVELS * dim, dim), nn.Parameter(torch.zeros(dim))
        self.out, self.out_bias = glorot(dim, n_items + 1), nn.Parameter(torch.zeros(n_items + 1))
        n_live = n_blocks if attention else 0
        self.blocks = nn.ModuleList(AttentionBlock(dim, dropout, glorot) for _ in range(n_live))
        self.level = torch.arange(LEVELS)

    def forward(self, items: Tensor, levels: Tensor) -> Tensor:
        """Return Q(state, item) for every item, shape (batch, N + 1)."""
        return self.values(self.encoded(items, levels))

    def encoded(self, items: Tensor, levels: Tensor) -> Tensor:
        """Encode the state as one vector per level, shape (batch, levels, d); rounds still to come have level -1."""
        if not self.blocks:
            return self.last_encoded(last_items(items, levels))
        x, ids, last = self.sequences(items, levels)
        for block in self.blocks:
            x = block(x, ids)
        final = torch.gather(x, 2, last[..., None, None].expand(-1, -1, 1, self.dim))[:, :, 0]
        return normalised(final, self.gain, self.bias)

    def last_encoded(self, last: Tensor) -> Tensor:
        """Encode the state from the last item of each level, which is all that the released network looks at."""
        return normalised(self.embeddings[self.level, last], self.gain, self.bias)

    def values(self, encoded: Tensor) -> Tensor:
        """Compute the values of all items from an encoded state by the two dense layers."""
        hidden = torch.relu(torch.addmm(self.hidden_bias, encoded.flatten(1), self.hidden))
        return torch.addmm(self.out_bias, hidden, self.out)

    def sequences(self, items: Tensor, levels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return one sequence per level after item 0: embeddings (b, levels, s, d), ids (b, levels, s), last places."""
        is_level = levels[:, None] == self.level[:, None]  # (b, levels, rounds)
        place = is_level.cumsum(-1)  # 1, 2, ... within its level
        last = place[..., -1] if items.shape[1] else torch.zeros(len(items), LEVELS, dtype=torch.long)
        ids = torch.zeros(len(items), LEVELS, int(last.max()) + 1 if last.numel() else 1, dtype=torch.long)
        batch, level, t = is_level.nonzero(as_tuple=True)
        ids[batch, level, place[batch, level, t]] = items[batch, t]
        return self.embeddings[self.level[:, None], ids], ids, last


class AttentionBlock(nn.Module):
    """Block of causal self-attention and a position-wise layer, with separate weights for each level."""

    def __init__(self, dim: int, dropout: float, make: Callable[..., nn.Parameter]) -> None:
        super().__init__()
        self.gain_1, self.gain_2 = (nn.Parameter(torch.ones(LEVELS, dim)) for _ in range(2))
        self.bias_1, self.bias_2 = (nn.Parameter(torch.zeros(LEVELS, dim)) for _ in range(2))
        self.query, self.key, self.value, self.up, self.down = (make(LEVELS, dim, dim) for _ in range(5))
        self.offsets = nn.Parameter(torch.zeros(5, LEVELS, 1, dim))
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Tensor, ids: Tensor) -> Tensor:
        """Transform (b, levels, s, d) to the same shape; a place attends to itself and to what came before."""
        s, d = x.shape[2], x.shape[3]
        x_norm = normalised(x, self.gain_1[:, None], self.bias_1[:, None])
        query, key, value = (
            source @ weight + offset
            for source, weight, offset in zip(
                (x_norm, x, x), (self.query, self.key, self.value), self.offsets[:3], strict=True
            )
        )
        causal = torch.ones(s, s, dtype=torch.bool).tril()
        is_live = (x != 0).any(-1)  # a padded place has features only before the first block
        allowed = causal & (is_live[..., None, :] | torch.eye(s, dtype=torch.bool))
        weights = (query @ key.transpose(-1, -2) / math.sqrt(d)).masked_fill(~allowed, -math.inf).softmax(-1)
        y = normalised(x_norm + weights @ value, self.gain_2[:, None], self.bias_2[:, None])
        inner = self.drop(torch.relu(y @ self.up + self.offsets[3]))
        out = y + self.drop(inner @ self.down + self.offsets[4])
        keep = ids != 0
        keep[..., 0] = True  # the leading place stands for an empty level
        masked: Tensor = out * keep[..., None]
        return masked


def normalised(x: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
    """Normalise over the last axis, with the small constant inside the root."""
    centred = x - x.mean(-1, keepdim=True)
    return centred * torch.rsqrt((centred * centred).mean(-1, keepdim=True) + SMALL) * gain + bias


def last_items(items: Tensor, levels: Tensor) -> Tensor:
    """Return the most recent item of each level, 0 where there is none: (batch, rounds) -> (batch, levels)."""
    n_rounds = items.shape[1]
    place = torch.arange(1, n_rounds + 1)
    latest = ((levels[:, None] == torch.arange(LEVELS)[:, None]) * place).amax(-1) if n_rounds else None
    if latest is None:
        return torch.zeros(len(items), LEVELS, dtype=torch.long)
    padded = torch.cat([torch.zeros(len(items), 1, dtype=torch.long), items], dim=1)
    return torch.gather(padded, 1, latest)
