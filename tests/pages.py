"""Code blocks of the pages, and what it takes to run them as they stand."""

import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np

from igcf.cli.main import cli
from igcf.data import load_dataset, synthetic_catalogue
from igcf.encoding import Attribute, Encoder
from igcf.lab.baselines.factors import principal_components
from igcf.model import Model, Reward
from igcf.model.attribute_prior import AttributePrior, Worth

ROOT = Path(__file__).parents[1]
FOR_USERS = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "howto").glob("*.md")),
    *sorted((ROOT / "docs" / "operate").glob("*.md")),
    *sorted((ROOT / "docs" / "reference").glob("*.md")),
]
NOT_RUN = {"data.md", "scale.md", "bench.md", "theory.md", "results.md", "page.md", "catalogue.md"}
"""Older pages whose blocks are collections of single lines; tests of their subjects run these."""


def demo_model() -> Model:
    """Describe the embedded catalogue by the principal components of its log: no training, yet it learns."""
    log = load_dataset("synthetic")
    satisfied = log.matrix((log.values >= 4).astype(np.float64))
    mean, loadings = principal_components(satisfied, 8, rng=np.random.default_rng(0))
    country = Attribute("country", "category", ("DE", "NZ"), (0.5, 0.5))
    weights = np.outer(np.linspace(0.0, 0.5, 9), [-1.0, 1.0])
    prior = AttributePrior(
        Encoder((country,)), weights, 0.1 * np.ones((9, 2)), np.eye(2) / 4, {"country": Worth(100.0, 0.4, 0.1)}
    )
    return Model(
        attribute_prior=prior,
        item_vectors=np.column_stack([mean, loadings]),
        item_ids=log.item_ids,
        prior_mean=np.eye(9)[0],
        prior_cov=np.diag(np.r_[0.0, np.ones(8)]),
        noise_var=0.04,
        reward=Reward("satisfied", threshold=4.0, low=1.0, high=5.0),
        titles=log.titles,
        categories=log.categories,
    )


@dataclass(frozen=True)
class Block:
    """Fenced code of a page."""

    language: str
    text: str


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page that are marked as Python or shell."""
    found = re.findall(r"^```(python|sh)\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return [Block(language, text) for language, text in found]


def pages_with_code() -> list[Path]:
    """Return the pages whose blocks are run."""
    return [page for page in FOR_USERS if page.name not in NOT_RUN and blocks(page)]


def write_logs(folder: Path) -> None:
    """Write the files that the pages speak of, small: ratings, films, plays, events and clicks."""
    log = synthetic_catalogue(n_users=80, n_items=40)
    assert log.timestamps is not None
    rows = [
        (log.user_ids[user], log.item_ids[item], value, time)
        for user, item, value, time in zip(log.user_idx, log.item_idx, log.values, log.timestamps, strict=True)
    ]
    sizes = np.bincount(log.user_idx, weights=log.values, minlength=log.n_users)
    people = [(user, "NZ" if own > np.median(sizes) else "DE") for user, own in zip(log.user_ids, sizes, strict=True)]
    titles = zip(log.item_ids, log.titles or (), strict=True)
    tables = {
        "ratings.csv": ["user,item,value,time", *(f"{u},{i},{v:g},{t}" for u, i, v, t in rows)],
        "people.csv": [
            "user,country,age",
            *(f"{user},{country},{20 + n % 40}" for n, (user, country) in enumerate(people)),
        ],
        "movies.csv": ["id,title,genres", *(f'{item},"{title}",Drama|Comedy' for item, title in titles)],
        "plays.tsv": ["who\twhat\tminutes", *(f"{u}\t{i}\t{v * 12:g}" for u, i, v, _ in rows)],
        "events.csv": [
            "user,item,event",
            *(f"{u},{i},{('view', 'like', 'purchase')[int(v) % 3]}" for u, i, v, _ in rows),
        ],
        "books.csv": ["user,item,value", *(f"{u},{i},{v if n % 3 else 0:g}" for n, (u, i, v, _) in enumerate(rows))],
        "clicks.csv": ["user,item", *(f"{u},{i}" for u, i, v, _ in rows if v >= 3)],
    }
    for name, lines in tables.items():
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def run_line(line: str, url: str) -> None:
    """Run one line of shell: `igcf` in this process, everything else in a shell, with the demo at `url`."""
    if line.startswith("igcf "):
        try:
            cli.main(shlex.split(line, comments=True)[1:])
        except SystemExit as ended:
            assert ended.code == 0, line  # noqa: PT017
        except click.ClickException as error:  # pragma: no cover
            raise AssertionError(f"{line}: {error}") from error
        return
    line = line.replace("localhost:8000", url.removeprefix("http://"))
    line = line.replace("curl -s ", "curl -s --fail-with-body ", 1)
    result = subprocess.run(["bash", "-o", "pipefail", "-c", line], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, f"{line}: {result.stdout}{result.stderr}"
