"""Answers that come after a newer question: what of them may still be shown."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import APIResponse, Route

from tests.web.conftest import READY, Serve, Server, Visit, Visitor, film_model, hostile_model

pytestmark = pytest.mark.slow

ASKED = "**/recommendations"


class Late:
    """Holds the first answer to a question back until it is let go; all later ones come at once."""

    def __init__(self, visitor: Visitor) -> None:
        self.visitor = visitor
        self.held: list[tuple[Route, APIResponse]] = []
        visitor.page.route(ASKED, self._hold, times=1)

    def _hold(self, route: Route) -> None:
        self.held.append((route, route.fetch()))  # the server has answered, the page does not hear it yet

    def wait(self) -> "Late":
        """Wait until the server has answered the first question, and the page knows the answers to all others."""
        while not self.held:
            self.visitor.page.wait_for_timeout(5)  # the question is on its way to here
        self.visitor.page.wait_for_function("() => window.unanswered === 1")
        return self

    def let_go(self, item: dict[str, Any], **fields: Any) -> str:
        """Let the first answer come, with this item in it; returns the item's id."""
        route, answer = self.held[0]
        told = answer.json()
        told["items"] = [told["items"][0] | {name: item[name] for name in ("item", "title", "categories")} | fields]
        route.fulfill(response=answer, json=told)
        self.visitor.settled()
        return str(item["item"])


def unpopular(server: Server) -> dict[str, Any]:
    """An item that nobody is shown early."""
    item: dict[str, Any] = server.call("GET", "/v1/items?limit=400")["items"][-1]
    return item


def cards(visitor: Visitor, rounds: int) -> list[str]:
    """The items of the next cards."""
    seen = []
    for _ in range(rounds):
        seen.append(visitor.press("ArrowLeft"))
        visitor.settled()
    return seen


def test_a_trial_of_a_new_item_is_shown_once_though_its_answer_was_overtaken(visit: Visit, server: Server) -> None:
    visitor = visit().settled()
    late = Late(visitor)
    visitor.press("ArrowRight")
    late.wait()
    visitor.press("ArrowLeft")
    item = late.wait().let_go(unpopular(server), reason="learn", new=True)
    assert visitor.item != item, "the card on the stage stays"
    seen = cards(visitor, 6)
    assert seen[1] == item
    assert len(set(seen)) == 6
    history = [each for each, _ in server.history(visitor.user)]
    assert history.count(item) == 1
    assert len(history) == 8


def test_a_card_chosen_before_the_last_reaction_gives_way_to_one_chosen_after_it(visit: Visit, server: Server) -> None:
    visitor = visit().settled()
    late = Late(visitor)
    visitor.press("ArrowRight")
    late.wait()
    visitor.press("ArrowLeft")
    item = late.wait().let_go(unpopular(server), reason="learn")
    assert item not in cards(visitor, 5)


def again(visitor: Visitor) -> None:
    visitor.lab().page.click("#new-visitor")
    visitor.page.click("#start-cards")


def other_user(visitor: Visitor) -> None:
    visitor.lab().page.click("#load-user")
    visitor.page.fill("#load-name", f"other-than-{visitor.user}")
    visitor.page.get_by_role("button", name="Load", exact=True).click()
    visitor.page.wait_for_selector("text=Nothing is stored about")


@pytest.mark.parametrize("act", [again, other_user])
def test_a_trial_of_somebody_else_is_not_shown(visit: Visit, server: Server, act: Callable[[Visitor], None]) -> None:
    visitor = visit().settled()
    late = Late(visitor)
    visitor.press("ArrowRight")
    before = visitor.user
    act(visitor)
    visitor.page.wait_for_selector("#like:enabled")
    item = late.wait().let_go(unpopular(server), reason="learn", new=True)
    assert visitor.user != before
    assert item not in [visitor.item, *cards(visitor, 4)]


def test_a_card_of_the_model_before_is_not_shown(visit: Visit, serve_here: Serve) -> None:
    server = serve_here(film_model())
    visitor = visit(server).settled()
    old = unpopular(server)
    late = Late(visitor)
    visitor.press("ArrowRight")
    late.wait()
    hostile_model().save(server.folder.parent / "second")
    server.call("POST", "/v1/model", {"folder": str(server.folder.parent / "second"), "force": True})
    visitor.press("ArrowRight")
    visitor.page.wait_for_function("() => document.querySelector('.card h2')?.innerText.startsWith('<img')")
    item = late.wait().let_go(old, reason="learn", new=True)
    assert item not in [visitor.item, *cards(visitor, 3)]
    visitor.errors.clear()  # the browser itself notes what the new model does not know


def test_a_card_chosen_as_before_is_not_shown_after_another_policy_was_asked_for(visit: Visit, server: Server) -> None:
    visitor = visit().settled()
    visitor.lab()
    late = Late(visitor)
    visitor.press("ArrowRight")
    late.wait()
    visitor.page.select_option("#policy", "greedy")
    item = late.wait().let_go(unpopular(server), reason="learn")
    seen = [visitor.item, *cards(visitor, 3)]
    assert item not in seen


def test_the_first_card_knows_the_favourites_though_one_was_chosen_before(visit: Visit, server: Server) -> None:
    visitor = visit(path=None)
    late = Late(visitor)
    visitor.page.goto(server.url)
    visitor.page.wait_for_selector("#start-grid button")
    for place in (0, 4, 7):
        visitor.page.locator("#start-grid button").nth(place).click()
    visitor.page.click("#start-go")
    item = late.wait().let_go(unpopular(server), reason="learn")
    visitor.page.wait_for_function(READY)
    visitor.settled()
    assert len(server.history(visitor.user)) == 3
    assert visitor.item != item


def test_a_trial_stays_next_when_a_reaction_is_taken_back(visit: Visit, server: Server) -> None:
    visitor = visit().settled()
    late = Late(visitor)
    first = visitor.press("ArrowRight")
    late.wait()
    second = visitor.press("ArrowLeft")
    item = late.wait().let_go(unpopular(server), reason="learn", new=True)
    visitor.after(lambda: visitor.page.keyboard.press("z"))
    visitor.settled()
    assert visitor.item == second
    seen = cards(visitor, 5)
    assert seen.count(item) == 1
    assert len({first, *seen}) == 6
    assert len(server.history(visitor.user)) == 6
