"""Answers from an index of the items: how their time grows with the catalogue, and what a user in memory takes."""

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from igcf.errors import ConfigError
from igcf.lab.bench.growth import exponent
from igcf.lab.bench.online import K, one_round
from igcf.lab.bench.sizes import Sizes
from igcf.lab.bench.timing import Row, compared, interleaved, one_thread
from igcf.lab.bench.worlds import SHIPPED, random_experts, random_model, random_vectors
from igcf.model import Model
from igcf.online import Recommender, Session
from igcf.online.index import build_lists
from igcf.online.index.building import load_faiss

LIMIT = 0.5
"""Largest exponent of an answer's time over the number of items."""


def index_rows(sizes: Sizes) -> dict[str, Any]:
    """Rounds of one user from an index beside exact ones of the smallest catalogue: linear models, and two experts."""
    try:
        load_faiss()
    except ConfigError as error:
        return {"rows": [], "curves": [], "missing": str(error)}
    kinds: dict[str, Callable[[int], Model]] = {
        "": lambda n: random_model(random_vectors(n, sizes.dim)),
        "two experts: ": lambda n: random_experts(n, *sizes.expert_dims),
    }
    rows, curves = [], []
    with one_thread():
        for name, make in kinds.items():
            own, curve = _grown(name, make, sizes)
            rows += own
            curves.append(curve)
    return {"rows": [row.as_dict() for row in rows], "curves": curves, "missing": None}


def _grown(name: str, make: Callable[[int], Model], sizes: Sizes) -> tuple[list[Row], dict[str, Any]]:
    n_small, turns, run = sizes.items[0]
    rows, points = [], []
    for n_items in sizes.indexed:
        model = make(n_items)
        begun = time.process_time()
        lists = build_lists(model)
        built = time.process_time() - begun
        session = Recommender(model, SHIPPED, index=lists).session()
        small = Recommender(make(n_small), SHIPPED).session()
        seconds = interleaved({"exact": one_round(small), "ours": one_round(session)}, repeats=turns, run=run)
        job = f"{name}recommend({K}) + observe from an index, {n_items:,} items, d={model.dim}"
        rows.append(compared("index", job, f"the same, exact, {n_small:,} items", seconds["ours"], seconds["exact"]))
        own_seconds = float(np.median(seconds["ours"]))
        points.append({"size": n_items, "seconds": own_seconds, "build_s": built, "user_bytes": user_bytes(session)})
    slope = exponent(sizes.indexed, [point["seconds"] for point in points])
    told = {"model": name.rstrip(": ") or "linear", "points": points, "exponent": slope}
    return rows, {**told, "at_most": LIMIT, "met": slope <= LIMIT}


def user_bytes(session: Session) -> int:
    """Return the memory of a session beyond what all sessions of its recommender share."""
    recommender, seen = session._recommender, set()
    shared = {
        id(part)
        for part in (recommender, *vars(recommender).values(), *vars(recommender._live.current().engine).values())
    }

    def size(part: Any) -> int:
        if id(part) in shared or id(part) in seen or isinstance(part, type) or callable(part):
            return 0
        seen.add(id(part))
        own = part.nbytes if isinstance(part, np.ndarray) else sys.getsizeof(part)
        inner = (
            part if isinstance(part, list | tuple | set) else vars(part).values() if hasattr(part, "__dict__") else ()
        )
        return int(own) + sum(size(each) for each in inner)

    return sum(size(part) for part in vars(session).values())
