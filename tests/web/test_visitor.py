"""A person in front of the page, in a real browser."""

import re
from typing import Any

import pytest
from playwright.sync_api import Request, Route

from tests.web.conftest import Serve, Server, Visit, Visitor, film_model, hostile_model

pytestmark = pytest.mark.slow

TASTE = ("Horror", "Thriller", "Crime")


def unknown(visitor: Visitor) -> float:
    """Share of what was open about the visitor that the reactions have left."""
    return float(visitor.server.call("GET", f"/page/users/{visitor.user}/beliefs")["taste"]["unknown"])


def react_by_taste(visitor: Visitor, rounds: int) -> None:
    for _ in range(rounds):
        visitor.press("ArrowRight" if visitor.likes(*TASTE) else "ArrowLeft")


def test_a_newcomer_reacts_to_twelve_cards_and_sees_the_belief_change(visit: Visit, server: Server) -> None:
    visitor = visit().settled()
    before = visitor.text("#bets")
    picture = visitor.page.locator("#map canvas").screenshot()
    assert unknown(visitor) == 1.0
    react_by_taste(visitor, 11)
    assert unknown(visitor.settled()) < 0.9
    assert visitor.text("#bets") != before
    assert visitor.page.locator("#map canvas").screenshot() != picture
    assert visitor.text("#facts").startswith("11 reactions")
    history = server.history(visitor.user)
    hits = sum(value == 5.0 for _, value in history)
    assert len(history) == 11
    assert hits >= 4, "it should have found the taste"
    assert f"{hits} hits" in visitor.text("#facts")
    bets = server.bets(visitor.user)[:7]
    shown = visitor.page.locator("#bets .name").all_text_contents()
    assert shown == [re.sub(r" \(\d{4}\)$", "", bet["title"]) for bet in bets]


def test_the_learning_curve_counts_hits_and_what_popularity_would_have_scored(visit: Visit, server: Server) -> None:
    visitor = visit()
    react_by_taste(visitor, 6)
    visitor.settled()
    history = dict(server.history(visitor.user))
    popular = server.call("GET", f"/page/users/{visitor.user}/beliefs?popular=6")["popular"]
    expected = sum((history[p["item"]] == 5.0) if p["item"] in history else p["chance"] for p in popular)
    hits = sum(value == 5.0 for value in history.values())
    assert visitor.text("#curve-sum") == f"{hits} against {expected:.1f}"


def test_a_card_says_whether_it_pleases_or_teaches_and_why(visit: Visit) -> None:
    visitor = visit()
    react_by_taste(visitor, 4)
    visitor.settled()
    assert visitor.text(".card:not(.leave) .badge").split(maxsplit=1)[1] in ("To please", "To learn")
    assert visitor.text("#why .badge") == visitor.text(".card:not(.leave) .badge")
    numbers = [
        int(text.replace("−", "-").split("\u00a0")[0])
        for text in visitor.page.locator("#why td.number").all_text_contents()
    ]
    assert len(numbers) == 1 + 4 + 1
    assert sum(numbers[:-1]) == pytest.approx(numbers[-1], abs=3), "the parts sum to the whole, each rounded"


def test_a_bet_explains_itself_when_asked(visit: Visit) -> None:
    visitor = visit()
    react_by_taste(visitor, 2)
    visitor.settled()
    name = visitor.text("#bets li:nth-child(3) .name")
    visitor.page.click("#bets li:nth-child(3) button")
    visitor.page.wait_for_function("name => document.querySelector('#why').innerText.includes(name)", arg=name)
    visitor.page.click("#why-back")
    visitor.page.wait_for_selector("#why .badge")
    assert visitor.page.locator("#why-back").is_hidden()


def test_a_reload_keeps_the_state(visit: Visit) -> None:
    visitor = visit()
    react_by_taste(visitor, 5)
    visitor.settled()
    seen = [visitor.user, visitor.item, *map(visitor.text, ("#facts", "#bets", "#why", "#learned", "#curve-sum"))]
    visitor.page.reload()
    visitor.page.wait_for_selector("#bets li")
    visitor.settled()
    again = [visitor.user, visitor.item, *map(visitor.text, ("#facts", "#bets", "#why", "#learned", "#curve-sum"))]
    assert again == seen
    assert visitor.page.locator("#past li").count() == 5


def test_undo_brings_the_card_back_and_the_server_forgets_the_reaction(visit: Visit, server: Server) -> None:
    visitor = visit()
    react_by_taste(visitor, 3)
    visitor.settled()
    item, bets, area = visitor.item, visitor.text("#bets"), unknown(visitor)
    visitor.press("ArrowRight")
    visitor.settled()
    visitor.after(lambda: visitor.page.click("#undo"))
    visitor.settled()
    assert (visitor.item, visitor.text("#bets"), unknown(visitor)) == (item, bets, area)
    assert len(server.history(visitor.user)) == 3
    visitor.press("2")
    visitor.settled()
    assert server.history(visitor.user)[-1] == (item, 2.0)


def test_undo_goes_back_beyond_a_reload_to_the_beginning(visit: Visit, server: Server) -> None:
    visitor = visit()
    items = [visitor.press("ArrowRight"), visitor.press("ArrowLeft")]
    visitor.settled()
    visitor.page.reload()
    visitor.page.wait_for_selector("#bets li")
    for item in reversed(items):
        visitor.after(lambda: visitor.page.keyboard.press("z"))
        assert visitor.item == item
    visitor.settled()
    assert server.history(visitor.user) == []
    assert visitor.page.locator("#undo").is_disabled()
    assert visitor.text("#learned").startswith("Nothing yet")


def test_an_undo_that_overtakes_its_reaction_wins(visit: Visit, server: Server) -> None:
    visitor = visit()
    visitor.press("ArrowRight")
    visitor.page.keyboard.press("z")
    visitor.settled()
    assert visitor.waiting() == 0
    assert server.history(visitor.user) == []


def test_forget_me_asks_first_and_leaves_nothing(visit: Visit, server: Server) -> None:
    visitor = visit()
    react_by_taste(visitor, 3)
    visitor.settled()
    user = visitor.user
    visitor.lab().page.click("#forget")
    assert visitor.text("#visitor") in visitor.text("#forget-dialog")
    visitor.page.get_by_role("button", name="Keep").click()
    assert len(server.history(user)) == 3
    assert server.rows_about(user)
    visitor.lab().page.click("#forget")
    visitor.page.get_by_role("button", name="Forget me", exact=True).click()
    visitor.page.wait_for_selector("text=has been deleted. You are a new visitor.")
    visitor.settled()
    assert server.rows_about(user) == []
    assert visitor.user != user
    kept = visitor.page.evaluate("JSON.stringify({...localStorage, ...sessionStorage})")
    assert user not in kept
    assert visitor.text("#facts").startswith("0 reactions")


def test_keys_give_values_in_the_units_of_the_log(visit: Visit, server: Server) -> None:
    visitor = visit()
    given = {"ArrowRight": 5.0, "ArrowLeft": 1.0, "ArrowDown": None, "3": 3.0, "4": 4.0, "2": 2.0}
    items = [visitor.press(key) for key in given]
    visitor.settled()
    assert server.history(visitor.user) == list(zip(items, given.values(), strict=True))


def test_everything_works_with_the_keyboard_alone(visit: Visit, server: Server) -> None:
    visitor = visit()
    page = visitor.page

    def focus(selector: str) -> None:
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate("selector => document.activeElement.matches(selector)", selector):
                outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
                assert outline != "none", f"{selector} shows no focus"
                return
        raise AssertionError(f"{selector} cannot be reached")

    focus("#like")
    visitor.after(lambda: page.keyboard.press("Enter"))
    focus('#stars [aria-label="4 stars"]')
    visitor.after(lambda: page.keyboard.press("Space"))
    visitor.settled()
    assert [value for _, value in server.history(visitor.user)] == [5.0, 4.0]
    page.keyboard.press("?")
    assert page.evaluate("document.querySelector('#help-dialog').open")
    page.keyboard.press("ArrowRight")  # belongs to the dialog now
    page.keyboard.press("Escape")
    assert not page.evaluate("document.querySelector('#help-dialog').open")
    focus("#lab-toggle")
    page.keyboard.press("Enter")
    focus("#nu")
    page.keyboard.press("ArrowRight")  # belongs to the slider
    visitor.settled()
    assert len(server.history(visitor.user)) == 2
    assert visitor.text("#nu-value") == "0.55"
    focus("#load-user")
    page.keyboard.press("Enter")
    page.keyboard.type("keyboard-user")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelector('#visitor').innerText === 'keyboard-user'")


def test_the_keys_can_be_switched_off(visit: Visit, server: Server) -> None:
    visitor = visit()
    visitor.page.keyboard.press("?")
    visitor.page.get_by_label("Use these keys").uncheck()
    visitor.page.keyboard.press("Escape")
    item = visitor.item
    visitor.page.keyboard.press("ArrowRight")
    visitor.settled()
    assert visitor.item == item
    assert server.history(visitor.user) == []


def test_on_a_phone_a_swipe_is_a_reaction_and_nothing_sticks_out(visit: Visit, server: Server) -> None:
    visitor = visit(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True, device_scale_factor=2)
    page = visitor.page
    touch = visitor.context.new_cdp_session(page)

    def swipe(to: int, up: int = 0) -> None:
        box = page.locator(".card:not(.leave)").bounding_box()
        assert box is not None
        x, y = box["x"] + box["width"] / 2, box["y"] + 200
        touch.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": x, "y": y}]})
        for step in range(1, 6):
            points = [{"x": x + to * step / 5, "y": y + up * step / 5}]
            touch.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": points})
        touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})

    visitor.after(lambda: page.tap("#skip"))
    visitor.after(lambda: swipe(150))
    visitor.after(lambda: swipe(-150))
    visitor.after(lambda: swipe(0, -150))
    swipe(30)  # too short to mean anything
    visitor.settled()
    assert [value for _, value in server.history(visitor.user)] == [None, 5.0, 1.0, None]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for name in ("like", "dislike", "skip"):
        box = page.locator(f"#{name}").bounding_box()
        assert box is not None
        assert box["height"] >= 44
        assert box["y"] + box["height"] < 844, "reachable without scrolling"


def test_the_next_card_does_not_wait_for_a_slow_server(visit: Visit) -> None:
    visitor = visit().settled()
    held: list[Route] = []
    visitor.page.route("**/recommendations", lambda route: held.append(route))
    visitor.press("ArrowRight")
    visitor.press("ArrowLeft")
    while not held:
        visitor.page.wait_for_timeout(5)  # the request is on its way to here
    for route in held:
        route.continue_()
    visitor.page.unroute_all(behavior="wait")
    visitor.settled()


def test_the_first_card_waits_for_nothing_but_itself(visit: Visit) -> None:
    visitor = visit(path=None)
    held: list[Route] = []
    for path in ("**/v1/model", "**/v1/items*", "**/v1/users/*", "**/beliefs*", "**/explanations/*"):
        visitor.page.route(path, lambda route: held.append(route))
    visitor.page.goto(visitor.server.url)
    visitor.page.wait_for_selector(".card[data-item]", state="attached")
    assert held
    for route in held:
        route.continue_()
    visitor.page.unroute_all(behavior="wait")
    visitor.page.wait_for_selector("#like:enabled", state="attached")


def test_the_controls_change_how_cards_are_chosen(visit: Visit) -> None:
    visitor = visit()
    page = visitor.page
    asks: list[dict[str, Any]] = []

    def note(request: Request) -> None:
        if request.url.endswith("/recommendations"):
            asks.append(request.post_data_json or {})

    page.on("request", note)
    visitor.lab().page.locator("#nu").fill("2")
    visitor.settled()
    assert (asks[-1]["policy"], asks[-1]["nu"]) == ("ucb", 2)
    page.select_option("#policy", "thompson")
    visitor.settled()
    assert asks[-1]["policy"] == "thompson"
    assert "nu" not in asks[-1]
    assert page.locator("#nu").is_disabled()
    page.select_option("#slate", "3")
    page.wait_for_selector("text=2 more in this slate")
    assert asks[-1]["k"] == 3
    n_asked = len(asks)
    visitor.press("ArrowRight")
    visitor.press("ArrowRight")
    visitor.settled()
    assert len(asks) == n_asked, "the slate is shown to its end"
    visitor.press("ArrowRight")
    visitor.settled()
    assert len(asks) == n_asked + 1
    page.reload()
    page.wait_for_selector("#bets li")
    assert [page.locator(f"#{name}").input_value() for name in ("policy", "slate")] == ["thompson", "3"]


def test_a_known_user_is_loaded_and_a_new_visitor_starts_from_nothing(visit: Visit, server: Server) -> None:
    items = [item["item"] for item in server.call("GET", "/v1/items?limit=4")["items"]]
    for item in items:
        server.call("POST", "/v1/users/known/feedback", {"item": item, "value": 4})
    visitor = visit()
    visitor.lab().page.click("#load-user")
    visitor.page.fill("#load-name", "known")
    visitor.page.get_by_role("button", name="Load", exact=True).click()
    visitor.page.wait_for_selector("text=4 reactions remembered")
    visitor.settled()
    assert "4 hits" in visitor.text("#facts")
    visitor.lab().page.click("#new-visitor")
    visitor.page.wait_for_selector("text=Nothing is known about you yet")
    visitor.settled()
    assert visitor.user != "known"
    assert visitor.text("#facts").startswith("0 reactions")
    assert len(server.history("known")) == 4


def test_two_tabs_of_a_visitor_count_together_and_ask_about_no_card_twice(visit: Visit, server: Server) -> None:
    here = visit().settled()
    there = Visitor(here.context.new_page(), server).open().settled()
    assert there.user == here.user
    assert there.item == here.item
    item = there.after(lambda: here.press("ArrowRight"))
    assert there.text("#facts").startswith("1 reaction")
    bets = here.settled().text("#bets")
    there.page.wait_for_function("bets => document.querySelector('#bets').innerText === bets", arg=bets)
    title = there.text(".card:not(.leave) h2")
    other = there.press("ArrowLeft")
    here.page.wait_for_function("() => document.querySelector('#facts').innerText.startsWith('2 reactions')")
    assert here.settled().item != other
    here.after(lambda: here.page.keyboard.press("z"))
    assert (here.item, here.text(".card:not(.leave) h2")) == (other, title)
    there.page.wait_for_function("() => document.querySelector('#facts').innerText.startsWith('1 reaction')")
    here.settled()
    there.settled()
    assert server.history(here.user) == [(item, 5.0)]


def test_titles_with_markup_are_shown_as_text_and_the_catalogue_ends(visit: Visit, serve_here: Serve) -> None:
    server = serve_here(hostile_model())
    items = [item["item"] for item in server.call("GET", "/v1/items?limit=30")["items"]]
    for item in items[3:]:
        server.call(
            "POST", "/v1/users/<b>me/feedback".replace("<", "%3C").replace(">", "%3E"), {"item": item, "value": 2}
        )
    visitor = visit(server)
    visitor.press("ArrowRight")
    visitor.lab().page.click("#load-user")
    visitor.page.fill("#load-name", "<b>me")
    visitor.page.get_by_role("button", name="Load", exact=True).click()
    visitor.page.wait_for_selector("text=27 reactions remembered")
    visitor.settled()
    assert visitor.text(".card h2").startswith('<img src=x onerror="window.harmed=1"><script>')
    assert visitor.text(".card li").startswith("<u>")
    assert visitor.text("#visitor") == "<b>me"
    visitor.press("ArrowRight")
    visitor.press("5")
    visitor.page.keyboard.press("1")
    visitor.page.wait_for_selector("text=You have seen everything")
    visitor.settled()
    assert [error for error in visitor.errors if "409" not in error] == []
    visitor.errors.clear()  # the browser itself notes the answer that nothing is left
    assert len(server.history("%3Cb%3Eme")) == 30
    for page in ("/", "/dashboard"):
        visitor.open(page) if page != "/" else None
        visitor.settled()
        assert visitor.page.evaluate("window.harmed") is None
        assert visitor.page.locator("main :is(img, u, script), main h2 b, .name b, th b").count() == 0


def test_another_model_is_met_without_a_reload(visit: Visit, serve_here: Serve) -> None:
    server = serve_here(film_model())
    visitor = visit(server)
    visitor.press("ArrowRight")
    visitor.settled()
    hostile_model().save(server.folder.parent / "second")
    server.call("POST", "/v1/model", {"folder": str(server.folder.parent / "second"), "force": True})
    visitor.page.click("#bets li:nth-child(2) button")  # unknown to the new model: the page must not stumble
    visitor.page.wait_for_function("() => document.querySelector('.card h2')?.innerText.startsWith('<img')")
    visitor.page.wait_for_function("() => document.querySelector('canvas').getAttribute('aria-label').includes('30')")
    item = visitor.press("ArrowRight")
    visitor.settled()
    assert server.history(visitor.user)[-1] == (item, 5.0)
    visitor.errors.clear()


def test_four_stars_are_a_success_whatever_the_units(visit: Visit) -> None:
    visitor = visit()
    cases: list[tuple[dict[str, float], list[float]]] = [
        ({"low": 1, "high": 5, "threshold": 4}, [1, 2, 3, 4, 5]),
        ({"low": 0, "high": 1, "threshold": 0.5}, [0, 1 / 6, 1 / 3, 0.5, 1]),
        ({"low": 0, "high": 573, "threshold": 2}, [0, 2 / 3, 4 / 3, 2, 8 / 3]),
    ]
    for reward, expected in cases:
        values = visitor.page.evaluate("reward => import('/static/values.js').then(m => m.starValues(reward))", reward)
        assert values == pytest.approx(expected)
        assert [value >= reward["threshold"] for value in values] == [False, False, False, True, True]
