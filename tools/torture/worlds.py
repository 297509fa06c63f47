"""The small models that are served while things break."""

from pathlib import Path

import numpy as np

from igcf.model import Model, Reward

N_ITEMS = 400
DIM = 4


def save_models(folder: Path) -> tuple[Path, Path]:
    """Write two models, first and second, that know the same items."""
    found = folder / "models" / "first", folder / "models" / "second"
    for seed, each in enumerate(found):
        _random_model(seed).save(each)
    return found


def _random_model(seed: int) -> Model:
    rng = np.random.default_rng(seed)
    return Model(
        item_vectors=rng.normal(size=(N_ITEMS, DIM)) / np.sqrt(DIM),
        prior_mean=rng.normal(size=DIM) * 0.3,
        prior_cov=np.diag(rng.uniform(0.5, 1.5, DIM)),
        noise_var=0.2,
        item_ids=[f"item-{i}" for i in range(N_ITEMS)],
        reward=Reward("satisfied", threshold=4.0, low=1.0, high=5.0),
    )
