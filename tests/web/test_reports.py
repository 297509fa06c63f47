"""Reports in a browser: readable by everybody, on every screen and on paper."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from igcf.data import synthetic_catalogue
from igcf.lab.evaluate import evaluate, setup_for
from igcf.lab.evaluate.report import write_results
from tests.cli.test_main import run
from tests.web.conftest import Visit
from tests.web.test_access import PHONE, violations
from tests.web.test_pictures import album, keep

__all__ = ["album"]
pytestmark = pytest.mark.slow
FIGURES = Path(__file__).parents[2] / "docs" / "figures"
SMALL = PHONE | {"viewport": {"width": 320, "height": 640}}
BACKGROUND = "() => getComputedStyle(document.body).backgroundColor"
SMALLEST = """() => Math.min(...[...document.querySelectorAll("svg.chart text")]
    .filter((each) => each.checkVisibility())
    .map((each) => 13 * each.getScreenCTM().a))"""
OUTSIDE = """() => [...document.querySelectorAll("svg.chart text")]
    .filter((each) => each.checkVisibility())
    .filter((each) => each.getBoundingClientRect().right > document.documentElement.clientWidth + 1
        || each.getBoundingClientRect().left < -1)
    .map((each) => each.textContent)"""

BROKEN = """() => [...document.querySelectorAll("h1 span")]
    .filter((each) => each.offsetHeight > 1.5 * parseFloat(getComputedStyle(each).lineHeight))
    .map((each) => each.textContent)"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The report of an experiment."""
    folder: Path = tmp_path_factory.mktemp("report")
    data = synthetic_catalogue(n_users=400, n_items=150, seed=0)
    setup = setup_for(data, "cold-start", rounds=20, min_reactions=15, n_users=60)
    write_results(evaluate(data, setup, ["random", "pop", "als", "pca-gp"]), data, folder)
    return (folder / "report.html").as_uri()


def fits(page: Page) -> bool:
    return bool(page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"))


def test_a_report_can_be_read_by_everybody(visit: Visit, report: str) -> None:
    views: list[dict[str, Any]] = [{}, {"color_scheme": "dark"}, PHONE, SMALL]
    for options in views:
        visitor = visit(path=None, **options)
        visitor.page.goto(report)
        assert violations(visitor) == []
        assert fits(visitor.page)
        assert visitor.page.evaluate(SMALLEST) >= 11.9
        assert visitor.page.evaluate(OUTSIDE) == []
        assert visitor.page.evaluate(BROKEN) == [], "names in the conclusion stay whole"
        ground = visitor.page.evaluate(BACKGROUND)
        assert ground == ("rgb(19, 17, 28)" if "color_scheme" in options else "rgb(245, 242, 236)")
        assert not visitor.page.locator("details[open]").count()


def test_a_report_is_printed_light_and_within_the_paper(visit: Visit, report: str) -> None:
    visitor = visit(path=None, color_scheme="dark", viewport={"width": 740, "height": 1040})
    visitor.page.goto(report)
    visitor.page.emulate_media(media="print")
    assert fits(visitor.page)
    colour = visitor.page.evaluate("() => getComputedStyle(document.querySelector('h1')).color")
    assert colour == "rgb(33, 28, 48)"


def test_picture_of_the_report(album: Path, visit: Visit, tmp_path: Path) -> None:
    """The report that `igcf demo` writes: the first that anybody sees."""
    assert run("demo", "--out", str(tmp_path / "demo")).exit_code == 0
    visitor = visit(path=None, viewport={"width": 1280, "height": 1000})
    visitor.page.goto((tmp_path / "demo" / "report" / "report.html").as_uri())
    assert "igcf" in visitor.text("h1")
    assert visitor.page.locator("h1 span").first.inner_text() == "pca-gp"
    keep(visitor, album, "report.png")
