"""Times the training of the default model beside ALS of the library `implicit`, in turn, each on all cores.

    python -m tools.training_ratio ml-1m

ALS has 64 factors and 15 iterations, its defaults otherwise, and learns from one for every reaction. Leave
OPENBLAS_NUM_THREADS and its like unset: igcf takes as many threads as linear algebra has.
"""

import time
from collections.abc import Callable

import click
import numpy as np
import scipy.sparse as sp
from implicit.cpu.als import AlternatingLeastSquares

import igcf
from igcf.threads import at_most_threads
from igcf.training.cost import expected_cost

FACTORS, ITERATIONS = 64, 15


@click.command()
@click.argument("dataset")
@click.option("--repeats", type=int, default=3, show_default=True)
def main(dataset: str, repeats: int) -> None:
    """Train both on a data set or log, in turn, and print the medians."""
    data = igcf.load_dataset(dataset)
    ones = np.ones(len(data), dtype=np.float32)
    reactions = sp.csr_matrix((ones, (data.user_idx, data.item_idx)), shape=(data.n_users, data.n_items))

    def als() -> None:
        with at_most_threads(1, ("blas",)):  # as the library asks for: it has threads of its own
            model = AlternatingLeastSquares(factors=FACTORS, iterations=ITERATIONS, random_state=0)
            model.fit(reactions, show_progress=False)

    click.echo(f"expected: {expected_cost(data)}")
    jobs = {"ALS": als, "igcf": lambda: igcf.pretrain(data, seed=0, progress=False)}
    seconds = np.array([[timed(job) for job in jobs.values()] for _ in range(repeats)])  # (repeats, jobs, clocks)
    for number, clock in enumerate(("wall", "processor")):
        reference, own = np.median(seconds[:, :, number], axis=0)
        click.echo(f"{clock}: ALS {reference:.2f} s, igcf {own:.2f} s, ratio {own / reference:.1f}")


def timed(job: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds that a job takes by the wall and of all cores together."""
    wall, processor = time.perf_counter(), time.process_time()
    job()
    return time.perf_counter() - wall, time.process_time() - processor


if __name__ == "__main__":
    main()
