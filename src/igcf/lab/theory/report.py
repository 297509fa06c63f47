"""All simulations of the guarantees as one document of plain numbers."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np

from igcf.arrays import FloatArray, IntArray
from igcf.lab.theory import simulate as sim
from igcf.lab.theory.bounds import informative_from, max_information_gain, regret_bound
from igcf.lab.theory.world import SimulatedWorld, TheorySettings, draw_world
from igcf.online import Belief, Greedy, InfoUcb, Policy, Thompson, Ucb

Document = dict[str, Any]
OTHER_DELTAS = (0.2, 0.5)
META_SIZES = (0.5, 1, 2, 4, 16, 128, 512)
"""Numbers M of users behind an estimated prior, in units of d; below d the covariance is singular."""


def run_theory(settings: TheorySettings, *, step: Callable[[str], None] = lambda name: None) -> Document:
    """Simulate everything; `step` is called with the name of each part before it begins."""
    document: Document = {"settings": asdict(settings)}
    for name, (stream, part) in PARTS.items():
        step(name)
        document[name] = part(settings, np.random.default_rng([settings.seed, stream]))
    return document


def report_coverage(settings: TheorySettings, rng: np.random.Generator) -> Document:
    """Simulate failure rates of thm:ucb in three sizes, and once with a prior that is ten times too narrow."""
    deltas = (settings.delta, *(delta for delta in OTHER_DELTAS if delta != settings.delta))
    sizes = ((2, 50), (settings.dim, settings.n_items), (4 * settings.dim, 4 * settings.n_items))
    n_users = 5 * settings.n_users
    rows = []
    for dim, n_items in sizes:
        world = draw_world(settings.assumptions(dim, n_items), rng)
        rows += sim.simulate_coverage(world, deltas=deltas, n_users=n_users, rng=rng)
    world = draw_world(settings.assumptions(), rng)
    narrow = Belief(world.mean, world.cov / 10.0)
    lost = sim.simulate_coverage(world, deltas=deltas, seen=(0, 20), n_users=n_users, prior=narrow, rng=rng)
    return {"rows": rows, "narrow_prior": lost}


def report_policies(settings: TheorySettings, rng: np.random.Generator) -> Document:
    """Simulate the regret of every policy with the correct prior, its exponent in T, and the bound."""
    world = draw_world(settings.assumptions(), rng)
    crowd = sim.draw_crowd(world, settings.n_users, settings.rounds, rng)
    times = np.unique(np.geomspace(1, settings.rounds, 25).astype(int))
    rows = []
    for repeats in (True, False):
        for name, policy in _policies(settings).items():
            run = sim.simulate_regret(world, policy, crowd, repeats=repeats, rng=rng)
            row: Document = {"policy": name, "repeats": repeats, "regret": _mean(run.total)}
            row |= {"exponent": sim.fit_exponent(run, rng), "information": float(run.information.mean())}
            rows.append(row | {"curve": run.curve[times - 1].tolist()})
    most, bound = max_information_gain(world.assumptions, settings.rounds), _bounds(settings, world, times)
    return {"rounds": times.tolist(), "rows": rows, "max_information": most, "bound": bound}


def report_priors(settings: TheorySettings, rng: np.random.Generator) -> Document:
    """Simulate the regret with a correct, estimated, uninformed or wrong prior.

    Half the rounds and half the items of the other parts, as there are many runs.
    """
    rounds, n_items = settings.rounds // 2, max(settings.n_items // 2, 1)
    world = draw_world(settings.assumptions(n_items=n_items), rng)
    crowd = sim.draw_crowd(world, settings.n_users, rounds, rng)
    draws = int(rng.integers(2**32))  # every run gets the same stream, so that differences between them are paired

    def total_regret(policy: Policy, prior: Belief | list[Belief]) -> FloatArray:
        return sim.simulate_regret(world, policy, crowd, prior=prior, rng=np.random.default_rng(draws)).total

    policies = {name: policy for name, policy in _policies(settings).items() if name != "random"}
    eye, n_meta = np.eye(settings.dim), 4 * settings.dim
    # an own estimate for each user, so that the mean over users is also one over estimates
    estimates = [sim.meta_belief(world.draw_users(n_meta, rng)) for _ in range(settings.n_users)]
    priors: dict[str, Belief | list[Belief]] = {
        "correct": world.prior,
        f"estimated, M = {n_meta}": estimates,
        "uninformed": Belief(np.zeros(settings.dim), settings.cov_high * eye),
        "wrong": Belief(-world.mean, settings.cov_low * eye),
    }
    totals = {
        (prior, name): total_regret(policy, belief)
        for prior, belief in priors.items()
        for name, policy in policies.items()
    }
    rows = [{"prior": prior, "policy": name, "regret": _mean(total)} for (prior, name), total in totals.items()]
    return {"rounds": rounds, "n_items": n_items, "rows": rows}


def report_meta_prior(settings: TheorySettings, rng: np.random.Generator) -> Document:
    """Simulate errors of the estimated prior against lemma:event."""
    world = draw_world(settings.assumptions(), rng)
    sizes = sorted({max(int(size * settings.dim), 2) for size in META_SIZES})
    rows = sim.simulate_meta_prior(world, sizes=sizes, rounds=settings.rounds, repeats=100, rng=rng)
    late = [row for row in rows if row["n_meta"] >= settings.dim]
    users, mean, cov = ([row[name] for row in late] for name in ("n_meta", "mean_error", "cov_error"))
    return {"rows": rows, "mean_exponent": sim.fitted_slope(users, mean), "cov_exponent": sim.fitted_slope(users, cov)}


PARTS: dict[str, tuple[int, Callable[[TheorySettings, np.random.Generator], Document]]] = {
    "coverage": (0, report_coverage),
    "policies": (2, report_policies),
    "priors": (3, report_priors),
    "meta_prior": (4, report_meta_prior),
}
"""Parts of the document in order, each with the number of its stream of random numbers."""


def _policies(settings: TheorySettings) -> dict[str, Policy]:
    return {
        "ucb-theorem": InfoUcb(1.0 / (2.0 * settings.rounds)),  # the delta of thm:regret
        "ucb-nu-1": Ucb(1.0),
        "thompson": Thompson(),
        "greedy": Greedy(),
        "random": sim.UniformChoice(),
    }


def _bounds(settings: TheorySettings, world: SimulatedWorld, times: IntArray) -> Document:
    """Compute the bounds at this world's constants."""
    assumed = world.assumptions
    curve = [regret_bound(assumed, int(t)) for t in times]
    return {
        **regret_bound(assumed, settings.rounds)._asdict(),
        "informative_from": informative_from(assumed),
        "curve": [each.correct_prior for each in curve],
        "trivial_curve": [each.trivial for each in curve],
    }


def _mean(values: FloatArray) -> dict[str, float]:
    return {"mean": float(values.mean()), "se": float(values.std(ddof=1) / np.sqrt(len(values)))}
