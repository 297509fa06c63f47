"""A visitor adds an item and sees it tried out; the operator sees where it stands."""

import pytest

from tests.model.test_adding import genre_model
from tests.web.conftest import Serve, Visit
from tests.web.test_access import violations

pytestmark = pytest.mark.slow


def test_an_item_of_ones_own_is_added_tried_out_and_judged(serve_here: Serve, visit: Visit) -> None:
    server = serve_here(genre_model())
    visitor = visit(server).lab()
    visitor.page.fill("#own-item-name", "<b>My film</b>")
    visitor.page.fill("#own-item-categories", "comedy, comedy")
    visitor.page.click("#own-item-form button")
    said = visitor.page.locator("#own-item-said")
    visitor.page.wait_for_function("() => document.querySelector('#own-item-said').textContent.includes('0 reactions')")
    assert "“<b>My film</b>”: shown 0 times on trial" in said.inner_text()
    assert violations(visitor) == []
    own = visitor.page.evaluate("localStorage.getItem('igcf.own-item')")
    assert server.call("GET", f"/v1/items/{own}")["categories"] == ["comedy"]
    for n in range(4):
        server.call("POST", f"/v1/users/other-{n}/feedback", {"item": own, "value": 5})
    for _ in range(2):
        visitor.press("ArrowRight")
    visitor.page.wait_for_function("() => document.querySelector('#own-item-said').textContent.includes('4 reactions')")
    board = visit(server, path="/dashboard")
    board.page.wait_for_selector("#changes tbody tr")
    row = board.text("#changes tbody tr")
    assert "<b>My film</b>" in row
    assert "4 of 4" in row
    assert " ± " in row
    assert "times" in row


def test_an_item_of_ones_own_is_shown_to_those_whom_it_fits(serve: Serve, visit: Visit) -> None:
    """Others liked it, which pays for trials; the visitor likes comedies and nothing else."""
    server = serve(genre_model())
    visitor = visit(server).lab()
    visitor.page.fill("#own-item-name", "My own comedy")
    visitor.page.fill("#own-item-categories", "comedy")
    visitor.page.click("#own-item-form button")
    visitor.page.wait_for_function("() => document.querySelector('#own-item-said').textContent.includes('0 reactions')")
    own = visitor.page.evaluate("localStorage.getItem('igcf.own-item')")
    for n in range(3):
        server.call("POST", f"/v1/users/other-{n}/feedback", {"item": own, "value": 5})
    seen: list[str] = []
    while own not in seen and len(seen) < 30:
        seen.append(visitor.item)
        if len(seen) == 13:  # the page tells of the visitor's taste after 12 reactions
            visitor.page.get_by_role("button", name="Keep going").click()
        if visitor.item != own:
            visitor.press("ArrowRight" if int(visitor.item[1:]) % 2 == 0 else "ArrowLeft")
    assert own in seen
    assert server.call("GET", f"/v1/items/{own}")["new"]["trials"] >= 1
