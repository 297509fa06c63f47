"""How items are ranked: a score per item from the state of the users, and the registry of policies by name."""

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from igcf.arrays import AnyFloatArray, BoolArray, FloatArray, covariance_root
from igcf.errors import ConfigError
from igcf.model.usage import PolicyChoice
from igcf.online.engine import ScoringEngine

Propensity = Literal["exact", "sampled", "unknown"]
POLICIES: "dict[str, type[Policy]]" = {}
"""Every policy that has a name, in the order of definition; command line, HTTP, page and settings offer these."""


class Parameter(NamedTuple):
    """A number that a policy takes."""

    name: str
    default: float
    low: float
    high: float
    is_open: bool  # whether the ends of the range are excluded
    description: str

    def check(self, value: float) -> None:
        """Refuse a value outside the range."""
        is_within = self.low < value < self.high if self.is_open else self.low <= value <= self.high
        if not (is_within and math.isfinite(value)):
            ends = "strictly between" if self.is_open else "between"
            limits = f"be {ends} {self.low:g} and {self.high:g}" if self.high < math.inf else f"be {self.low:g} or more"
            raise ConfigError(f"{self.name} must {limits}, got {value}")


def parameter(
    default: float, description: str, *, low: float = 0.0, high: float = math.inf, is_open: bool = False
) -> Any:
    """Declare a field of a policy as one of its parameters.

    Args: its default, one sentence about it, the ends of its range, and whether these are excluded.
    """
    return field(default=default, metadata={"parameter": (low, high, is_open, description)})


class Policy:
    """Base class of policies, which turn the state of users into scores; larger is recommended first.

    A subclass is a frozen dataclass; fields made by `parameter` are its parameters. With a `name` it is registered
    in `POLICIES`.

    Example:
        With the model of the example of `igcf.Model`:

        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class Contrarian(igcf.online.Policy):
        ...     def scores(self, engine, available, *, rng):
        ...         return -engine.means
        >>> igcf.Recommender(model, policy=Contrarian()).session().recommend()[0].item_id
        'coffee'
    """

    name: ClassVar[str] = ""  # on the command line and over HTTP; a policy without one can be used from Python only
    label: ClassVar[str] = ""  # on the page; by default the name of the class
    needs_variances: ClassVar[bool] = True  # whether scores read variances, which cost more to keep than the means
    propensity: ClassVar[Propensity] = "unknown"
    """How choices come about: `exact`, the state alone decides; `sampled`, the expected rewards under one draw of the
    user's vector, so that the probability of a choice is a share of draws; `unknown` otherwise."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Register the policy; one that changes the scores of another inherits no claim about its choices."""
        super().__init_subclass__(**kwargs)
        own = cls.__dict__
        if "scores" in own:
            inherited = {"propensity": "unknown", "needs_variances": True, "optimism": None, "name": "", "label": ""}
            for attribute, value in inherited.items():
                if attribute not in own:
                    setattr(cls, attribute, value)
        cls.label = cls.label or cls.__name__
        if own.get("name"):
            known = POLICIES.get(cls.name)
            if known is not None and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
                raise ConfigError(f"the policy name {cls.name!r} is taken by {known.__module__}.{known.__qualname__}")
            POLICIES[cls.name] = cls

    def __post_init__(self) -> None:
        """Refuse parameters outside their ranges."""
        for each in self.parameters():
            each.check(getattr(self, each.name))

    @classmethod
    def parameters(cls) -> tuple[Parameter, ...]:
        """Return the declared parameters."""
        declared: dict[str, Any] = getattr(cls, "__dataclass_fields__", {})
        own = [each for each in declared.values() if "parameter" in each.metadata]
        return tuple(Parameter(each.name, each.default, *each.metadata["parameter"]) for each in own)

    @property
    def optimism(self) -> float | None:
        """The nu of a policy that scores by mean + nu * standard deviation, which has a compiled path; None: others."""
        return None

    @property
    def uses_variances(self) -> bool:
        """Whether variances are read with these parameters."""
        return self.needs_variances and self.optimism != 0

    def scores(self, engine: ScoringEngine, available: BoolArray, *, rng: np.random.Generator) -> AnyFloatArray:
        """Return one score per user and item, (users, items): a new array, or `engine.means` itself.

        `available` marks what may be recommended; the scores of these items must be finite.
        """
        raise NotImplementedError

    def draw(self, engine: ScoringEngine, rng: np.random.Generator, n: int = 1) -> FloatArray:
        """Draw `n` vectors of each user from the belief, (users, n, d), for policies with a `sampled` propensity."""
        noise = rng.standard_normal((len(engine.belief_means), n, engine.belief_means.shape[1]))
        steps = np.einsum("bij,bnj->bni", covariance_root(engine.belief_covs), noise)
        return np.asarray(engine.belief_means[:, None] + steps)


@dataclass(frozen=True)
class Ucb(Policy):
    """Optimism: mean + nu * std (eq:UCB2).

    Example:
        With the model of the example of `igcf.Model`:

        >>> pick = igcf.Recommender(model, policy=igcf.Ucb(nu=2.0)).session().recommend()[0]
        >>> round(pick.mean, 2), round(pick.std, 2), round(pick.score, 2)
        (0.6, 1.0, 2.6)
    """

    name: ClassVar[str] = "ucb"
    label: ClassVar[str] = "Optimist (UCB)"
    propensity: ClassVar[Propensity] = "exact"

    nu: float = parameter(0.5, "Exploration of ucb: mean + nu * std.")
    item_uncertainty: bool = False  # also count the uncertainty of the item vectors themselves

    @property
    def optimism(self) -> float | None:
        """The factor on the standard deviation."""
        return None if self.item_uncertainty else self.nu

    def scores(self, engine: ScoringEngine, available: BoolArray, *, rng: np.random.Generator) -> AnyFloatArray:
        """Return the means plus `nu` standard deviations."""
        if self.nu == 0:
            return engine.means
        variances = engine.variances + engine.item_uncertainty() if self.item_uncertainty else engine.variances
        scores: AnyFloatArray = np.sqrt(variances)
        scores *= self.nu
        scores += engine.means
        return scores


@dataclass(frozen=True)
class InfoUcb(Policy):
    """Optimism by information (eq:UCB): mean + Gamma_t / 2 * sqrt(I), I = log(1 + var / noise) / 2.

    With probability 1 - delta the bound holds for all available items at once (thm:ucb).

    Example:
        With the model of the example of `igcf.Model`:

        >>> pick = igcf.Recommender(model, policy=igcf.InfoUcb(delta=0.1)).session().recommend()[0]
        >>> pick.score > pick.mean
        True
    """

    name: ClassVar[str] = "info-ucb"
    label: ClassVar[str] = "Optimist by information"
    propensity: ClassVar[Propensity] = "exact"

    delta: float = parameter(0.05, "Failure probability of the bound of info-ucb.", high=1.0, is_open=True)

    def scores(self, engine: ScoringEngine, available: BoolArray, *, rng: np.random.Generator) -> AnyFloatArray:
        """Return the means plus the information-theoretic widths."""
        var = engine.variances
        log_term = np.log1p(var / engine.model.item_noise)  # twice the mutual information
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = np.where(log_term > 0, var / log_term, engine.model.item_noise)
        largest = np.where(available, ratio, 0.0).max(axis=1, keepdims=True)
        n_available = np.maximum(available.sum(axis=1, keepdims=True), 1)
        gamma = 4.0 * np.sqrt(largest * np.log(2.0 * n_available / self.delta))  # Gamma_t of thm:ucb
        return np.asarray(engine.means + gamma / 2.0 * np.sqrt(log_term / 2.0))


@dataclass(frozen=True)
class Thompson(Policy):
    """Posterior sampling: rank by the rewards under one user vector drawn from the belief.

    Example:
        With the model of the example of `igcf.Model`:

        >>> sampler = igcf.Recommender(model, policy=igcf.Thompson(), seed=2)
        >>> [sampler.session().recommend()[0].item_id for _ in range(3)]
        ['coffee', 'tea', 'tea']
    """

    name: ClassVar[str] = "thompson"
    label: ClassVar[str] = "Sampler (Thompson)"
    needs_variances: ClassVar[bool] = False
    propensity: ClassVar[Propensity] = "sampled"

    def scores(self, engine: ScoringEngine, available: BoolArray, *, rng: np.random.Generator) -> AnyFloatArray:
        """Return the expected rewards under one draw per user."""
        return engine.expected_under(self.draw(engine, rng)[:, 0])


@dataclass(frozen=True, eq=False)
class OneOfDraws(Policy):
    """Posterior sampling by one of some vectors of the only user that were drawn before, each equally likely.

    The probability of every answer is known: it is the share of the vectors that give this answer.
    """

    propensity: ClassVar[Propensity] = "sampled"
    needs_variances: ClassVar[bool] = False

    vectors: FloatArray
    """Shape (draws, d)."""
    chosen: int

    def scores(self, engine: ScoringEngine, available: BoolArray, *, rng: np.random.Generator) -> AnyFloatArray:
        """Return the expected rewards under the chosen vector."""
        return engine.expected_under(self.vectors[[self.chosen]])

    def draw(self, engine: ScoringEngine, rng: np.random.Generator, n: int = 1) -> FloatArray:
        """Return the chosen vector, (1, 1, d)."""
        return self.vectors[None, [self.chosen]]


@dataclass(frozen=True)
class Greedy(Policy):
    """The item with the highest expected reward; never explores on purpose.

    Example:
        With the model of the example of `igcf.Model`:

        >>> igcf.Recommender(model, policy=igcf.Greedy()).session().recommend()[0].item_id
        'tea'
    """

    name: ClassVar[str] = "greedy"
    label: ClassVar[str] = "Best guess only"
    needs_variances: ClassVar[bool] = False
    propensity: ClassVar[Propensity] = "exact"

    @property
    def optimism(self) -> float | None:
        """The factor on the standard deviation: none."""
        return 0.0

    def scores(self, engine: ScoringEngine, available: BoolArray, *, rng: np.random.Generator) -> AnyFloatArray:
        """Return the posterior means."""
        return engine.means


def policy_class(name: str) -> type[Policy]:
    """Return the policy that is registered under `name`."""
    try:
        return POLICIES[name]
    except KeyError:
        raise ConfigError(f"policy {name!r} is not known; choose one of {', '.join(POLICIES)}") from None


def named_policy(name: str, **parameters: float | None) -> Policy:
    """Return the policy called `name`; a parameter that is None or left out has its default.

    Example:
        >>> import igcf
        >>> igcf.online.named_policy("ucb", nu=0.2)
        Ucb(nu=0.2, item_uncertainty=False)
    """
    found, given = policy_class(name), {each: value for each, value in parameters.items() if value is not None}
    declared = [each.name for each in found.parameters()]
    for each in given:
        if each not in declared:
            takes = f"it takes {', '.join(declared)}" if declared else "it takes none"
            raise ConfigError(f"policy {name} has no parameter {each}; {takes}")
    return found(**given)


def own_policy(choice: PolicyChoice, **parameters: float | None) -> Policy:
    """Return the policy that a model says to use, with other parameters where they are given.

    The model's nu counts where the policy has one.
    """
    if parameters.get("nu") is None and has_nu(choice.name):
        parameters["nu"] = choice.nu
    return named_policy(choice.name, **parameters)


def has_nu(name: str) -> bool:
    """Whether the policy called `name` has the parameter nu, which models and requests carry."""
    return any(each.name == "nu" for each in policy_class(name).parameters())
