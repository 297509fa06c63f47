"""Simulated experiments: how often a difference is declared without one, and how often a true one is found."""

import argparse

import numpy as np

from igcf.experiments.differences import FEWEST_USERS, plan, tuning


def declared(
    rates: tuple[float, float], users: int, repetitions: int, *, every: int, rng: np.random.Generator
) -> float:
    """Return the share of experiments that declare a difference at any look, after every `every` users.

    The same interval as `igcf.experiments.differences.compare`, for many experiments of yes-or-no metrics at once.
    """
    looks = np.arange(every, users + 1, every) if users >= every else np.array([users])
    if looks[-1] != users:
        looks = np.append(looks, users)
    rho, found = tuning(users), 0
    for _ in range(repetitions):
        arm = rng.random(users) < 0.5
        hit = rng.random(users) < np.where(arm, rates[1], rates[0])
        n1, s1 = np.cumsum(arm)[looks - 1], np.cumsum(hit & arm)[looks - 1]
        n0, s0 = looks - n1, np.cumsum(hit & ~arm)[looks - 1]
        is_said = (n1 >= FEWEST_USERS) & (n0 >= FEWEST_USERS)
        p1, p0 = s1 / np.maximum(n1, 1), s0 / np.maximum(n0, 1)
        error = np.sqrt(p1 * (1 - p1) / np.maximum(n1 - 1, 1) + p0 * (1 - p0) / np.maximum(n0 - 1, 1))
        scaled = looks * rho
        wide = error * np.sqrt(2 * (scaled + 1) / scaled * np.log(np.sqrt(scaled + 1) / 0.05))
        found += bool(np.any(is_said & (np.abs(p1 - p0) > wide) & (error > 0)))
    return found / repetitions


def main() -> None:
    """Print both shares, at the number of users that the planner states."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lift", type=float, default=0.05)
    parser.add_argument("--rate", type=float, default=0.3)
    parser.add_argument("--repetitions", type=int, default=1_000)
    parser.add_argument("--every", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    users = plan(options.lift, options.rate).users
    rng = np.random.default_rng(options.seed)
    for name, lift in (("no difference", 0.0), (f"a lift of {options.lift:g}", options.lift)):
        rates = options.rate, options.rate * (1 + lift)
        share = declared(rates, users, options.repetitions, every=options.every, rng=rng)
        print(f"{name}: declared in {share:.1%} of {options.repetitions:,} experiments of {users:,} users")


if __name__ == "__main__":
    main()
