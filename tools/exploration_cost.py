"""What exploration with known propensities costs in successes: cold validation users, different shares of slots."""

import argparse

import numpy as np

import igcf
from igcf.arrays import BoolArray, IntArray
from igcf.data.splits import cold_start
from igcf.online.environment import ModelLearner, replay
from igcf.online.exploration import AMONG
from igcf.online.policies import own_policy
from igcf.online.selection import select_items
from tools.off_policy_truth import drawn

AFTER = (10, 20, 40, 120)


class Exploring(ModelLearner):
    """A model and a policy that explore a share of the slots."""

    share = 0.0

    def select(self, available: BoolArray, k: int) -> IntArray:
        """Return what is drawn among the policy's best items."""
        size = k - 1 + AMONG
        best = select_items(self.policy, self.engine, available, size, make_rng=lambda: self._rng)[0]
        places, _ = drawn(len(best), k, size, self.share, self._rng)
        return best[np.arange(len(best))[:, None], places]


def main() -> None:
    """Print successes by share."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="ml-100k")
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    data = igcf.load_dataset(options.dataset)
    split = cold_start(data, rng=np.random.default_rng(0))
    model = igcf.pretrain(split.train, config=igcf.ExpertsConfig(known_users=False), seed=0)
    truth = split.validation.dense()
    learner, first = Exploring(model, own_policy(model.policy)), None
    print(f"{options.dataset}: successes of {len(truth)} validation users in {', '.join(map(str, AFTER))} rounds")
    for share in (0.0, 0.05, 0.1, 0.2):
        learner.share = share
        found = []
        for seed in range(options.seeds):
            shown = replay(learner, truth, rounds=AFTER[-1], rng=np.random.default_rng(seed))
            counts = model.reward.is_satisfied(shown.values)[:, :, 0].cumsum(axis=1).mean(axis=0)
            found.append(counts[np.array(AFTER) - 1])
        mean, error = np.mean(found, axis=0), np.std(found, axis=0) / np.sqrt(len(found))
        first = mean if first is None else first
        told = [f"{m:.2f} ± {e:.2f} ({m / f - 1:+.1%})" for m, e, f in zip(mean, error, first, strict=True)]
        print(f"explore {share:g}: {', '.join(told)}", flush=True)


if __name__ == "__main__":
    main()
