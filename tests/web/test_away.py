"""The server goes away and comes back: the page says so, and no reaction is lost or counted twice."""

import signal

import pytest
from playwright.sync_api import Route

from tests.web.conftest import Serve, Server, Visit, Visitor, film_model

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def mortal(serve: Serve) -> Server:
    return serve(film_model())


@pytest.fixture
def server(mortal: Server) -> Server:
    """One that the test may kill."""
    if mortal.process is None:
        mortal.start()
    return mortal


def excused(visitor: Visitor) -> None:
    """The browser itself complains about a server that is away; the page must not."""
    network = ("ERR_CONNECTION", "Failed to load resource", "ERR_FAILED", "ERR_EMPTY_RESPONSE")
    assert [error for error in visitor.errors if not any(each in error for each in network)] == []
    visitor.errors.clear()


def test_reactions_wait_while_the_server_is_away_and_are_sent_once(visit: Visit, server: Server) -> None:
    visitor = visit()
    items = [visitor.press("ArrowRight")]
    visitor.settled()
    server.stop(signal.SIGKILL)
    items += [visitor.press("ArrowLeft"), visitor.press("4"), visitor.press("ArrowDown")]
    visitor.page.wait_for_selector("text=The server cannot be reached. 3 reactions are saved here")
    assert visitor.waiting() == 3
    assert visitor.page.locator("#past li.waiting").count() == 3
    assert visitor.text("#why .badge") == visitor.text(".card:not(.leave) .badge"), "the reason is that of the card"
    server.start()
    visitor.page.click("#notice-action")
    visitor.page.wait_for_selector("text=The server is back and has everything.")
    visitor.settled()
    assert visitor.waiting() == 0
    assert server.history(visitor.user) == list(zip(items, [5.0, 1.0, 4.0, None], strict=True))
    assert visitor.page.locator("#past li.waiting").count() == 0
    visitor.press("ArrowRight")
    visitor.settled()
    assert len(server.history(visitor.user)) == 5
    excused(visitor)


def test_the_page_tries_again_by_itself(visit: Visit, server: Server) -> None:
    visitor = visit()
    server.stop(signal.SIGKILL)
    item = visitor.press("ArrowRight")
    visitor.page.wait_for_selector("text=The server cannot be reached. 1 reaction is saved here")
    server.start()
    visitor.page.wait_for_selector("text=The server is back and has everything.")
    assert server.history(visitor.user) == [(item, 5.0)]
    excused(visitor)


def test_a_tab_closed_while_the_server_is_away_loses_nothing(visit: Visit, server: Server) -> None:
    visitor = visit()
    server.stop(signal.SIGKILL)
    items = [visitor.press("ArrowRight"), visitor.press("ArrowLeft")]
    visitor.page.wait_for_selector("text=2 reactions are saved here")
    past = visitor.page.locator("#past b").all_text_contents()
    excused(visitor)
    visitor.page.close()
    server.start()
    visitor.page = visitor.context.new_page()
    visitor.open()
    visitor.page.wait_for_function("() => document.querySelectorAll('#past li').length === 2")
    said = [each.removesuffix(", waiting to be sent") for each in past]
    assert visitor.settled().page.locator("#past b").all_text_contents() == said, "by their titles"
    assert visitor.waiting() == 0
    assert server.history(visitor.user) == list(zip(items, [5.0, 1.0], strict=True))


def test_an_undo_while_the_server_is_away_is_done_too(visit: Visit, server: Server) -> None:
    visitor = visit()
    kept = visitor.press("ArrowRight")
    gone = visitor.press("ArrowRight")
    visitor.settled()
    server.stop(signal.SIGKILL)
    visitor.page.keyboard.press("z")
    visitor.page.wait_for_selector("text=The server cannot be reached")
    assert visitor.item == gone
    server.start()
    visitor.page.click("#notice-action")
    visitor.page.wait_for_selector("text=The server is back")
    visitor.settled()
    assert server.history(visitor.user) == [(kept, 5.0)]
    excused(visitor)


def test_an_answer_lost_on_its_way_back_does_not_count_twice(visit: Visit, server: Server) -> None:
    visitor = visit()

    def lose(route: Route) -> None:
        route.fetch()  # the server has it
        route.abort()

    visitor.page.route("**/feedback", lose, times=1)
    item = visitor.press("5")
    visitor.page.wait_for_selector("text=The server is back and has everything.")
    visitor.settled()
    assert server.history(visitor.user) == [(item, 5.0)]
    excused(visitor)


def test_forget_me_says_that_nothing_was_deleted_when_the_server_is_away(visit: Visit, server: Server) -> None:
    visitor = visit()
    visitor.press("ArrowRight")
    visitor.settled()
    user = visitor.user
    server.stop(signal.SIGKILL)
    visitor.lab().page.click("#forget")
    visitor.page.get_by_role("button", name="Forget me", exact=True).click()
    visitor.page.wait_for_selector("text=Nothing was deleted: the server cannot be reached")
    assert visitor.user == user
    excused(visitor)


def test_a_server_that_is_busy_is_asked_again(visit: Visit, server: Server) -> None:
    visitor = visit()
    busy = {"status": 503, "json": {"error": "OverloadedError", "message": "try again"}}
    visitor.page.route("**/feedback", lambda route: route.fulfill(**busy), times=1)
    item = visitor.press("ArrowRight")
    visitor.page.wait_for_selector("text=The server is back and has everything.")
    assert server.history(visitor.user) == [(item, 5.0)]
    excused(visitor)


def test_a_reaction_that_the_server_refuses_is_named_and_does_not_block_the_others(
    visit: Visit, server: Server
) -> None:
    visitor = visit()
    refusal = {"status": 404, "json": {"error": "UnknownItemError", "message": "item 'x' is not in this model"}}
    visitor.page.route("**/feedback", lambda route: route.fulfill(**refusal), times=1)
    visitor.press("ArrowRight")
    visitor.page.wait_for_selector("text=The server rejected a reaction: item 'x' is not in this model")
    item = visitor.press("ArrowLeft")
    visitor.settled()
    assert server.history(visitor.user) == [(item, 1.0)]
    assert visitor.waiting() == 0
    excused(visitor)
