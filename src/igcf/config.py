"""Frozen, validated settings of pretraining; command-line options have the names of the fields."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from igcf.errors import ConfigError

Feedback = Literal["continuous", "binary"]
Missing = Literal["ignore", "zero"]
GraphName = Literal["lightgcn", "sgc", "appnp", "none"]
Edges = Literal["observed", "satisfied"]
RewardKind = Literal["raw", "scaled", "satisfied"]
Optimiser = Literal["adam", "sgd"]


@dataclass(frozen=True, kw_only=True)
class PretrainConfig:
    """How a model is learned from a log; the defaults are the best configuration that the project knows."""

    dim: int = 64
    """Size d of user and item vectors."""
    feedback: Feedback = "continuous"
    """Gaussian (`eq::model::reg`) or Bernoulli (`eq::model::cls`) likelihood."""
    missing: Missing = "zero"
    """`ignore`: observed pairs only, as in the paper; `zero`: every pair without a reaction counts as a zero."""
    missing_weight: float = 1.0
    """Weight w0 of a pair without a reaction when `missing` is `zero`."""
    reward: RewardKind = "satisfied"
    """What the model predicts: the raw value, the value scaled to 0..1, or 1[value >= satisfied]."""
    satisfied: float | None = None
    """A reaction of at least this value is a success; None: 0.75 of the way from the log's smallest to its largest value."""
    graph: GraphName = "lightgcn"
    layers: int = 2
    """Number K of propagation layers; 0 is matrix factorisation."""
    layer_weights: tuple[float, ...] | None = None
    """alpha_0 .. alpha_K of LightGCN; None: 1 / (K + 1) each."""
    teleport: float = 0.1
    """beta of APPNP."""
    edges: Edges = "observed"
    """Which pairs are edges of the graph."""
    prior_std: float = 1.0
    """sigma_0 of `eq:para_init`."""
    noise_std: float = 0.3
    """sigma_noise in reward units, of the pretraining likelihood."""
    online_noise_var: float | None = None
    """Noise variance of the online phase; None: estimated from the training residuals."""
    kl_weight: float = 1.0
    """Weight of the KL term; 1 gives the true evidence lower bound."""
    optimiser: Optimiser = "adam"
    learning_rate: float = 0.05
    epochs: int = 150
    """Passes over the log; a full-batch step is one pass."""
    batch_size: int | None = None
    """Reactions per step; None: all of them in one step."""
    gamma: float = 1e-3
    """Added to the diagonal of the population covariance (`gamma` of the meta prior)."""
    total_variance: bool = False
    """Add the users' mean posterior variance to the population covariance (law of total variance)."""
    validate_every: int = 10
    """Epochs between two looks at the validation users."""
    patience: int = 5
    """Looks without improvement before training stops."""
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot work, naming the field, what was found and what was expected."""
        at_least_one = {name: getattr(self, name) for name in ("dim", "epochs", "validate_every", "patience")}
        positive = {name: getattr(self, name) for name in ("prior_std", "noise_std", "learning_rate")}
        not_negative = {name: getattr(self, name) for name in ("layers", "missing_weight", "kl_weight", "gamma")}
        for name, value in at_least_one.items():
            if value < 1:
                raise ConfigError(f"{name} must be at least 1, got {value}")
        for name, value in positive.items():
            if not 0 < value < float("inf"):
                raise ConfigError(f"{name} must be a positive number, got {value}")
        for name, value in not_negative.items():
            if not 0 <= value < float("inf"):
                raise ConfigError(f"{name} must be zero or more, got {value}")
        if self.batch_size is not None and self.batch_size < 1:
            raise ConfigError(f"batch_size must be at least 1, got {self.batch_size}")
        if self.online_noise_var is not None and not 0 < self.online_noise_var < float("inf"):
            raise ConfigError(f"online_noise_var must be a positive number, got {self.online_noise_var}")
        if not 0 < self.teleport <= 1:
            raise ConfigError(f"teleport must lie in (0, 1], got {self.teleport}")
        if self.layer_weights is not None and len(self.layer_weights) != self.layers + 1:
            raise ConfigError(
                f"layer_weights has {len(self.layer_weights)} entries, {self.layers} layers need {self.layers + 1}"
            )
        if self.missing == "zero" and self.batch_size is not None:
            raise ConfigError("missing=zero uses all pairs in every step; leave batch_size out or take missing=ignore")

    def as_dict(self) -> dict[str, Any]:
        """The settings as plain values, for `meta.json` and reports."""
        return asdict(self)
