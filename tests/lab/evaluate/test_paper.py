import re
from pathlib import Path

import pytest

from igcf.lab.evaluate.paper import TABLES, printed


def test_numbers_that_the_paper_quotes_in_its_text() -> None:
    cold = {name: printed("cold-start", name) for name in ("kuairec", "ml-1m", "eachmovie")}
    gains = [
        cold[name]["igcf-paper"]["precision@120"] / cold[name][best]["precision@120"] - 1
        for name, best in (("kuairec", "icf-ts"), ("ml-1m", "icf-ucb"), ("eachmovie", "icf-ucb"))
    ]
    assert [round(100 * gain, 2) for gain in gains] == [3.34, 3.85, 10.66]
    drift = printed("taste-drift", "ml-1m")
    assert round(100 * (drift["igcf-paper"]["precision@120"] / drift["icf-ts"]["precision@120"] - 1), 2) == 5.79


def test_every_row_is_complete() -> None:
    for table, datasets in TABLES.items():
        for dataset in datasets:
            rows = printed(table, dataset)
            assert rows.pop("igcf-paper-printed") == rows["igcf-paper"]  # one row of the paper beside two of ours
            assert len(rows) == {"top-k": 6}.get(table, 7)
            assert len({tuple(row) for row in rows.values()}) == 1
    assert printed("taste-drift", "eachmovie") == {}
    assert printed("cold-start", "ml-100k") == {}


@pytest.mark.parametrize("table", ["cold-start", "taste-drift"])
@pytest.mark.parametrize("dataset", ["kuairec", "ml-1m"])
def test_cumulative_numbers_grow(table: str, dataset: str) -> None:
    for row in printed(table, dataset).values():
        for metric in ("precision", "recall"):
            numbers = [value for name, value in row.items() if name.startswith(metric)]
            assert numbers == sorted(numbers)


@pytest.mark.realdata
def test_every_number_stands_in_the_paper() -> None:
    """The source of the paper lies beside the data; its tables hold each row's numbers in this order."""
    import os

    source = (Path(os.environ["IGCF_DATA_DIR"]).parent / "paper" / "igcf.tex").read_text()
    plain = re.sub(r"\\mathbf|\\underline|[${}^*\s]", "", source)
    for table in ("cold-start", "taste-drift", "top-k"):
        for method in printed(table, "ml-1m"):
            row = [text for dataset in TABLES[table] for text in printed(table, dataset)[method].items()]
            values = [value for name, value in row if name.startswith(("precision", "ndcg"))]
            pattern = "&".join(re.escape(f"{value:g}").replace(r"\.", r"\.?") + r"\.?0*" for value in values)
            assert re.search(pattern, plain), (table, method)
