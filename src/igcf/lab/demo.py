"""The demonstration on the embedded catalogue: one new user, round by round; and a model of it, learned once."""

from pathlib import Path
from typing import Any

import numpy as np

from igcf.data import load_dataset
from igcf.data.splits import ColdStart
from igcf.lab.evaluate.jobs import code_version
from igcf.model import Model
from igcf.online import Recommender
from igcf.training import pretrain

EMBEDDED = "synthetic"
"""Name of the embedded catalogue."""
METHODS = ("random", "pop", "icf-ucb", "pca-gp", "igcf")
"""What the demonstration compares."""


def play_one_user(model: Model, split: ColdStart, rounds: int) -> dict[str, Any]:
    """Play one test user, whom the model has never seen, round by round, beside the order of popularity."""
    truth, threshold = split.test.dense(), model.reward.threshold
    user = int(np.nansum(truth >= threshold, axis=1).argmax())
    popular = np.bincount(split.train.item_idx, minlength=split.train.n_items).argsort(kind="stable")[::-1]
    session = Recommender(model).session()
    hits, popular_hits, lines = 0, 0, []
    for t in range(rounds):
        pick = session.recommend()[0]
        value = truth[user, model.item_row(pick.item_id)]
        reaction = None if np.isnan(value) else float(value)
        session.observe(pick.item_id, reaction)
        hits += bool(value >= threshold)
        popular_hits += bool(truth[user, popular[t]] >= threshold)
        shown = {"round": t + 1, "item": pick.item_id, "title": model.title(pick.item_id)}
        shown |= {"mean": pick.mean, "std": pick.std, "to_learn": pick.mean_rank > 1}
        lines.append({**shown, "value": reaction, "hits": hits, "popular_hits": popular_hits})
    return {"user": split.test.user_ids[user], "rounds": lines}


def demo_model(cache: Path) -> Path:
    """Return the folder of a model of the embedded catalogue; learned unless this very igcf has done it before."""
    folder = cache / f"demo-{code_version()[:8]}" / "model"
    if not folder.exists():
        pretrain(load_dataset(EMBEDDED)).save(folder)
    return folder
