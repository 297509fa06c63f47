"""Everybody can use the page: axe-core, motion, colours; and nobody but this server has a say in it."""

import re
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]

import igcf.service
from tests.web.conftest import Serve, Server, Visit, Visitor, film_model

pytestmark = pytest.mark.slow

WEB = Path(igcf.service.__file__).parent / "web"
BUDGET = 200_000
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


def violations(visitor: Visitor) -> list[str]:
    found = Axe().run(visitor.page).response["violations"]
    return [f"{each['id']} ({each['impact']}): {node['html'][:120]}" for each in found for node in each["nodes"]]


@pytest.mark.parametrize("options", [{}, {"color_scheme": "dark"}, PHONE], ids=["light", "dark", "phone"])
def test_axe_finds_nothing_on_the_page(visit: Visit, options: dict[str, Any]) -> None:
    visitor = visit(reduced_motion="reduce", **options)
    for key in ("ArrowRight", "ArrowLeft", "3", "ArrowDown"):
        visitor.press(key)
    visitor.settled()
    assert violations(visitor) == []


@pytest.mark.parametrize("button", ["help", "load-user", "forget"])
def test_axe_finds_nothing_in_the_dialogs(visit: Visit, button: str) -> None:
    visitor = visit(reduced_motion="reduce")
    visitor.lab().page.click(f"#{button}")
    assert violations(visitor) == []
    assert visitor.page.evaluate("document.activeElement.closest('dialog') !== null"), "the dialog has the keyboard"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_the_dashboard(visit: Visit, server: Server, scheme: str) -> None:
    server.call("POST", "/v1/users/somebody/recommendations", {})
    visitor = visit(path="/dashboard", color_scheme=scheme)
    visitor.page.wait_for_selector("#tiles .tile")
    assert violations(visitor) == []


@pytest.mark.parametrize("options", [{"color_scheme": "dark"}, PHONE], ids=["dark", "phone"])
def test_axe_finds_nothing_on_the_other_screens(visit: Visit, options: dict[str, Any]) -> None:
    visitor = visit(path=None, **options)
    for path, there in (
        ("/", "#start-grid button"),
        ("/dashboard", "#tiles .tile"),
        ("/docs", "#schemas:not([hidden])"),
    ):
        visitor.page.goto(visitor.server.url + path)
        visitor.page.wait_for_selector(there)
        visitor.settled()
        assert violations(visitor) == [], path
        assert visitor.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path


def test_titles_are_written_in_the_direction_of_their_language(visit: Visit, serve_here: Serve) -> None:
    model = film_model.__wrapped__()  # one of its own, since it is changed
    model.titles = tuple(f"שם הסרט {n} (1999)" for n in range(model.n_items))
    visitor = visit(serve_here(model), viewport={"width": 320, "height": 700}).settled()
    for selector in (".card:not(.leave) h2", "#bets .name"):
        direction = visitor.page.locator(selector).first.evaluate("each => getComputedStyle(each).direction")
        assert direction == "rtl", selector
    assert visitor.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_colours_follow_the_system_or_the_button(visit: Visit) -> None:
    visitor = visit(color_scheme="dark")
    paper = "getComputedStyle(document.body).backgroundColor"
    dark = visitor.page.evaluate(paper)
    visitor.page.click("#theme")
    light = visitor.page.evaluate(paper)
    assert light != dark
    visitor.page.reload()
    visitor.page.wait_for_selector("#bets li")
    assert visitor.page.evaluate(paper) == light
    assert visitor.page.get_by_role("button", name="Colours: light").is_visible()


def test_nothing_moves_for_those_who_asked_for_it(visit: Visit) -> None:
    visitor = visit(reduced_motion="reduce")
    visitor.press("ArrowRight")
    visitor.page.wait_for_function("() => document.querySelector('#facts').innerText.startsWith('1 reaction')")
    assert visitor.page.locator(".card.leave").count() == 0
    assert visitor.page.evaluate("document.getAnimations().length") == 0


def test_a_screen_reader_hears_the_next_card(visit: Visit) -> None:
    visitor = visit()
    visitor.press("ArrowRight")
    visitor.settled()
    title = visitor.text(".card:not(.leave) h2")
    assert visitor.page.locator("#announce[aria-live=polite]").inner_text().startswith(title)
    assert visitor.page.locator("#map canvas").get_attribute("aria-label", timeout=1000)


def test_the_policy_is_strict_and_nothing_comes_from_outside(visit: Visit, server: Server) -> None:
    visitor = visit(path=None)
    answers: list[tuple[str, str]] = []
    visitor.page.on(
        "response", lambda answer: answers.append((answer.url, answer.headers.get("content-security-policy", "")))
    )
    for path in ("/", "/dashboard"):
        visitor.open(path).settled()
    assert {url.split("/", 3)[2] for url, _ in answers} == {server.url.removeprefix("http://")}
    for url, policy in answers:
        rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
        assert rules["script-src"] == rules["style-src"] == "'self'", url
        assert rules["default-src"] in ("'none'", "'self'")
        assert rules["frame-ancestors"] == rules["base-uri"] == "'none'"
        assert "unsafe" not in policy


def test_the_policy_stops_a_script_that_got_in(visit: Visit) -> None:
    visitor = visit()
    visitor.page.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.harmed = 1'}))"
    )
    assert visitor.page.evaluate("window.harmed") is None
    assert any("Content Security Policy" in error for error in visitor.errors)
    visitor.errors.clear()


def test_all_files_together_are_small_and_name_no_other_host() -> None:
    files = [file for file in WEB.iterdir() if file.is_file()]
    assert sum(file.stat().st_size for file in files) < BUDGET
    for file in files:
        hosts = set(re.findall(r"https?://[^\s\"'<>]+", file.read_text(encoding="utf-8")))
        assert hosts <= {"http://www.w3.org/2000/svg"}, file.name


def test_pages_hold_no_inline_script_or_style() -> None:
    for page in WEB.glob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:", text)
        assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", text))
