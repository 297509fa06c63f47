import json
from typing import Any

import pytest

from igcf.errors import ConfigError
from igcf.lab.theory.report import PARTS, Document, run_theory
from igcf.lab.theory.tables import as_text
from igcf.lab.theory.world import TheorySettings

SMALL = TheorySettings(dim=2, n_items=30, rounds=24, n_users=10)


@pytest.fixture(scope="module")
def document() -> Document:
    return run_theory(SMALL)


def test_the_document_has_every_part_and_only_plain_numbers(document: Document) -> None:
    assert list(document) == ["settings", *PARTS]
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_same_seed_same_document(document: Document) -> None:
    heard: list[str] = []
    assert run_theory(SMALL, step=heard.append) == document
    assert heard == list(PARTS)


def test_another_seed_another_document(document: Document) -> None:
    other = run_theory(TheorySettings(dim=2, n_items=30, rounds=24, n_users=10, seed=1))
    assert other["policies"] != document["policies"]


def test_the_text_says_when_a_bound_says_nothing(document: Document) -> None:
    bound = document["policies"]["bound"]
    said = {vacuous: as_text({**document, "policies": {**document["policies"], "bound": {**bound, "vacuous": vacuous}}})
            for vacuous in (True, False)}  # fmt: skip
    assert "VACUOUS" in said[True]
    assert f"informative from T = {bound['informative_from']} on" in said[False]


def test_every_table_row_has_as_many_cells_as_its_head(document: Document) -> None:
    tables = [part.splitlines() for part in as_text(document).split("\n\n") if part.startswith("|")]
    assert len(tables) == 4
    for lines in tables:
        assert len(lines) > 2
        assert len({line.count("|") for line in lines}) == 1


def test_one_dimension_works() -> None:
    assert run_theory(TheorySettings(dim=1, n_items=30, rounds=24, n_users=10))["settings"]["dim"] == 1


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"delta": 0.0}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"noise_var": 0.0}, "noise_var"),
        ({"cov_low": 0.0}, "singular"),
        ({"cov_low": 3.0}, "cov_low"),
        ({"rounds": 5}, "rounds"),
        ({"n_users": 1}, "n_users"),
        ({"n_items": 100}, "n_items"),
        ({"seed": -1}, "seed"),
        ({"radius": -1.0}, "radius"),
        ({"dim": 0}, "dim"),
    ],
)
def test_bad_settings_are_refused(changes: dict[str, Any], word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        TheorySettings(**changes)
