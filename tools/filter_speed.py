"""How long a graph filter takes to fit and to answer: `python -m tools.filter_speed gowalla/train.csv.gz`."""

import resource
from time import perf_counter, process_time

import click
import numpy as np

from igcf.data import load_dataset
from igcf.graph.filter import FilterSettings, fit_graph_filter
from igcf.lab.evaluate.protocols import protocol_named
from igcf.lab.evaluate.tuned_settings import tuned_settings
from igcf.threads import at_most_threads


@click.command()
@click.argument("file")
@click.option(
    "--settings", default="gowalla", show_default=True, help="Log whose tuned settings of the split are used."
)
@click.option("--answers", default=200, show_default=True, help="Number of users, drawn, who are answered one by one.")
def main(file: str, settings: str, answers: int) -> None:
    """Fit on FILE in one thread and answer users one by one, each by their own record."""
    log = load_dataset(file)
    records = log.matrix(np.ones(len(log), dtype=np.float32))
    chosen = FilterSettings(**tuned_settings(settings, protocol_named("split"), "graph-filter"))
    with at_most_threads(1):
        wall, processor = perf_counter(), process_time()
        fitted = fit_graph_filter(records, chosen, rng=np.random.default_rng(0))
        wall, processor = perf_counter() - wall, process_time() - processor
        print(f"fit: {processor:.1f} s of processor time, {wall:.1f} s by the wall")
        fitted.scores(records[[0]])
        times = []
        for user in np.random.default_rng(1).choice(records.shape[0], answers, replace=False):
            record, start = records[[user]], process_time()
            np.argpartition(-fitted.scores(record)[0], 20)
            times.append(1e3 * (process_time() - start))
    middle, late = np.percentile(times, [50, 95])
    print(f"answer: {middle:.1f} ms of processor time (median of {answers} users), {late:.1f} ms (95 %)")
    print(f"memory at most: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GB")


if __name__ == "__main__":
    main()
