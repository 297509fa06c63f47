"""Settings of pretraining: frozen, typed and checked, whether they come from Python, a file or the command line."""

import math
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from importlib import import_module
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from igcf.errors import ConfigError

Feedback = Literal["continuous", "binary"]
Missing = Literal["ignore", "zero"]
GRAPHS = ("lightgcn", "sgc", "appnp", "none")
"""Graphs that have a name."""
Edges = Literal["observed", "satisfied"]
PredictedReward = Literal["raw", "scaled", "satisfied"]
"""What a model can be trained to predict."""
RewardKind = Literal[PredictedReward, "exposed", "liked"]
"""What a channel of a model can observe: also that there was a reaction at all, and success given a reaction."""
Optimiser = Literal["adam", "sgd"]
Schedule = Literal["cosine", "constant"]
Start = Literal["random", "zeros"]
BinaryUpdate = Literal["bound", "gaussian"]
METHODS = ("experts", "graph")
"""The default model, and the variational graph model of the paper."""
Objective = Literal["hit", "liking"]
"""What a model ranks by: the item is seen and liked; it is liked, if it is seen."""
HiddenSuccesses = Literal["latest", "random"]
"""Successes of held-out users by which is chosen what serves known users."""
COUNTS = (
    "dim", "epochs", "batch_size", "validate_every", "validate_rounds", "patience", "linear_dim", "logistic_dim",
    "iterations", "min_item_reactions",
)  # fmt: skip
POSITIVE = ("prior_std", "noise_std", "learning_rate", "online_noise_var", "likelihood_temperature", "penalty")
RANGES: tuple[tuple[tuple[str, ...], Callable[[float], bool], str], ...] = (
    (COUNTS, lambda x: x >= 1, "at least 1"),
    (POSITIVE, lambda x: 0 < x < math.inf, "a positive number"),
    (("layers", "missing_weight", "kl_weight", "gamma"), lambda x: 0 <= x < math.inf, "zero or more"),
    (("holdout",), lambda x: 0 <= x <= 0.5, "between 0 and 0.5"),
    (("teleport",), lambda x: 0 < x <= 1, "above 0 and at most 1"),
    (("satisfied",), math.isfinite, "a finite number"),
)
"""Names of settings, the test that their values pass, and the words for it."""
PLAIN: dict[Any, Any] = {bool: bool, int: Integral, float: Real, str: str}
WORDS: dict[Any, str] = {bool: "true or false", int: "a whole number", float: "a number", str: "text", NoneType: "none"}


@dataclass(frozen=True, kw_only=True)
class GraphConfig:
    """Settings of the variational graph model; the defaults were chosen on validation users.

    Example:
        >>> import igcf
        >>> igcf.GraphConfig(dim=32, layers=1).dim
        32
    """

    dim: int = 64
    """Size d of the user and item vectors."""
    feedback: Feedback = "continuous"
    """Gaussian (`eq::model::reg`) or Bernoulli (`eq::model::cls`) likelihood."""
    missing: Missing = "zero"
    """`ignore`: observed pairs only, as in the paper; `zero`: every pair without a reaction counts as a zero."""
    missing_weight: float = 1.0
    """Weight w0 of a pair without a reaction when `missing` is `zero`."""
    reward: PredictedReward = "satisfied"
    """Reward that the model predicts: the raw value, the value scaled to 0..1, or 1[value >= satisfied]."""
    satisfied: float | None = None
    """A reaction of at least this value is a success; None: chosen from the log's values (docs/data.md)."""
    graph: str = "appnp"
    """Kind of propagation: `lightgcn` (the paper's main one), `sgc`, `appnp`, `none` (matrix factorisation), or the
    import path `my.module:function` of one of your own (docs/howto/graph.md)."""
    layers: int = 2
    """Number K of propagation layers; 0 is matrix factorisation."""
    layer_weights: tuple[float, ...] | None = None
    """Layer weights alpha_0 .. alpha_K of LightGCN; None: 1 / (K + 1) each."""
    teleport: float = 0.6
    """Teleport probability beta of APPNP: the share of itself that a node keeps."""
    edges: Edges = "observed"
    """Pairs that are edges of the graph: all observed ones, or the successes."""
    prior_std: float = 1.0
    """Standard deviation sigma_0 of the prior on all vectors (`eq:para_init`)."""
    noise_std: float = 0.3
    """Standard deviation of the noise in the pretraining likelihood, in reward units."""
    online_noise_var: float | None = None
    """Noise variance of the online phase; None: estimated from the training residuals."""
    item_noise: bool = True
    """Estimate one noise variance per item instead of one for all (continuous feedback)."""
    binary_update: BinaryUpdate = "bound"
    """Online update of binary feedback: of the quadratic bound of the logistic likelihood, or `gaussian` as the paper
    prints it, success and failure as observations 1 and 0 of the logit (eq:update_dis)."""
    kl_weight: float = 1.0
    """Weight of the KL term; 1 gives the true evidence lower bound."""
    start: Start = "random"
    """Start of the means: small random numbers, or zeros with std log 2, as in alg:pretrain."""
    optimiser: Optimiser = "adam"
    """Method of gradient descent."""
    learning_rate: float = 0.05
    """Largest step size of the optimiser."""
    schedule: Schedule = "cosine"
    """Schedule of the learning rate over the epochs: a cosine down to a twentieth, or constant."""
    epochs: int = 150
    """Largest number of passes over the log; a full-batch step is one pass."""
    batch_size: int | None = None
    """Number of reactions per step; None: all of them in one step."""
    shuffle: bool = True
    """Shuffle the reactions in every epoch; otherwise batches follow the order of the log."""
    gamma: float = 1e-3
    """Number added to the diagonal of the population covariance (`gamma` of the meta prior)."""
    tune: bool = True
    """Choose the online noise variance and gamma on the validation users, where there are any."""
    holdout: float = 0.1
    """Share of users (the most active ones, 200 at most) set aside for validation when no validation log is given."""
    validate_every: int = 25
    """Number of epochs between two validations."""
    validate_rounds: int = 40
    """Rounds that each validation user is played; the score is the mean number of successes."""
    patience: int = 4
    """Number of validations without improvement after which training stops."""
    seed: int = 0
    """Seed of all random numbers: the same seed gives the same model."""

    def __post_init__(self) -> None:
        """Refuse what cannot work, naming the field, what was found and what was expected."""
        _check_fields(self)
        if self.layer_weights is not None and len(self.layer_weights) != self.layers + 1:
            found, wanted = len(self.layer_weights), self.layers + 1
            raise ConfigError(f"layer_weights has {found} entries, {self.layers} layers need {wanted}")
        if self.feedback == "binary" and self.reward != "satisfied":
            raise ConfigError(
                f"feedback=binary predicts success or failure: it needs reward=satisfied, got {self.reward}"
            )
        if self.missing == "zero" and self.batch_size is not None:
            raise ConfigError("missing=zero uses all pairs in every step; leave batch_size out or take missing=ignore")

    @classmethod
    def paper(cls, feedback: Feedback = "continuous", **changes: Any) -> "GraphConfig":
        """Return the settings of the paper's algorithm as printed (alg:pretrain); `changes` replace some of them.

        What the paper does not print (sigma_0, sigma_noise, batch size, number of epochs) is chosen here; the epochs
        by held-out users. docs/deviations.md lists what still differs.

        Example:
            >>> import igcf
            >>> igcf.GraphConfig.paper("binary", dim=32).reward
            'satisfied'
        """
        noise_var = 0.5  # one sigma_noise in both phases; the loss is then the mean squared error
        printed: dict[str, Any] = {
            "feedback": feedback,  # eq::model::reg or eq::model::cls
            "reward": "satisfied" if feedback == "binary" else "raw",
            "binary_update": "gaussian",  # eq:update_dis for both kinds of feedback
            "missing": "ignore",  # eq::objective::reg and eq::objective::cls sum over observed pairs
        }
        graph = {"graph": "lightgcn", "layers": 3, "gamma": 1.0, "start": "zeros"}
        noise = {"noise_std": noise_var**0.5, "online_noise_var": noise_var, "item_noise": False}
        steps = {"optimiser": "sgd", "learning_rate": 5.0, "schedule": "constant", "batch_size": 200, "epochs": 20}
        return cls(**{**printed, **graph, **noise, **steps, "validate_every": 1, "tune": False, **changes})

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as plain values, for `meta.json` and reports."""
        return {"method": "graph", **asdict(self)}


@dataclass(frozen=True, kw_only=True)
class ExpertsConfig:
    """Settings of the default model, the average of a linear and a logistic factor model.

    None: chosen on validation users.

    >>> import igcf
    >>> igcf.ExpertsConfig(satisfied=4, objective="liking").objective  # `igcf.pretrain(data, config=...)` takes it
    'liking'
    """

    satisfied: float | None = None
    """A reaction of at least this value is a success; None: chosen from the log's values (docs/data.md)."""
    linear_dim: int = 48
    """Number of components of the linear expert."""
    min_item_reactions: int | None = None
    """Number of reactions that an item needs to be in the factor models; the others are known by their popularity
    alone. None: as few as leave at most 50,000 items."""
    likelihood_temperature: float | None = None
    """Number that divides the evidence of every reaction; None: 1, 2, 4 or 8."""
    objective: Objective = "hit"
    """What the model ranks by: `hit` (seen and liked), or `liking` (liked, if seen), which is better where everything
    that is shown gets a reaction. Models of implicit logs, which cannot separate liking from seeing, rank by hit."""
    calibrated: bool = True
    """Choose the policy and calibrate the chance on validation users, as a model in use needs it."""
    grades: bool = True
    """Also learn how far a reaction is above or below the threshold of success, if the log has grades."""
    refit: bool = True
    """Refit to everybody, validation users included, once all choices are made on validation users who had
    not been learned from; calibration and policy stay those of the model that had not learned from them."""
    known_users: bool = True
    """Also learn what serves known users: how far their records are believed, and a low-pass filter of the graph."""
    hidden_successes: HiddenSuccesses = "latest"
    """Successes of held-out users by which that is chosen: the `latest` where the log has times, as known users are
    asked what they will like next, or a `random` part, which asks what else belongs in their record."""
    logistic_dim: int = 32
    """Size of the logistic expert's user vectors."""
    iterations: int = 15
    """Number of iterations of variational EM; a log of many users takes half of them (docs/maths/experts.md)."""
    penalty: float = 5.0
    """Precision of the Gaussian prior on the logistic expert's item vectors."""
    holdout: float = 0.1
    """Share of users (the most active ones, 200 at most) set aside for choices when no validation log is given; with
    objective=liking, drawn users, at most a quarter of those with 60 reactions; 0 sets nobody aside."""
    validate_rounds: int = 120
    """Rounds that each validation user is played; the score is the mean number of successes."""
    seed: int = 0
    """Seed of all random numbers: the same seed gives the same model."""

    def __post_init__(self) -> None:
        """Refuse what cannot work, naming the field, what was found and what was expected."""
        _check_fields(self)

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as plain values, for `meta.json` and reports."""
        return {"method": "experts", **asdict(self)}


def _check_fields(config: "Config") -> None:
    for name in field_types(type(config)):
        object.__setattr__(config, name, checked_setting(type(config), name, getattr(config, name)))


def checked_setting(kind: type["Config"], name: str, value: Any) -> Any:
    """Return `value` with the type that the field `name` of `kind` declares, or raise if it or its range is wrong.

    A value may also be text, as on the command line: `0.5`, `true`, `none`, `0.5,0.5`.
    """
    hint = field_types(kind)[name]
    try:
        value = typed(value, hint)
    except ValueError:
        raise ConfigError(f"{name} must be {described(hint)}, got {value!r}") from None
    if name == "graph" and value not in GRAPHS and ":" not in value:
        raise ConfigError(f"graph must be one of {', '.join(GRAPHS)} or an import path module:function, got {value!r}")
    for names, is_good, expected in RANGES:
        if name in names and value is not None and not is_good(value):
            raise ConfigError(f"{name} must be {expected}, got {value}")
    return value


Config: TypeAlias = GraphConfig | ExpertsConfig


def field_types(kind: type[Config]) -> dict[str, Any]:
    """Return the declared type of every field of a configuration, by name."""
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


def parse_settings(pairs: Iterable[str]) -> dict[str, Any]:
    """Read texts such as `layers=3` as settings, with the types of their fields."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, separator, text = pair.partition("=")
        name, option = name.replace("-", "_"), f"--set {pair}"
        if not separator or name not in (known := field_types(GraphConfig) | field_types(ExpertsConfig)):
            raise ConfigError(f"{option}: expected NAME=VALUE with a name out of {', '.join(known)}")
        found[name] = checked_option(option, name, text)
    return found


def checked_option(option: str, name: str, value: object) -> Any:
    """Check a setting of either configuration; an error names the option as it was written."""
    try:
        return checked_setting(GraphConfig if name in field_types(GraphConfig) else ExpertsConfig, name, value)
    except ConfigError as error:
        raise ConfigError(f"{option}: {error}") from error


def choices(name: str, kind: type[Config] = GraphConfig) -> tuple[str, ...]:
    """Return the words that a setting of the graph model, or of another `kind`, may have."""
    return get_args(field_types(kind)[name])


def configured(config: Config | None, settings: Mapping[str, Any]) -> Config:
    """Replace some fields of `config`, or of the defaults of the model that the setting `method` names."""
    settings = dict(settings)
    if (method := settings.pop("method", None)) not in (None, *METHODS):
        raise ConfigError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    if config is None:
        config = GraphConfig() if method == "graph" else ExpertsConfig()
    elif method is not None and config.as_dict()["method"] != method:
        raise ConfigError(f"method={method} does not fit config, a {type(config).__name__}; leave one of them out")
    known = field_types(type(config))
    if unknown := sorted(settings.keys() - known.keys()):
        if unknown[0] in field_types(GraphConfig):
            raise ConfigError(f'{unknown[0]} is a setting of the graph model: it needs method="graph" (--method graph)')
        raise ConfigError(f"unknown setting {unknown[0]!r}; known are {', '.join(sorted(known))}")
    return replace(config, **settings)


def imported(path: str) -> Any:
    """Return what the import path `module:NAME` names; a module is also looked for in the current folder.

    That is how `python -m` looks for one, so that a file of one's own needs no installation.
    """
    module, _, name = path.partition(":")
    if "" not in sys.path and (here := os.getcwd()) not in sys.path:
        sys.path.insert(0, here)
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"cannot import {path}: {error}; expected module:NAME") from error


def typed(value: Any, hint: Any) -> Any:
    """Return `value` as an instance of the annotation `hint`, or raise ValueError.

    Understood are bool, int, float, str, Literal of strings, tuple[X, ...] and X | None. Nothing is guessed: 1 is not
    true, 1.5 is not a whole number, and only the words none, true and false have a meaning of their own.
    """
    origin, options = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        if value is None or (isinstance(value, str) and value.lower() == "none"):
            return _checked(None, NoneType in options)
        (hint,) = (each for each in options if each is not NoneType)
        return typed(value, hint)
    if origin is Literal:
        return _checked(value, value in options)
    if origin is tuple:
        parts = value.split(",") if isinstance(value, str) else value
        return tuple(typed(part, options[0]) for part in _checked(parts, isinstance(parts, Iterable)))
    if isinstance(value, str):
        value = {"true": True, "false": False}.get(value.lower()) if hint is bool else hint(value)
    return hint(_checked(value, isinstance(value, PLAIN[hint]) and isinstance(value, bool) == (hint is bool)))


def described(hint: Any) -> str:
    """Describe an annotation in words for an error message: `a whole number or none`."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return " or ".join(described(part) for part in get_args(hint))
    if origin is Literal:
        return f"one of {', '.join(get_args(hint))}"
    if origin is tuple:
        return "numbers with commas between them"
    return WORDS[hint]


def _checked(value: Any, is_right: bool) -> Any:
    if not is_right:
        raise ValueError(value)
    return value
