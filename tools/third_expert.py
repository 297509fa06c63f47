"""The graph model as a third expert of the default, with and without layers, on a whole or a thinned log.

    python tools/third_expert.py ml-1m --layers 0 2
    python tools/third_expert.py ml-1m --layers 0 2 --per-user 10 --kl-weight 0.1

Its weight is chosen on validation users by successes per round so far, mean over T; what is printed is of the 200 users
after them by activity, who choose nothing. Without refit. For logs that are split in time.
"""

import argparse
from dataclasses import replace

import click
import numpy as np
from scipy.stats import wilcoxon

from igcf.arrays import BoolArray, Float32Array, FloatArray, IntArray
from igcf.data import Interactions, load_dataset
from igcf.data.splits import cold_start
from igcf.lab.baselines import method_named
from igcf.lab.evaluate import prepare, setup_for
from igcf.lab.evaluate.protocols.thin import at_most
from igcf.model import Model, Term
from igcf.online import Greedy, ModelLearner, replay
from igcf.training import pretrain

CUTOFFS = (10, 20, 40, 120)
WEIGHTS = (0.0, 0.15, 0.33, 0.5)
RARE = 20
"""Number of reactions in the training log below which an item is rare."""


def with_third(experts: Model, third: Model, weight: float) -> Model:
    """Return both experts with another model of one channel beside them, which has this weight in the score."""
    if weight == 0:
        return experts
    d = experts.dim
    cov = np.zeros((d + third.dim, d + third.dim))
    cov[:d, :d], cov[d:, d:] = experts.prior_cov, third.prior_cov
    return Model(
        channels=[*experts.channels, replace(third.channels[0], start=d)],
        terms=[
            *(replace(term, weight=term.weight * (1 - weight)) for term in experts.terms),
            Term(weight, (len(experts.channels),)),
        ],
        item_ids=experts.item_ids,
        prior_mean=np.concatenate([experts.prior_mean, third.prior_mean]),
        prior_cov=cov,
        reward=experts.reward,
    )


def played(model: Model, truth: Float32Array, is_rare: BoolArray) -> tuple[IntArray, FloatArray]:
    """Return the successes of each user at every T, and those on rare items at the last."""
    shown = replay(ModelLearner(model, Greedy()), truth, rounds=CUTOFFS[-1], rng=np.random.default_rng(0))
    is_hit = np.asarray(model.reward.is_satisfied(shown.values))[:, :, 0]
    return is_hit.cumsum(axis=1)[:, np.array(CUTOFFS) - 1], (is_hit * is_rare[shown.rows[:, :, 0]]).sum(axis=1)


def others(data: Interactions) -> Float32Array:
    """Return the reactions of the 200 users who come after test and validation users by activity."""
    setup = setup_for(data, "cold-start")
    split = cold_start(
        data,
        split=setup.split,
        n_test=setup.n_users,
        n_validation=setup.n_validation + 200,
        min_reactions=setup.min_reactions,
        rng=np.random.default_rng(0),
    )
    return split.validation.only_users(np.arange(setup.n_validation, split.validation.n_users)).dense()


def show(label: str, found: IntArray, rare: FloatArray, against: IntArray) -> None:
    """Print successes, and differences with standard error and p at every T."""
    cells = []
    for number, t in enumerate(CUTOFFS):
        d = found[:, number] - against[:, number]
        p = wilcoxon(d).pvalue if d.any() else 1.0
        error = d.std(ddof=1) / len(d) ** 0.5
        cells.append(f"{t}: {found[:, number].mean():.2f}, {d.mean():+.2f} (se {error:.2f}, p {p:.2g})")
    click.echo(f"{label} | {' | '.join(cells)} | rare {rare.mean():.3f}")


def main() -> None:
    """Print one line per model and number of layers, then the layers against each other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset")
    parser.add_argument("--layers", type=int, nargs="*", default=[0, 2])
    parser.add_argument("--per-user", type=int)
    parser.add_argument("--kl-weight", type=float, default=1.0)
    options = parser.parse_args()
    data = load_dataset(options.dataset)
    task = replace(prepare(data, setup_for(data, "cold-start"), 0, "test").task, may_refit=False)
    if options.per_user:
        task = replace(task, train=at_most(task.train, options.per_user, np.random.default_rng(0)))
    truth, [validation] = others(data), task.validation_truth()
    is_rare = np.bincount(task.train.item_idx, minlength=task.train.n_items) < RARE
    method = method_named("igcf")
    experts = method.fit(task, method.settings(), np.random.default_rng(0))
    default, rare = played(experts, truth, is_rare)
    show("default", default, rare, default)
    found = {}
    for layers in options.layers:
        graph = pretrain(
            task.train, validation=task.whole_validation(), method="graph", satisfied=task.satisfied, seed=0,
            progress=False, graph="lightgcn", layers=layers, kl_weight=options.kl_weight,
        )  # fmt: skip
        scores = {w: played(with_third(experts, graph, w), validation, is_rare)[0] / CUTOFFS for w in WEIGHTS}
        weight = max(WEIGHTS, key=lambda w: float(scores[w].mean()))
        for label, model in (("alone", graph), (f"third, weight {weight}", with_third(experts, graph, weight))):
            found[layers, label.partition(",")[0]] = played(model, truth, is_rare)
            show(f"K = {layers}, {label}", *found[layers, label.partition(",")[0]], default)
    first, last = options.layers[0], options.layers[-1]
    for label in ("alone", "third"):
        show(f"{label}: K = {last} against K = {first}", *found[last, label], found[first, label][0])


if __name__ == "__main__":
    main()
