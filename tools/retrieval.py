"""Candidates from an approximate index instead of all items: `python -m tools.retrieval`.

The upper confidence bound of an item x under the belief N(mu, S) is mu.x + nu |x|_S = max theta.x over the ellipsoid
|theta - mu| <= nu in the metric of S^-1. An index answers "largest theta.x" for one theta at a time; the ways below
differ in which theta they ask for. What it returns is scored exactly.
"""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from igcf.arrays import Float32Array, FloatArray, IntArray, covariance_root
from igcf.bench.memory import PeakMemory
from igcf.bench.timing import one_thread
from igcf.bench.worlds import STARS
from igcf.errors import ConfigError
from igcf.model import Model
from igcf.online import Belief, Recommender, Ucb
from tools.catalogues import NU, SimulatedCatalogue, beliefs, mixture, replicated, scored
from tools.retrieval_report import as_markdown, draw_losses

TOP = 10
CANDIDATES = 400
"""Number of candidates per decision, over all directions asked for."""


@dataclass(frozen=True)
class Line:
    """Figures of one way to find candidates, for users with so many reactions."""

    world: str
    reactions: int
    way: str
    nprobe: int
    loss: float
    """Score that the first item lacks, as a share of what the best has over the average one; mean over users."""
    worst_loss: float
    list_loss: float
    """Score that the mean of the ten items lacks, as the same share."""
    recall: float
    """Share of the ten best items that are among the ten found."""
    ms: float
    """Median processor time of one decision."""


@dataclass(frozen=True, eq=False)
class Index:
    """Inverted file of the items, and what it took to build.

    An item is filed as [x, |x|, c] with c chosen so that all have the same length: the nearest of them to a direction,
    by distance, is then the one with the largest product.
    """

    file: Any
    vectors: Float32Array
    build_s: float
    megabytes: float

    def search(self, directions: FloatArray, k: int, *, norms: float = 0.0) -> IntArray:
        """Return rows with the largest direction.x + norms |x|, `k` for each direction, every row once."""
        tail = np.broadcast_to([norms, 0.0], (len(directions), 2))
        query = np.column_stack([directions, tail]).astype(np.float32)
        rows = np.unique(self.file.search(query, k)[1])
        return rows[rows >= 0]


Way = Callable[[Index, Belief, np.random.Generator], IntArray]


def by_mean(index: Index, belief: Belief, rng: np.random.Generator) -> IntArray:
    """Return the items with the largest expected rewards."""
    return index.search(belief.mean[None], CANDIDATES)


def by_samples(index: Index, belief: Belief, rng: np.random.Generator, n: int = 8) -> IntArray:
    """Return the best items of some draws of the user."""
    draws = belief.mean + rng.standard_normal((n, belief.mean.size)) @ covariance_root(belief.cov).T
    return index.search(draws, CANDIDATES // n)


def by_directions(index: Index, belief: Belief, rng: np.random.Generator, n: int = 8) -> IntArray:
    """Return the best items of some users on the edge of the belief: mu + nu L z, |z| = 1."""
    z = rng.standard_normal((n, belief.mean.size))
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    return index.search(belief.mean + NU * z @ covariance_root(belief.cov).T, CANDIDATES // n)


def by_norm(index: Index, belief: Belief, rng: np.random.Generator) -> IntArray:
    """Search mu.x + nu c |x|, which is exact for a belief that is equally unsure in all directions (deviation c)."""
    return index.search(
        belief.mean[None], CANDIDATES, norms=NU * float(np.sqrt(np.trace(belief.cov) / len(belief.cov)))
    )


def by_climbing(index: Index, belief: Belief, rng: np.random.Generator, n: int = 4) -> IntArray:
    """Search from the best of `by_norm` for the best items of their most favourable users, mu + nu S x / |x|_S.

    The bound of x is the product with its own most favourable user, so that each step can only find better items.
    """
    scale = NU * float(np.sqrt(np.trace(belief.cov) / len(belief.cov)))
    rows = index.search(belief.mean[None], CANDIDATES // 2, norms=scale)
    _, order = scored(index.vectors, rows, belief)
    X = index.vectors[rows[order[:n]]].astype(np.float64)
    pull = X @ belief.cov
    favourable = belief.mean + NU * pull / np.sqrt(np.einsum("nd,nd->n", pull, X))[:, None]
    return np.union1d(rows, index.search(favourable, CANDIDATES // 2 // n))


WAYS: dict[str, Way] = {
    "mean": by_mean,
    "8 samples": by_samples,
    "8 optimistic directions": by_directions,
    "mean and norm": by_norm,
    "mean and norm, then climbing": by_climbing,
}


def built(vectors: Float32Array, *, n_lists: int) -> Index:
    """Cluster a tenth of the vectors, then file all of them."""
    try:
        import faiss
    except ImportError as error:
        raise ConfigError("the index needs faiss; install it with `pip install igcf[scale]`") from error

    faiss.omp_set_num_threads(1)
    norms = np.linalg.norm(vectors, axis=1)
    rest = np.sqrt(2 * (norms.max() ** 2 - norms**2))
    longer = np.column_stack([vectors, norms, rest]).astype(np.float32)
    peak, begun = PeakMemory(), time.process_time()
    dim = longer.shape[1]
    file = faiss.IndexIVFFlat(faiss.IndexFlatL2(dim), dim, n_lists, faiss.METRIC_L2)
    file.cp.niter = 10
    rng = np.random.default_rng(0)
    file.train(longer[np.sort(rng.permutation(len(longer))[: max(len(longer) // 10, 40 * n_lists)])])
    file.add(longer)
    return Index(file, vectors, time.process_time() - begun, (peak.bytes() or 0) / 1e6)


def compared(
    index: Index, catalogue: SimulatedCatalogue, users: list[tuple[int, Belief]], nprobes: tuple[int, ...]
) -> list[Line]:
    """Compare every way with the exact scores of all items."""
    tries: dict[tuple[int, str, int], list[tuple[float, float, float, float]]] = {}
    for number, (reactions, belief) in enumerate(users):
        exact, order = scored(catalogue.vectors, slice(None), belief)
        best, gap = order[:TOP], exact[order[0]] - exact.mean()
        for nprobe in nprobes:
            index.file.nprobe = nprobe
            for way, candidates in WAYS.items():
                for turn in range(3):
                    rng = np.random.default_rng([number, turn])
                    begun = time.process_time()
                    rows = candidates(index, belief, rng)
                    _, places = scored(catalogue.vectors, rows, belief)
                    chosen = rows[places[:TOP]]
                    seconds = time.process_time() - begun
                    loss = (exact[best[0]] - exact[chosen[0]]) / gap
                    list_loss = (exact[best].mean() - exact[chosen].mean()) / gap
                    recall = len(np.intersect1d(best, chosen)) / TOP
                    tries.setdefault((reactions, way, nprobe), []).append((loss, list_loss, recall, seconds))
    return [
        Line(
            catalogue.name,
            reactions,
            way,
            nprobe,
            loss=float(np.mean([each[0] for each in found])),
            worst_loss=float(np.max([each[0] for each in found])),
            list_loss=float(np.mean([each[1] for each in found])),
            recall=float(np.mean([each[2] for each in found])),
            ms=1e3 * float(np.median([each[3] for each in found])),
        )
        for (reactions, way, nprobe), found in tries.items()
    ]


def exact_ms(catalogue: SimulatedCatalogue, repeats: int) -> dict[str, float]:
    """Time igcf's own decisions over all items: a user in memory, and one read from a stored belief."""
    ids = [str(row) for row in range(len(catalogue.vectors))]
    model = Model(
        item_vectors=catalogue.vectors,
        prior_mean=catalogue.prior.mean,
        prior_cov=catalogue.prior.cov,
        noise_var=catalogue.noise_var,
        item_ids=ids,
        reward=STARS,
    )
    recommender = Recommender(model, Ucb(NU))
    warm: list[float] = []
    session = recommender.session()
    for turn in range(repeats + 1):
        begun = time.process_time()
        item = session.recommend(TOP)[0].item_id
        session.observe(item, 5.0 if turn % 2 else 2.0)
        warm.append(time.process_time() - begun)
    belief, history, cold = session.belief, session.history, []
    for _ in range(max(3, repeats // 5)):
        begun = time.process_time()
        recommender.session(history, belief=belief).recommend(TOP)
        cold.append(time.process_time() - begun)
    return {"warm": 1e3 * float(np.median(warm[1:])), "cold": 1e3 * float(np.median(cold))}


def measured(catalogue: SimulatedCatalogue, *, n_lists: int, n_users: int, nprobes: tuple[int, ...]) -> dict[str, Any]:
    """Measure everything about one catalogue, in one thread."""
    with one_thread():
        index = built(catalogue.vectors, n_lists=n_lists)
        lines = compared(index, catalogue, beliefs(catalogue, n_users), nprobes)
        exact = exact_ms(catalogue, 30)
    return {
        "world": catalogue.name,
        "items": len(catalogue.vectors),
        "dim": catalogue.vectors.shape[1],
        "lists": n_lists,
        "users": n_users,
        "build_cpu_s": index.build_s,
        "build_peak_mb": index.megabytes,
        "vectors_mb": catalogue.vectors.nbytes / 1e6,
        "exact_ms": exact,
        "lines": [asdict(line) for line in lines],
    }


@click.command()
@click.option("--items", default=1_000_000, show_default=True)
@click.option("--dim", default=64, show_default=True, help="Of the mixture.")
@click.option("--users", default=10, show_default=True, help="Simulated, each with 10 and with 100 reactions.")
@click.option("--lists", default=4096, show_default=True, help="Of the index.")
@click.option("--nprobe", "nprobes", multiple=True, type=int, default=(16, 64), show_default=True)
@click.option("--model", type=click.Path(path_type=Path), help="Also the items of this model, replicated with jitter.")
@click.option("--out", type=click.Path(path_type=Path), help="Also write retrieval.json and retrieval.svg there.")
def main(
    items: int, dim: int, users: int, lists: int, nprobes: tuple[int, ...], model: Path | None, out: Path | None
) -> None:
    """Measure what candidates from an approximate index lose and gain."""
    found = []
    for catalogue in (
        [mixture(items, dim)] if model is None else [mixture(items, dim), replicated(Model.load(model), items)]
    ):
        found.append(measured(catalogue, n_lists=lists, n_users=users, nprobes=tuple(nprobes)))
        click.echo(as_markdown(found[-1]) + "\n")
    if out is not None:
        (out / "retrieval.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        click.echo(f"wrote {draw_losses(found, out)}", err=True)


if __name__ == "__main__":
    main()
