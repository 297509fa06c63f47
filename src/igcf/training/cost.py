"""What a training of the default model will cost, before it starts: processor time, and the memory of the process."""

import os
import time
from dataclasses import dataclass

import numpy as np

from igcf.config import ExpertsConfig
from igcf.data.interactions import Interactions
from igcf.threads import blas_threads
from igcf.training.experts.linear import BLOCKS, WIDTH
from igcf.training.experts.logistic import sampled_users, schedule
from igcf.training.experts.rare_items import MOST_ITEMS, MOST_JUDGED
from igcf.training.selection import MOST_USERS

GRADINGS, TABLES = 4, 3  # channels of the two experts where the log has grades
REFERENCE_RATE = 93e9  # float32 operations a second of one core of the machine on which the unit costs were measured
PLAYED = 100  # rounds that users play as new ones to decide how much of their attributes is used
SIDE = 1_024


@dataclass(frozen=True)
class Cost:
    """Expected cost of a training."""

    seconds: float  # time by the wall on idle cores
    memory: float  # largest memory of the process in bytes
    cores: int

    def __str__(self) -> str:
        time_text = f"{self.seconds:.0f} s" if self.seconds < 120 else f"{self.seconds / 60:.0f} minutes"
        cores = "one core" if self.cores == 1 else f"{self.cores} cores"
        return f"training will take about {time_text} and {self.memory / 1e9:.1f} GB on {cores}"


def expected_cost(data: Interactions, config: ExpertsConfig | None = None) -> Cost:
    """Estimate what `pretrain` will cost for a log, from its sizes and the speed of this machine."""
    config = config or ExpertsConfig()
    cores = min(blas_threads(), os.cpu_count() or 1)
    counts = np.bincount(data.item_idx, minlength=data.n_items)
    n_fit = min(int((counts >= (config.min_item_reactions or 1)).sum()), data.n_items)
    if config.min_item_reactions is None:
        n_fit = min(n_fit, MOST_ITEMS)
    n_judged = min(n_fit, MOST_JUDGED)
    sizes = Sizes(data.n_users, data.n_items, len(data), n_fit, n_judged, data.n_users if data.users else 0)
    busy = _processor_seconds(sizes, config) * REFERENCE_RATE / float32_rate()
    return Cost(1.0 + busy / (0.6 + 0.4 * cores), _memory(sizes, config), cores)


@dataclass(frozen=True)
class Sizes:
    """Sizes of a log: users, items, reactions, items of the factor models and judged ones, users with attributes."""

    users: int
    items: int
    reactions: int
    fitted: int
    judged: int
    described: int

    def logistic_users(self, n_items: int) -> int:
        """Return the number of users that the logistic expert of some items is learned from."""
        return len(sampled_users(self.users, max(n_items, 1), seed=0))

    def logistic(self, n_items: int, config: ExpertsConfig, *, is_new: bool) -> float:
        """Return the number of operations of a fit of the logistic expert."""
        n_users = self.logistic_users(n_items)
        n_reactions = self.reactions * n_users // max(self.users, 1)
        phases = schedule(n_users, n_items, n_reactions, config.iterations, is_new=is_new)
        pairs, done = 0.0, 0
        for n, until in phases:
            pairs += (until - done) * (n * n_items + GRADINGS * self.reactions * n / max(self.users, 1))
            done = until
        return 2.0 * (config.logistic_dim + 1) * (config.logistic_dim + 2) * pairs


def _processor_seconds(sizes: Sizes, config: ExpertsConfig) -> float:
    """Add up the stages; the unit costs are those of ML-1M in seconds of one core."""
    is_chosen = config.holdout > 0
    is_warm = is_chosen and sizes.judged == sizes.fitted
    columns, vectors = TABLES * sizes.fitted, BLOCKS * WIDTH
    linear = vectors * TABLES * sizes.reactions / 2e9 + 6.0 * columns * vectors**2 / 8e9
    operations = sizes.logistic(sizes.judged, config, is_new=True) if is_chosen else 0.0
    logistic = (operations + sizes.logistic(sizes.fitted, config, is_new=not is_warm)) / 45e9
    fits = (2.0 if is_chosen and not is_warm else 1.2) * linear + logistic + 1e-4 * sizes.items
    played = 9e-9 * PLAYED * min(1_000, sizes.described) * sizes.items + 5e-4 * min(sizes.described, 20_000)
    if not is_chosen:
        return fits + played
    rounds = min(config.validate_rounds, max(sizes.judged // 4, 1))
    users = min(MOST_USERS, int(config.holdout * sizes.users))
    replays = users * rounds * sizes.judged * (12e-9 + 19e-9 * config.calibrated) + 8e-3 * users * config.calibrated
    known = 7e-4 * sizes.judged + 3e-6 * sizes.reactions if config.known_users else 0.0
    return fits + played + replays + known


def _memory(sizes: Sizes, config: ExpertsConfig) -> float:
    """Return the bytes of the program, of the log, of the logistic expert, of replays and of the model."""
    d, width = config.logistic_dim, TABLES * (config.linear_dim + 1) + GRADINGS * (config.logistic_dim + 2)
    n_users = sizes.logistic_users(sizes.fitted)
    block = min(sizes.fitted, 32_768) * (d + 1) * (d + 2) * 8.0
    fit = 24.0 * GRADINGS * sizes.fitted * (d + 1) + 20.0 * n_users * d * d + block
    replay = 40.0 * MOST_USERS * sizes.judged
    return 3e8 + 150.0 * sizes.reactions + max(fit, replay) + 4.0 * width * (sizes.items + sizes.judged) * 2.5


def float32_rate() -> float:
    """Measure how many float32 operations a second one core does, by a product of two matrices."""
    from igcf.threads import at_most_threads

    matrix = np.ones((SIDE, SIDE), dtype=np.float32)
    with at_most_threads(1, ("blas",)):
        matrix @ matrix
        begun = time.process_time()
        matrix @ matrix
        return 2.0 * SIDE**3 / max(time.process_time() - begun, 1e-4)
