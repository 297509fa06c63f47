"""Where the graph helps: thinner and thinner training logs, the graph model with and without propagation.

    python tools/graph_helps.py ml-1m --keep 0.02 0.05 0.1 0.3 --per-user 3 10

Test users, as many rounds as the protocol has; all choices are made on the validation users.
"""

import argparse
from typing import Any

import click

from igcf.data import load_dataset
from igcf.lab.evaluate.thin_logs import ROWS, thin_log_table
from igcf.tables import as_markdown


def main() -> None:
    """Print one Markdown table per log."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset")
    parser.add_argument("--keep", type=float, nargs="*", default=[])
    parser.add_argument("--per-user", type=int, nargs="*", default=[])
    parser.add_argument("--methods", nargs="*", default=list(ROWS))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    data = load_dataset(options.dataset)
    rows = {label: ROWS[label] for label in options.methods}
    logs: list[dict[str, Any]] = [{"share": share} for share in options.keep]
    logs += [{"per_user": n} for n in options.per_user]
    for log in logs:
        click.echo(as_markdown(thin_log_table(data, **log, rows=rows, seed=options.seed)))


if __name__ == "__main__":
    main()
