"""The first minute of a visitor: a choice of favourites, cards that never wait, nothing that jumps, words."""

from typing import Any

import pytest
from playwright.sync_api import Route

from tests.web.conftest import READY, Server, Visit, Visitor

pytestmark = pytest.mark.slow

PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
SHIFTS = """() => new Promise((done) => {
    let sum = 0;
    new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) if (!entry.hadRecentInput) sum += entry.value;
    }).observe({ type: "layout-shift", buffered: true });
    setTimeout(() => done(sum), 100);
})"""
TASTE = {"Horror", "Thriller", "Crime"}


def newcomer(visit: Visit, **options: Any) -> Visitor:
    visitor = visit(path=None, **options)
    visitor.page.goto(visitor.server.url)
    visitor.page.wait_for_function(READY)
    return visitor


def test_a_newcomer_picks_three_favourites_and_the_first_card_knows_them(visit: Visit, server: Server) -> None:
    visitor = newcomer(visit)
    page = visitor.page
    tiles = page.locator("#start-grid button")
    assert tiles.count() == 12
    firsts = [item["categories"][0] for item in server.call("GET", "/page/start")["items"]]
    assert len(set(firsts)) >= 10, "well spread"
    go = page.locator("#start-go")
    assert go.is_disabled()
    picked = []
    for place in (0, 4, 7):
        tiles.nth(place).click()
        picked.append(tiles.nth(place).get_attribute("data-item"))
    assert tiles.nth(4).get_attribute("aria-pressed") == "true"
    go.click()
    page.wait_for_selector("#like:enabled")
    page.wait_for_function("() => document.querySelector('#facts').innerText.startsWith('3 reactions')")
    visitor.settled()
    assert server.history(visitor.user) == [(item, 5.0) for item in picked]
    assert visitor.item not in picked
    page.reload()
    page.wait_for_selector("#like:enabled")
    assert page.locator("#start").is_hidden(), "asked once"


def test_the_choice_can_be_left_out_and_a_visitor_has_a_friendly_name(visit: Visit, server: Server) -> None:
    visitor = newcomer(visit)
    visitor.page.click("#start-cards")
    visitor.page.wait_for_selector("#like:enabled")
    assert server.history(visitor.user) == []
    name = visitor.text("#visitor")
    assert len(name.split()) == 2
    assert "visitor-" not in visitor.text("header.bar")


def test_the_address_can_name_the_user(visit: Visit, server: Server) -> None:
    items = [item["item"] for item in server.call("GET", "/v1/items?limit=3")["items"]]
    for item in items:
        server.call("POST", "/v1/users/ann b/feedback".replace(" ", "%20"), {"item": item, "value": 5})
    visitor = visit(path="/?user=ann%20b").settled()
    assert visitor.text("#visitor") == "ann b"
    assert visitor.text("#facts").startswith("3 reactions")
    visitor.lab().page.click("#new-visitor")
    visitor.page.wait_for_selector("#start:visible")
    assert visitor.page.url == f"{server.url}/"


def test_ten_reactions_at_fifty_milliseconds_are_all_counted(visit: Visit, server: Server) -> None:
    visitor = visit().settled()
    keys = ["ArrowRight", "ArrowLeft", "4", "ArrowRight", "2", "ArrowLeft", "ArrowRight", "5", "1", "ArrowLeft"]
    for key in keys:
        visitor.page.keyboard.press(key)
        visitor.page.wait_for_timeout(50)
    visitor.settled()
    values = {"ArrowRight": 5.0, "ArrowLeft": 1.0}
    history = server.history(visitor.user)
    assert [value for _, value in history] == [values.get(key) or float(key) for key in keys]
    assert len({item for item, _ in history}) == 10
    assert visitor.text("#facts").startswith("10 reactions")


def test_fast_reactions_on_a_slow_network_are_kept_and_the_next_card_is_the_foreseen_one(
    visit: Visit, server: Server
) -> None:
    visitor = visit().settled()
    ask = f"/page/users/{visitor.user}/choices?item={visitor.item}&value=5"
    foreseen = server.call("GET", ask)["outcomes"][0]["items"][0]["item"]
    held: list[Route] = []
    is_slow = True

    def late(route: Route) -> None:
        held.append(route) if is_slow else route.continue_()

    visitor.page.route("**/feedback", late)
    visitor.page.route("**/recommendations", late)
    visitor.press("ArrowRight")
    assert visitor.item == foreseen, "chosen with what the reaction taught, before the server heard of it"
    for _ in range(7):
        visitor.press("ArrowLeft")
    assert visitor.text("#facts").startswith("8 reactions")
    is_slow = False
    for route in held:
        route.continue_()
    visitor.page.wait_for_function("() => !Object.keys(localStorage).some((name) => name.startsWith('igcf.out.'))")
    visitor.settled()
    assert [value for _, value in server.history(visitor.user)] == [5.0] + [1.0] * 7


def test_offline_and_back(visit: Visit, server: Server) -> None:
    visitor = visit().settled()
    visitor.context.set_offline(True)
    for _ in range(4):
        visitor.press("ArrowRight")
    visitor.page.wait_for_selector("text=4 reactions are saved here")
    assert visitor.page.locator(".card:not(.leave)[data-item]").count() == 1, "there are cards for a while"
    visitor.context.set_offline(False)
    visitor.page.wait_for_selector("text=The server is back and has everything.")
    visitor.settled()
    assert len(server.history(visitor.user)) == 4
    visitor.errors.clear()  # the browser notes that it was offline


@pytest.mark.parametrize("options", [{}, PHONE], ids=["desktop", "phone"])
def test_nothing_jumps_while_the_page_fills_and_changes(visit: Visit, options: dict[str, Any]) -> None:
    visitor = newcomer(visit, **options)
    visitor.page.click("#start-cards")
    visitor.page.wait_for_selector("#bets li", state="attached")
    for key in ("ArrowRight", "ArrowLeft", "3"):
        visitor.press(key)
        visitor.settled()
    assert visitor.page.evaluate(SHIFTS) < 0.05


@pytest.mark.parametrize("width", [320, 390, 1920])
def test_every_width_is_used_and_nothing_sticks_out(visit: Visit, width: int) -> None:
    visitor = newcomer(visit, viewport={"width": width, "height": 844})
    page = visitor.page
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.click("#start-cards")
    page.wait_for_selector("#bets li", state="attached")
    visitor.settled()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for name in ("like", "dislike", "skip", "undo", "lab-toggle", "help", "theme"):
        box = page.locator(f"#{name}").bounding_box()
        assert box is not None
        assert min(box["height"], box["width"]) >= 40, name
        assert box["height"] >= 44, name
    if width == 1920:
        right = max(box["x"] + box["width"] for box in (page.locator(".curve").bounding_box(),) if box)
        assert right > 0.9 * 1760
    else:
        card, strip = page.locator(".card").bounding_box(), page.locator(".learned").bounding_box()
        assert card is not None
        assert strip is not None
        assert card["y"] < strip["y"] < 844, "the evidence is seen under the card"


def test_the_page_says_what_was_learned_and_nothing_while_nothing_is_known(visit: Visit, server: Server) -> None:
    visitor = visit().settled()
    assert visitor.text("#learned").startswith("Nothing yet")
    for _ in range(11):
        visitor.press("ArrowRight" if visitor.likes(*TASTE) else "ArrowLeft")
    visitor.settled()
    told = server.call("GET", f"/page/users/{visitor.user}/beliefs")["taste"]
    said = visitor.text("#learned")
    assert said == told["sentence"] or said.startswith(("So far you liked", "No clear pattern yet."))
    assert told["sentence"] in said
    assert visitor.page.locator("#learned[aria-live=polite]").count() == 1


def test_where_no_taste_stands_out_the_page_counts_what_was_liked(visit: Visit) -> None:
    visitor = visit().settled()

    def without_a_sentence(route: Route) -> None:
        answer = route.fetch()
        told = answer.json()
        told["taste"] |= {"sentence": "", "confidence": "none"}
        for category, hits, misses in zip(told["taste"]["groups"], (5, 4, 3), (0, 1, 2), strict=False):
            category |= {"hits": hits, "misses": misses, "standing": "unsure"}
        names.extend(each["name"] for each in told["taste"]["groups"])
        route.fulfill(response=answer, json=told)

    names: list[str] = []
    visitor.page.route("**/beliefs*", without_a_sentence)
    visitor.press("ArrowRight")
    visitor.settled()
    visitor.page.wait_for_function("() => document.querySelector('#learned').textContent.startsWith('So far')")
    assert visitor.text("#learned") == f"So far you liked 5 of 5 in {names[0]} and 4 of 5 in {names[1]}."
    assert visitor.text("#learned-more").startswith("Too early to say how you differ from others.")


def test_the_cards_do_not_wait_for_the_choice_and_a_late_refusal_does_not_end_it(visit: Visit) -> None:
    visitor = visit(path=None)
    held: list[Route] = []
    visitor.page.route("**/page/start*", lambda route: held.append(route))
    visitor.page.goto(visitor.server.url)
    visitor.page.wait_for_selector("#start:visible")
    visitor.page.click("#start-cards")
    visitor.page.wait_for_selector("#like:enabled")
    visitor.lab().page.click("#new-visitor")
    visitor.page.wait_for_selector("#start:visible")
    while len(held) < 2:
        visitor.page.wait_for_timeout(5)  # the second question is on its way to here
    held[1].continue_()
    visitor.page.wait_for_selector("#start-grid button")
    held[0].fulfill(status=401, json={"error": "AuthenticationError", "message": "no key"})
    visitor.settled()
    assert visitor.page.locator("#start-grid button").count() == 12
    assert visitor.page.locator("#start").is_visible()
    visitor.errors.clear()  # the browser itself notes the 401
