"""Time that a graph model of a real log takes until its validation users are served almost as well as in the end."""

import time
from typing import Any

import numpy as np

from igcf.config import GraphConfig
from igcf.data import load_dataset
from igcf.lab.bench.sizes import Sizes
from igcf.training import Progress, pretrain
from igcf.training.selection import held_out_users

SHARE = 0.99
SECONDS = 60.0


def learning_part(sizes: Sizes) -> dict[str, Any]:
    """Measure the learning curve of the data set that was asked for; nothing without one."""
    return {} if sizes.dataset is None else learning_curve(sizes.dataset)


def learning_curve(dataset: str, config: GraphConfig | None = None) -> dict[str, Any]:
    """Train on all but the validation users of `dataset`; seconds by the wall, all threads, reading not counted.

    A look at the validation users is part of the time, as is everything else up to it.
    """
    config = GraphConfig() if config is None else config
    data = load_dataset(dataset)
    held_out = np.isin(data.user_idx, held_out_users(data, config.holdout))
    looks: list[dict[str, float]] = []
    begun = time.perf_counter()

    def note(progress: Progress) -> None:
        if progress.validation is not None:
            seconds = time.perf_counter() - begun
            looks.append({"epoch": progress.epoch, "precision": progress.validation, "seconds": seconds})

    pretrain(data.subset(~held_out), config, validation=data.subset(held_out), progress=note)
    final = max(look["precision"] for look in looks)
    reached = next(look for look in looks if look["precision"] >= SHARE * final)
    return {
        "dataset": dataset,
        "interactions": len(data),
        "share": SHARE,
        "final_precision": final,
        "reached": reached,
        "seconds_in_all": looks[-1]["seconds"],
        "looks": looks,
        "at_most": SECONDS,
        "met": reached["seconds"] <= SECONDS,
    }
