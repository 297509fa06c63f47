"""Calibration: whether predicted probabilities come true, for single candidates and for counts of successes.

    python -m tools.calibration ml-1m --out docs/figures/calibration.svg
    python -m tools.calibration ratings.csv --methods igcf --rounds 40

Every few rounds, before the next choice, each user's likeliest candidates are compared:

- reliability: the predicted probability of each of them beside the share that satisfied;
- coverage: the belief says how many of the best of them should satisfy, as a distribution (draws of the user's vector,
  then of every item's success). Where it is right, what was observed falls into its central 50 % in half of the cases.
  A count is discrete, so its place in the distribution is drawn uniformly within its own probability.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from igcf.arrays import BoolArray, Float32Array, FloatArray, IntArray, covariance_root
from igcf.charts import Line, Tone, line_chart, standalone
from igcf.cli.options import SEED, names_in
from igcf.cli.output import echo, note
from igcf.data import Interactions, load_dataset
from igcf.errors import ConfigError
from igcf.lab.baselines import method_named
from igcf.lab.evaluate.protocols import Setup, prepare, setup_for
from igcf.lab.evaluate.tuned_settings import parse_changes, tuned_settings
from igcf.model import Model
from igcf.model.channel import activations, expectation
from igcf.online import Belief, ModelLearner, replay
from igcf.tables import Table, as_markdown

LEVELS = (0.5, 0.8, 0.95)
LOOK_EVERY = 20
CANDIDATES = 200
"""Number of candidates per user and look: reliability is about what could be shown soon, not about all items."""
SHOWN = 10
"""Number of best candidates, those that would be shown, with a calibration of their own."""
COUNTED = 50
"""Number of best candidates with one predicted distribution of successes."""
DRAWS = 200
N_BINS = 10


@dataclass(frozen=True, eq=False)
class Calibration:
    """Predictions of one method and what came true."""

    method: str
    predicted: FloatArray
    """Predicted probabilities, shape (predictions,)."""
    observed: BoolArray
    """Whether each prediction came true, shape (predictions,)."""
    places: FloatArray
    """Place of each count in its predicted distribution, 0 to 1, shape (users x looks,); uniform if that is right."""
    is_shown: BoolArray
    """Whether a prediction is about one of the ten likeliest candidates of a user, shape (predictions,)."""

    @property
    def bins(self) -> list[tuple[float, float, int]]:
        """Bins of mean prediction, share that came true, and number of predictions, by tenths of the prediction."""
        number = np.minimum((self.predicted * N_BINS).astype(int), N_BINS - 1)
        parts = [(self.predicted[number == each], self.observed[number == each]) for each in np.unique(number)]
        return [(float(predicted.mean()), float(observed.mean()), len(predicted)) for predicted, observed in parts]

    @property
    def error(self) -> float:
        """Expected calibration error: mean distance of prediction and share, weighted by the number of predictions."""
        return float(sum(n * abs(p - y) for p, y, n in self.bins) / len(self.predicted))

    @property
    def error_at_10(self) -> float:
        """The same for the ten likeliest candidates of each user, which are those that would be shown."""
        return replace(self, predicted=self.predicted[self.is_shown], observed=self.observed[self.is_shown]).error

    def covered(self, level: float) -> float:
        """Return the share of counts in the central interval of a nominal probability."""
        return float((np.abs(self.places - 0.5) <= level / 2).mean())

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        p = np.clip(self.predicted, 1e-3, 1.0 - 1e-3)
        return {
            "method": self.method,
            "mean_predicted": float(self.predicted.mean()),
            "mean_observed": float(self.observed.mean()),
            "ece": self.error,
            "ece_at_10": self.error_at_10,
            "log_loss": float(-np.log(np.where(self.observed, p, 1.0 - p)).mean()),
            "coverage": {f"{level:.0%}": self.covered(level) for level in LEVELS},
            "bins": [{"predicted": p, "observed": y, "n": n} for p, y, n in self.bins],
        }


class PredictionRecorder:
    """Learner that records the predictions of another one before some rounds."""

    def __init__(self, learner: ModelLearner, is_satisfying: BoolArray, rng: np.random.Generator) -> None:
        self.learner, self._truth, self._rng = learner, is_satisfying, rng
        self._next_user = 0
        self._looks: list[tuple[FloatArray, BoolArray, FloatArray, BoolArray]] = []

    def found(self, method: str) -> Calibration:
        """Return everything that was recorded."""
        return Calibration(method, *map(np.concatenate, zip(*self._looks, strict=True)))

    def begin(self, n_users: int, *, rng: np.random.Generator) -> None:
        """Begin with the next block of users."""
        self.learner.begin(n_users, rng=rng)
        self._users = np.arange(self._next_user, self._next_user + n_users)
        self._next_user += n_users
        self._round = 0

    def select(self, available: BoolArray, k: int) -> IntArray:
        """Select items, every few rounds after recording the predictions."""
        if self._round % LOOK_EVERY == 0:
            self._look(available)
        self._round += 1
        return self.learner.select(available, k)

    def observe(self, rows: IntArray, values: Float32Array) -> None:
        """Pass the reactions on to the watched learner."""
        self.learner.observe(rows, values)

    def _look(self, available: BoolArray) -> None:
        engine = self.learner.engine
        means = np.where(available, engine.means, -np.inf)
        n = min(CANDIDATES, int(available.sum(axis=1).min()))
        best = np.argsort(-means, axis=1, kind="stable")[:, :n]
        came_true = self._truth[self._users[:, None], best]
        predicted = np.clip(np.take_along_axis(means, best, axis=1), 0.0, 1.0).astype(np.float64)
        is_shown = np.broadcast_to(np.arange(n) < SHOWN, best.shape)
        places = [
            place_of_count(
                self.learner.model, Belief(mean, cov), rows[:COUNTED], int(truth[:COUNTED].sum()), rng=self._rng
            )
            for mean, cov, rows, truth in zip(engine.belief_means, engine.belief_covs, best, came_true, strict=True)
        ]
        self._looks.append((predicted.ravel(), came_true.ravel(), np.array(places), is_shown.ravel()))


def place_of_count(
    model: Model, belief: Belief, rows: IntArray, count: int, *, n_draws: int = DRAWS, rng: np.random.Generator
) -> float:
    """Return where `count` successes at `rows` lie in the distribution that the belief predicts, 0 to 1."""
    users = belief.mean + rng.standard_normal((n_draws, len(belief.mean))) @ covariance_root(belief.cov).T
    z = {n: users[:, model.channels[n].span] @ model.channels[n].vectors[rows].T for n in model.scored}
    p = expectation(model.terms, activations(model.channels, z))
    drawn = (rng.random(p.shape) < p).sum(axis=1)
    return float((drawn < count).mean() + rng.random() * (drawn == count).mean())


def calibration(
    data: Interactions,
    setup: Setup,
    methods: Sequence[str],
    *,
    seed: int = 0,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Calibration]:
    """Meet the test users with each method and compare its predictions with what comes true.

    Validation users will not do: choices, and the prior of `igcf`, are made on them.
    """
    case = prepare(data, setup, seed, "test")
    truth = case.truth[0]
    found = []
    for name in methods:
        method = method_named(name)
        own = tuned_settings(setup.dataset, setup.protocol, name, settings)
        learner = method.build(case.task, own, np.random.default_rng([seed, 1]))
        if not isinstance(learner, ModelLearner) or learner.model.reward.kind != "satisfied":
            raise ConfigError(f"{name} does not predict probabilities of success; pca-gp, igcf and igcf-graph do")
        recorder = PredictionRecorder(learner, truth >= setup.satisfied, np.random.default_rng([seed, 2]))
        replay(recorder, truth, rounds=setup.sessions[0].rounds, rng=np.random.default_rng([seed, 3]))
        found.append(recorder.found(name))
    return found


def calibration_table(dataset: str, found: Sequence[Calibration]) -> Table:
    """Build the table of how far predictions came true, and how many counts lay in their intervals."""
    header = ("method", "predicted", "observed", "ECE", "ECE@10", "log loss", *(f"in {level:.0%}" for level in LEVELS))
    rows = []
    for each in found:
        told = each.as_dict()
        chances = (f"{told[name]:.3f}" for name in ("mean_predicted", "mean_observed", "ece", "ece_at_10", "log_loss"))
        rows.append((each.method, *chances, *(f"{share:.1%}" for share in told["coverage"].values())))
    return Table(f"{dataset}, calibration", header, tuple(rows))


def draw_calibration(found: Sequence[Calibration], path: Path) -> None:
    """Write reliability and coverage side by side to an SVG file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(standalone("Do predicted probabilities come true?", calibration_charts(found)), encoding="utf-8")


def calibration_charts(found: Sequence[Calibration]) -> dict[str, str]:
    """Draw predictions beside what came true, and how many counts fell into their intervals."""
    nominal = np.linspace(0.0, 1.0, 51)
    reliability = [Line("as it should be", (0.0, 1.0), (0.0, 1.0), "guide")]
    coverage = list(reliability)
    for place, each in enumerate(found):
        tone: Tone = "first" if place == len(found) - 1 else "second" if place == len(found) - 2 else "other"
        predicted, observed, _ = zip(*each.bins, strict=True)
        name = f"{each.method}, ECE {each.error:.3f}"
        reliability.append(Line(name, predicted, observed, tone, has_points=True))
        coverage.append(Line(each.method, nominal.tolist(), [each.covered(level) for level in nominal], tone))
    observed = ("Observed by predicted satisfaction", "predicted probability of satisfaction", "observed share")
    inside = (
        "Share of counts inside by nominal level",
        "nominal probability of the interval",
        "share of counts inside",
    )
    return {
        "Do chances come true?": line_chart(reliability, *observed),
        "Do intervals hold what they promise?": line_chart(coverage, *inside),
    }


@click.command()
@click.argument("dataset")
@click.option("--methods", default="pca-gp,igcf", show_default=True, help="Names, joined by commas.")
@click.option("--rounds", type=int, help="Rounds per user.")
@click.option("--set", "changes", multiple=True, metavar="METHOD:NAME=VALUE", help="A setting; repeatable.")
@SEED
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Draw both plots into this SVG file.")
def main(dataset: str, methods: str, rounds: int | None, changes: tuple[str, ...], seed: int, out: Path | None) -> None:
    """Compare predicted satisfaction with what comes true, on the test users of a cold start."""
    data = load_dataset(dataset)
    setup = setup_for(data, "cold-start", rounds=rounds)
    note(setup.sentence)
    found = calibration(data, setup, names_in(methods), seed=seed, settings=parse_changes(changes))
    if out is not None:
        draw_calibration(found, out)
    echo(as_markdown(calibration_table(data.name, found)))


if __name__ == "__main__":
    main()
