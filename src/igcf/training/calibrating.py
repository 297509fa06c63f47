"""Choose the policy of a trained model and calibrate its chances, on validation users.

Users are simulated as in the protocol `observed`: only items to which they really reacted are available, so that every
shown item gets its true reaction. Where every reaction is a success that would be uninformative; then all items are.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from igcf.arrays import BoolArray, Float32Array, FloatArray, IntArray
from igcf.model import Model
from igcf.model.channel import sigmoid
from igcf.model.usage import Calibration, PolicyChoice, Usage, fit_shares
from igcf.online import Greedy, ModelLearner, Shown, Ucb, replay
from igcf.online.backend.numpy_items import CLIPPED
from igcf.online.backend.types import ItemTerms
from igcf.online.chance import ChanceScale, ItemBase, item_base, item_terms
from igcf.training.experts.executor import in_threads

ROUNDS = 40
LEAST_REACTIONS = (60, 20, 8)
"""Numbers of reactions that the users of a choice have, the first that enough of them reach."""
ENOUGH_USERS = 5
LOOKS = (0, 5, 10, 20, 30)  # rounds before which the number of successes among the best available items is predicted
COUNTED = 10  # items of such a prediction
DRAWS = 300
LEVEL = 0.8
SPREADS = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.15, 1.3, 1.5)
NUS = (0.1, 0.3)  # amounts of exploration that are tried, in this order until one is no better than none
MARGIN = 2.5  # standard errors by which something must be better than the default on validation users to be chosen


@dataclass(frozen=True, eq=False)
class Look:
    """The logits of each user's best available items before a round, and how many of these items satisfied."""

    mean: FloatArray  # means, shape (users, items)
    cov: FloatArray  # covariances, shape (users, items, items)
    count: IntArray  # successes, shape (users,)
    rows: IntArray  # rows of the items, shape (users, items)


@dataclass(frozen=True, eq=False)
class Played:
    """What a model said of the items that it showed, and what came of them; arrays of shape (users, rounds)."""

    mean: FloatArray  # mean of the logit that the chance is read from, before calibration
    variance: FloatArray  # its variance, where the chance depends on it; zero where the mean is one of a probability
    is_success: BoolArray
    looks: tuple[Look, ...]
    rows: IntArray
    base: ItemBase | None = None  # what the log says of all items; None where the model has no counts

    def items_at(self, rows: IntArray, calibration: Calibration) -> ItemTerms:
        """Return what the items at `rows` add to logits, arrays of that shape or of one number."""
        return item_terms(None if self.base is None else self.base.at(rows), calibration)


class LogitRecorder:
    """Learner that records what another one believes of what it shows."""

    def __init__(self, learner: ModelLearner, truth: Float32Array) -> None:
        self.learner, self.scale = learner, ChanceScale(learner.model)
        self._is_satisfying = truth >= learner.model.reward.threshold
        self._n_begun = 0
        self.shown: list[tuple[FloatArray, FloatArray]] = []
        self.looks: dict[int, list[Look]] = {}

    def begin(self, n_users: int, *, rng: np.random.Generator) -> None:
        """Begin with the next block of users."""
        self.learner.begin(n_users, rng=rng)
        self._users = np.arange(self._n_begun, self._n_begun + n_users)
        self._n_begun += n_users
        self._round = 0

    def select(self, available: BoolArray, k: int) -> IntArray:
        """Record the belief about the items, then select."""
        if self._round in LOOKS and self.scale.form == "liked":
            n = min(COUNTED, int(available.sum(axis=1).min()))
            means = np.where(available, self.learner.engine.means, -np.inf)
            best = np.argsort(-means, axis=1, kind="stable")[:, :n]
            mean, cov = logit_moments(self.scale, self.learner, best)
            count = self._is_satisfying[self._users[:, None], best].sum(axis=1)
            self.looks.setdefault(self._round, []).append(Look(mean, cov, count, best))
        self._round += 1
        rows = self.learner.select(available, k)
        mean, cov = logit_moments(self.scale, self.learner, rows[:, :1])
        self.shown.append((mean[:, 0], cov[:, 0, 0] if self.scale.form == "liked" else np.zeros(len(cov))))
        return rows

    def observe(self, rows: IntArray, values: Float32Array) -> None:
        """Pass the reactions on to the watched learner."""
        self.learner.observe(rows, values)


def logit_moments(scale: ChanceScale, learner: ModelLearner, rows: IntArray) -> tuple[FloatArray, FloatArray]:
    """Means (users, k) and covariances (users, k, k) of the logits that the chances of some items are read from."""
    model, engine = scale.model, learner.engine
    if scale.liked is None:
        p = np.clip(np.take_along_axis(engine.means, rows, axis=1).astype(np.float64), CLIPPED, 1.0 - CLIPPED)
        return np.log(p / (1.0 - p)), np.zeros((*rows.shape, rows.shape[1]))
    first = model.channels[scale.liked]
    own_means, own_covs = engine.belief_means[:, first.span], engine.belief_covs[:, first.span, first.span]
    x = first.vectors[rows].astype(np.float64)
    mean = np.einsum("ukd,ud->uk", x, own_means)
    return mean, x @ own_covs @ x.transpose(0, 2, 1)


def users_to_play(truth: Float32Array) -> tuple[Float32Array, int]:
    """Select the users with enough reactions, and the rounds that all of them can be played; 0 where nobody can be."""
    counts = (~np.isnan(truth)).sum(axis=1)
    for least in LEAST_REACTIONS:
        own = truth[counts >= least]
        if len(own) >= ENOUGH_USERS:
            return own, min(ROUNDS, int(counts[counts >= least].min()) // 2)
    return truth[:0], 0


def play_observed(learner: ModelLearner, truth: Float32Array, rounds: int, *, is_observed: bool = True) -> Played:
    """Play users for some rounds and record what was believed; all items are available unless `is_observed`."""
    recorder = LogitRecorder(learner, truth)
    available = ~np.isnan(truth) if is_observed else None
    return recorded(recorder, replay(recorder, truth, rounds=rounds, rng=np.random.default_rng(0), available=available))


def recorded(recorder: LogitRecorder, shown: Shown) -> Played:
    """Return what a replay has recorded."""
    rounds = shown.rows.shape[1]
    per_block = [recorder.shown[start : start + rounds] for start in range(0, len(recorder.shown), rounds)]
    mean, variance = (
        np.concatenate([np.stack([each[part] for each in block], axis=1) for block in per_block]) for part in (0, 1)
    )
    looks = tuple(
        Look(*(np.concatenate([getattr(look, name) for look in parts]) for name in ("mean", "cov", "count", "rows")))
        for parts in recorder.looks.values()
    )
    is_success = recorder.learner.model.reward.is_satisfied(shown.values[:, :, 0])
    return Played(mean, variance, is_success, looks, shown.rows[:, :, 0], recorder.scale.base)


def calibrated(model: Model, truth: Float32Array) -> Calibration:
    """Fit the calibration of a model's chances on validation users; neutral if there are too few."""
    form = ChanceScale(model).form
    own, rounds = users_to_play(truth)
    if form == "value" or rounds == 0:
        return Calibration()
    is_observed = model.reward.threshold > model.reward.low
    rounds = rounds if is_observed else min(ROUNDS, max(model.n_items // 4, 1))
    played = play_observed(ModelLearner(model, _policy(model)), own, rounds, is_observed=is_observed)
    scale = ChanceScale(model)
    shares = fit_shares(model.reactions) if model.reactions is not None and scale.liked is not None else None
    if shares is None or scale.liked is None:
        return fit_calibration(played)
    base = item_base(model, scale.liked, shares)
    return fit_calibration(replace(played, base=base), Calibration(shares=shares))


def fit_calibration(played: Played, prior: Calibration = Calibration()) -> Calibration:  # noqa: B008
    """Fit slope and shift by maximum likelihood for each spread; choose the spread by its 80 % intervals of counts.

    Among the spreads with a coverage within one standard error of the best, take the smallest: coverage depends little
    on the spread, and a wide interval is useless.

    The likelihood is that of the reactions to shown items, so that it knows how a best item is chosen: by being
    overrated. `prior` has what is believed of the items' shares, which stays.
    """
    if not played.looks:
        return _slope_and_shift(played, replace(prior, spread=1.0))
    fitted = in_threads(lambda spread: _slope_and_shift(played, replace(prior, spread=spread)), SPREADS)
    rng = np.random.default_rng(0)
    drawn = np.concatenate([places(played, look, fitted, rng=rng) for look in played.looks], axis=1)
    misses = [abs(coverage(each) - LEVEL) for each in drawn]
    error = np.sqrt(LEVEL * (1.0 - LEVEL) / len(played.mean))
    return next(own for miss, own in zip(misses, fitted, strict=True) if miss <= min(misses) + error)


def _slope_and_shift(played: Played, start: Calibration) -> Calibration:
    """Fit slope and shift; with shares there is no shift: for a new user the chance is then the item's share."""
    from scipy.optimize import minimize

    y, neutral = played.is_success, np.array([1.0, 0.0] if start.shares is None else [1.0])

    def at(numbers: FloatArray) -> Calibration:
        shift = float(numbers[1]) if start.shares is None else 0.0
        return replace(start, slope=max(float(numbers[0]), 0.05), shift=shift)

    def loss(numbers: FloatArray) -> float:
        p = np.clip(chance_of(played, at(numbers)), 1e-9, 1 - 1e-9)
        return float(-np.log(np.where(y, p, 1.0 - p)).mean() + 1e-4 * np.square(numbers - neutral).sum())

    return at(minimize(loss, neutral, method="Nelder-Mead").x)


def chance_of(played: Played, calibration: Calibration) -> FloatArray:
    """Return the chances of the shown items, shape (users, rounds)."""
    items = played.items_at(played.rows, calibration)
    variance = (calibration.slope * calibration.spread) ** 2 * played.variance + items.missing
    return sigmoid((calibration.slope * played.mean + items.offset) / np.sqrt(1.0 + np.pi / 8.0 * variance))


def places(played: Played, look: Look, calibrations: Sequence[Calibration], *, rng: np.random.Generator) -> FloatArray:
    """Return where each user's number of successes lies in its predicted distribution, 0 to 1, randomised.

    The distribution is that of draws of the user's vector, which all items share, of what is unknown of every item, and
    of its success. All calibrations share the draws; shape (calibrations, users).
    """
    size, axes = np.linalg.eigh(look.cov)
    root = axes * np.sqrt(np.maximum(size, 0.0))[:, None, :]
    noise = rng.standard_normal((len(look.mean), DRAWS, look.mean.shape[1]))
    of_vectors = np.einsum("ukl,udl->udk", root, noise)
    of_items, of_success, of_ties = rng.standard_normal(noise.shape), rng.random(noise.shape), rng.random(len(size))

    def under(calibration: Calibration) -> FloatArray:
        items = played.items_at(look.rows, calibration)
        z = look.mean[:, None] + calibration.spread * of_vectors
        own = np.sqrt(items.missing + items.own)[:, None] * of_items
        drawn = (of_success < sigmoid(calibration.slope * z + items.offset[:, None] + own)).sum(axis=2)
        is_same = (drawn == look.count[:, None]).mean(axis=1)
        return np.asarray((drawn < look.count[:, None]).mean(axis=1) + of_ties * is_same)

    return np.stack(in_threads(under, calibrations))


def coverage(places: FloatArray, level: float = LEVEL) -> float:
    """Return the share of counts within the central interval of this probability."""
    return float((np.abs(places - 0.5) <= level / 2).mean())


def successes(model: Model, truth: Float32Array, rounds: int, nu: float, *, is_observed: bool) -> FloatArray:
    """Return each user's number of successes under mean + nu * standard deviation."""
    learner = ModelLearner(model, Ucb(nu) if nu else Greedy())
    available = ~np.isnan(truth) if is_observed else None
    shown = replay(learner, truth, rounds=rounds, rng=np.random.default_rng(0), available=available)
    return np.asarray(model.reward.is_satisfied(shown.values).sum(axis=(1, 2)).astype(np.float64))


def precision(model: Model, truth: Float32Array, rounds: int, play: "Play" = successes) -> float:
    """Return the mean number of successes when every user of `truth` is played as a new user, greedily.

    At most a quarter of the catalogue is shown: once everything has been shown, all models are equal.
    """
    return float(play(model, truth, min(rounds, max(model.n_items // 4, 1)), 0.0, is_observed=False).mean())


Play: TypeAlias = Callable[..., FloatArray]  # function that plays users as `successes` does


def chosen_policy(model: Model, truth: Float32Array, rounds: int, play: Play) -> PolicyChoice:
    """Return the exploration that is best on validation users, in the manner of the objective: none unless it pays.

    `rounds` are those of a play in which everything is available, as for the objective hit; `play` is `successes`, or
    does the same on several workers.
    """
    is_observed = model.objective == "liking"
    own = truth
    if is_observed:
        own, rounds = users_to_play(truth)
    rounds = min(rounds, max(model.n_items // 4, 1))
    if rounds == 0 or len(own) < ENOUGH_USERS:
        return PolicyChoice("ucb", 0.0)
    best, most, greedy = 0.0, 0.0, play(model, own, rounds, 0.0, is_observed=is_observed)
    for nu in NUS:
        gain = play(model, own, rounds, nu, is_observed=is_observed) - greedy
        error = float(gain.std(ddof=1)) / np.sqrt(len(gain))
        if gain.mean() > max(MARGIN * error, most):
            best, most = nu, float(gain.mean())
        elif gain.mean() <= 0:  # more exploration would cost more
            break
    return PolicyChoice("ucb", best)


def for_use(model: Model, truth: Float32Array | None, rounds: int, play: Play = successes) -> Model:
    """Return the model with the policy and the calibration that validation users decide; neutral ones without them."""
    usage = replace(model.usage, policy=PolicyChoice("ucb", 0.0), is_ordered=True)
    if truth is None:
        return model.changed(usage=usage)
    usage = replace(usage, policy=chosen_policy(model, truth, rounds, play))
    return model.changed(usage=replace(usage, calibration=calibrated(model.changed(usage=usage), truth)))


def with_own_shares(usage: Usage, model: Model) -> Usage:
    """Return a usage that was decided with a model of fewer users or items, with the shares of this model's items."""
    if usage.calibration.shares is None or model.reactions is None:
        return usage
    shares = fit_shares(model.reactions) or usage.calibration.shares
    return replace(usage, calibration=replace(usage.calibration, shares=shares))


def _policy(model: Model) -> Greedy | Ucb:
    return Ucb(model.policy.nu) if model.policy.nu else Greedy()
