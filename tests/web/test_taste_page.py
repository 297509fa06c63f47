"""What a visitor takes away and may play with: reasons, past cards, the taste card, the map, the lab."""

import re
import time
from io import BytesIO
from typing import Any

import pytest
from PIL import Image
from playwright.sync_api import Route

from tests.web.conftest import Server, Visit, Visitor
from tests.web.test_access import PHONE, violations

pytestmark = pytest.mark.slow

TASTE = ("Horror", "Thriller", "Crime")


def react_by_taste(visitor: Visitor, rounds: int) -> None:
    for _ in range(rounds):
        visitor.press("ArrowRight" if visitor.likes(*TASTE) else "ArrowLeft")


def answers_given(server: Server) -> int:
    """Count the answers, once the audit, which is written twice a second, has all of them."""
    before = None
    for _ in range(20):
        given = int(server.call("GET", "/page/stats")["store"]["recommendations"])
        if given == before:
            return given
        before = given
        time.sleep(1.2)
    raise AssertionError("the answers given are not written")


def test_reasons_are_words_and_a_dislike_is_never_praise(visit: Visit) -> None:
    visitor = visit()
    react_by_taste(visitor, 5)
    visitor.settled()
    titles = {
        kind: {title.split(":")[0] for title in visitor.page.locator(f"#past .{kind} b").all_text_contents()}
        for kind in ("good", "bad")
    }
    reasons = visitor.page.locator("#why .reasons li")
    assert reasons.count() >= 1
    for place in range(reasons.count()):
        text, kind = reasons.nth(place).inner_text(), reasons.nth(place).get_attribute("class")
        named = {title for title in titles["bad"] if title in text}
        assert not (named and kind == "plus"), text
        if text.startswith("because you liked"):
            assert {title for title in titles["good"] if title in text}
    assert visitor.page.locator("#why details:not([open])").count() == 1, "numbers on demand"


def test_a_past_card_is_opened_changed_and_removed_and_the_belief_follows(visit: Visit, server: Server) -> None:
    visitor = visit()
    items = [visitor.press("ArrowRight"), visitor.press("ArrowLeft"), visitor.press("ArrowRight")]
    visitor.settled()
    bets = visitor.text("#bets")
    visitor.page.click("#past li:nth-child(2) button")
    assert "not for me" in visitor.text("#round-said") or "1 star" in visitor.text("#round-said")
    assert violations(visitor) == []
    visitor.page.get_by_role("button", name="5 stars").last.click()
    visitor.settled()
    assert sorted(server.history(visitor.user)) == sorted((item, 5.0) for item in items)
    assert visitor.text("#bets") != bets
    assert "3 hits" in visitor.text("#facts")
    visitor.page.click("#past li:nth-child(3) button")
    visitor.page.click("#round-remove")
    visitor.settled()
    assert sorted(server.history(visitor.user)) == sorted((item, 5.0) for item in items[1:])
    assert visitor.page.locator("#past li").count() == 2


def test_after_twelve_reactions_there_is_a_taste_card_to_take_away(visit: Visit, server: Server) -> None:
    visitor = visit(accept_downloads=True, permissions=["clipboard-read", "clipboard-write"])
    page = visitor.page
    react_by_taste(visitor, 11)
    visitor.settled()
    assert page.locator("#finale").is_hidden()
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("#finale[open] canvas[data-painted='12']")
    visitor.settled()
    picks = server.bets(visitor.user)
    shown = page.locator("#finale-picks li span").all_text_contents()
    assert shown == [re.sub(r" \(\d{4}\)$", "", each["title"]) for each in picks]
    hits = sum(value == 5.0 for _, value in server.history(visitor.user))
    assert visitor.text("#finale-hits").startswith(f"{hits} of 12 were hits. The most popular")
    assert violations(visitor) == []
    with page.expect_download() as download:
        page.click("#card-download")
    picture = Image.open(BytesIO(download.value.path().read_bytes()))
    assert picture.size == (1080, 1350)
    assert len(picture.convert("RGB").getcolors(10**6) or []) > 500, "not blank"
    page.click("#card-copy")
    page.wait_for_selector("text=Copied. Paste it anywhere.")
    assert page.evaluate("navigator.clipboard.read().then((found) => found[0].types)") == ["image/png"]
    page.get_by_role("button", name="Keep going").click()
    assert len(server.history(visitor.user)) == 12
    user = visitor.user
    page.click("#show-finale")
    page.click("#start-again")
    page.wait_for_selector("#start:visible")
    assert visitor.user != user
    visitor.settled()


def test_after_thirty_reactions_there_is_another_taste_card(visit: Visit, server: Server) -> None:
    items = [item["item"] for item in server.call("GET", "/v1/items?limit=29")["items"]]
    for item in items:
        server.call("POST", "/v1/users/thirty/feedback", {"item": item, "value": 4})
    visitor = visit(path="/?user=thirty").settled()
    assert visitor.page.locator("#finale").is_hidden()
    visitor.page.keyboard.press("ArrowRight")
    visitor.page.wait_for_selector("#finale[open] canvas[data-painted='30']")
    assert visitor.settled().text("#finale-hits").startswith("30 of 30 were hits.")


def test_a_taste_card_waits_for_reactions_that_are_still_on_their_way(visit: Visit, server: Server) -> None:
    visitor = visit()
    react_by_taste(visitor, 10)
    visitor.settled()
    held: list[Route] = []
    is_slow = True

    def late(route: Route) -> None:
        held.append(route) if is_slow else route.continue_()

    visitor.page.route("**/feedback", late)
    visitor.page.keyboard.press("ArrowRight")
    visitor.page.keyboard.press("ArrowRight")
    visitor.page.click("#past li button")  # asks what is believed, while two reactions are not sent
    visitor.page.click("#round-why")
    visitor.page.wait_for_selector("#why-back:visible")
    assert visitor.page.locator("#finale").is_hidden()
    is_slow = False
    for route in held:
        route.continue_()
    visitor.page.wait_for_selector("#finale[open] canvas[data-painted='12']")
    picks = [re.sub(r" \(\d{4}\)$", "", each["title"]) for each in server.bets(visitor.user)]
    assert visitor.page.locator("#finale-picks li span").all_text_contents() == picks
    assert len(server.history(visitor.user)) == 12
    visitor.settled()


def test_a_taste_card_does_not_come_for_a_reaction_that_was_taken_back(visit: Visit, server: Server) -> None:
    visitor = visit()
    react_by_taste(visitor, 11)
    visitor.settled()
    for key in ("ArrowRight", "ArrowLeft"):  # the twelfth, and at once not
        visitor.page.evaluate(
            "keys => keys.forEach((key) => document.body.dispatchEvent("
            "new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true })))",
            [key, "z"],
        )
    visitor.settled()
    assert visitor.page.locator("#finale").is_hidden()
    assert len(server.history(visitor.user)) == 11
    visitor.page.keyboard.press("ArrowRight")
    visitor.page.wait_for_selector("#finale[open] canvas[data-painted='12']")
    visitor.settled()


def test_the_map_names_its_regions_and_can_be_read_by_keyboard(visit: Visit) -> None:
    visitor = visit()
    react_by_taste(visitor, 4)
    visitor.settled()
    page = visitor.page
    labels = page.locator(".region")
    assert labels.count() == 12
    box = page.locator("#map").bounding_box()
    assert box is not None
    for place in range(labels.count()):
        own = labels.nth(place).bounding_box()
        assert own is not None
        assert box["x"] - 12 <= own["x"] <= own["x"] + own["width"] <= box["x"] + box["width"] + 12
    labels.first.focus()
    first = visitor.text("#map-tip")
    page.keyboard.press("ArrowRight")
    assert visitor.text("#map-tip") != first
    assert re.search(r"\d+ items, (hardly|partly|well) explored", visitor.text("#map-tip"))
    assert visitor.text("#facts").startswith("4 reactions"), "the arrows belong to the map there"
    page.click("#replay")
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


@pytest.mark.parametrize("options", [{}, PHONE], ids=["pointer", "finger"])
def test_a_dot_of_the_map_says_what_it_is_and_explains_itself(visit: Visit, options: dict[str, Any]) -> None:
    visitor = visit(**options)
    react_by_taste(visitor, 2)
    page = visitor.settled().page
    page.locator("#map").scroll_into_view_if_needed()
    before, box = visitor.text("#map-tip"), page.locator(".region").first.bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] + 24  # below the name and what belongs to it
    if options:
        page.touchscreen.tap(x, y)
    else:
        page.mouse.move(x, y)
        assert visitor.text("#map-tip") != before, "what it is"
        page.mouse.click(x, y)
    page.wait_for_selector("#why-back:visible")
    name = visitor.text("#map-tip").split(" (")[0]
    page.wait_for_function("name => document.querySelector('#why').innerText.includes(name)", arg=name)
    visitor.settled()


def test_a_visitor_stands_among_the_regions_nearest_to_what_they_like(visit: Visit) -> None:
    visitor = visit()
    found: dict[str, Any] = visitor.page.evaluate(
        """async () => {
            const { grouped, layOut, seeds, standing } = await import("/static/regions.js");
            const items = Array.from({ length: 120 }, (_, i) => ({
                item: `i${i}`, title: null, categories: [`c${i % 6}`], popularity_rank: i + 1,
                x: Math.cos(i % 6), y: Math.sin(i % 6) }));
            const regions = layOut(grouped(items, []), 500, 300);
            const you = standing(regions, new Map(regions.map((each) => [each.name, each.name === "c3" ? 3 : -1])));
            return { regions, you, seeds: regions.flatMap(seeds).length, start: standing(regions, new Map()) };
        }"""
    )
    regions = {each["name"]: each for each in found["regions"]}
    assert set(regions) == {f"c{i}" for i in range(6)}
    assert found["seeds"] == 120
    for name, one in regions.items():
        assert one["r"] <= one["x"] <= 500 - one["r"]
        assert one["r"] <= one["y"] <= 300 - one["r"]
        for other in regions.values():
            far = ((one["x"] - other["x"]) ** 2 + (one["y"] - other["y"]) ** 2) ** 0.5
            assert other["name"] == name or far > 0.9 * (one["r"] + other["r"]), "no region covers another"
    x, y = found["you"]
    nearest = min(regions.values(), key=lambda each: (each["x"] - x) ** 2 + (each["y"] - y) ** 2)
    assert nearest["name"] == "c3"
    assert 0 < x < 500
    assert 0 < y < 300


def test_the_lab_is_closed_until_it_is_opened_and_compares_two_ways_to_choose(visit: Visit, server: Server) -> None:
    visitor = visit()
    page = visitor.page
    assert page.locator("#lab").is_hidden()
    visitor.settled()
    given = answers_given(server)
    visitor.lab()
    page.select_option("#versus", "ucb:2")
    page.wait_for_selector("#versus-lists ol:nth-of-type(1) li")
    visitor.settled()
    assert page.locator("#versus-lists ol").count() == 2
    assert page.locator("#versus-lists li").count() == 10
    assert violations(visitor) == []
    assert answers_given(server) == given, "a comparison shows nothing"
    page.reload()
    page.wait_for_selector("#lab:visible")
    page.click("#lab-close")
    page.reload()
    page.wait_for_selector("#like:enabled")
    assert page.locator("#lab").is_hidden()
    visitor.settled()


def test_axe_finds_nothing_on_the_first_screen(visit: Visit) -> None:
    visitor = visit(path=None)
    visitor.page.goto(visitor.server.url)
    visitor.page.wait_for_selector("#start-grid button")
    visitor.settled()
    assert violations(visitor) == []
