"""The report of an experiment in a browser: readable by everybody, on every screen and on paper."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from igcf.data import synthetic_catalogue
from igcf.evaluate import evaluate, setup_for
from igcf.evaluate.report import write_results
from tests.web.conftest import Visit
from tests.web.test_access import PHONE, violations
from tests.web.test_pictures import album, keep

__all__ = ["album"]
pytestmark = pytest.mark.slow
BACKGROUND = "() => getComputedStyle(document.body).backgroundColor"
SMALLEST = """() => Math.min(...[...document.querySelectorAll("svg.chart text")]
    .filter((each) => each.checkVisibility())
    .map((each) => 13 * each.getScreenCTM().a))"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    data = synthetic_catalogue(n_users=400, n_items=150)
    setup = setup_for(data, "cold-start", rounds=20, min_reactions=15, n_users=60)
    folder: Path = tmp_path_factory.mktemp("report")
    write_results(evaluate(data, setup, ["random", "pop", "als", "pca-gp"]), data, folder)
    return (folder / "report.html").as_uri()


def fits(page: Page) -> bool:
    return bool(page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"))


@pytest.mark.parametrize("options", [{}, {"color_scheme": "dark"}, PHONE], ids=["light", "dark", "phone"])
def test_the_report_can_be_read_by_everybody(visit: Visit, report: str, options: dict[str, Any]) -> None:
    visitor = visit(path=None, **options)
    visitor.page.goto(report)
    assert violations(visitor) == []
    assert fits(visitor.page)
    assert visitor.page.evaluate(SMALLEST) >= 12
    ground = visitor.page.evaluate(BACKGROUND)
    assert ground == ("rgb(19, 17, 28)" if "color_scheme" in options else "rgb(245, 242, 236)")
    assert not visitor.page.locator("details[open]").count()


def test_the_report_is_printed_light_and_within_the_paper(visit: Visit, report: str) -> None:
    visitor = visit(path=None, color_scheme="dark", viewport={"width": 740, "height": 1040})
    visitor.page.goto(report)
    visitor.page.emulate_media(media="print")
    assert fits(visitor.page)
    colour = visitor.page.evaluate("() => getComputedStyle(document.querySelector('h1')).color")
    assert colour == "rgb(33, 28, 48)"


def test_picture_of_the_report(visit: Visit, report: str, album: Path) -> None:
    visitor = visit(path=None, viewport={"width": 1280, "height": 1000})
    visitor.page.goto(report)
    keep(visitor, album, "report.png")
