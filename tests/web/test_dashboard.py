"""The operator's dashboard and the door in front of it."""

from pathlib import Path

import pytest

from tests.web.conftest import ADMIN_KEY, CLIENT_KEY, Serve, Server, Visit, film_model
from tests.web.test_access import violations

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(serve_here: Serve) -> Server:
    """One of its own, so that the figures are known."""
    return serve_here(film_model())


@pytest.fixture(scope="module")
def locked(serve: Serve, tmp_path_factory: pytest.TempPathFactory) -> Server:
    keys: Path = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text(f"admin {ADMIN_KEY}\nserver {CLIENT_KEY}\n")
    return serve(film_model(), "--api-key-file", str(keys))


def test_the_dashboard_shows_what_happened(visit: Visit, server: Server) -> None:
    items = [item["item"] for item in server.call("GET", "/v1/items?limit=6")["items"]]
    for user in ("ann", "ben"):
        answer = server.call("POST", f"/v1/users/{user}/recommendations", {"k": 3})
        for item, value in zip(items, [5, 5, 1, None, 4, 2], strict=True):
            said = {"kind": "shown"} if value is None else {"value": value}
            reaction = {"item": item, "event_id": f"{user}-{item}", **said}
            server.call("POST", f"/v1/users/{user}/feedback", reaction)
        assert len(answer["items"]) == 3
    visitor = visit(path="/dashboard")
    visitor.page.wait_for_selector("#tiles .tile")
    tiles = visitor.text("#tiles")
    assert "Users\n2" in tiles
    assert "Reactions\n12" in tiles
    assert visitor.page.locator("#changes").is_hidden(), "nothing came or went"
    assert "sqlite" in visitor.text("#store")
    assert "data.users" in visitor.text("#model")


def test_it_fits_a_phone(visit: Visit, server: Server) -> None:
    server.call("POST", "/v1/users/cal/recommendations", {"k": 3})
    visitor = visit(path="/dashboard", viewport={"width": 390, "height": 844}, is_mobile=True)
    visitor.page.wait_for_selector("#tiles .tile")
    assert visitor.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_it_can_be_paused(visit: Visit) -> None:
    visitor = visit(path="/dashboard")
    visitor.page.wait_for_selector("#tiles .tile")
    visitor.page.click("#pause")
    assert visitor.page.get_by_role("button", name="Go on").get_attribute("aria-pressed") == "true"


def test_only_the_admin_key_opens_the_dashboard(visit: Visit, locked: Server) -> None:
    visitor = visit(locked, path="/dashboard")
    page = visitor.page
    page.wait_for_selector("#key-form:visible")
    assert violations(visitor) == []
    assert page.locator("#figures").is_hidden()
    for key in ("wrong", CLIENT_KEY):
        page.fill("#key", key)
        page.keyboard.press("Enter")
        page.wait_for_selector("text=This key does not open the dashboard.")
    page.fill("#key", ADMIN_KEY)
    page.keyboard.press("Enter")
    page.wait_for_selector("#tiles .tile")
    assert page.locator("#key-form").is_hidden()
    assert ADMIN_KEY not in page.evaluate("JSON.stringify(localStorage)"), "kept in this tab only"
    assert all("status of 40" in error for error in visitor.errors)
    visitor.errors.clear()


def test_a_visitor_is_asked_for_a_server_key(visit: Visit, locked: Server) -> None:
    visitor = visit(locked, path=None)
    page = visitor.page
    page.goto(locked.url)
    page.wait_for_selector("#key-dialog[open]")
    assert violations(visitor) == []
    page.fill("#key", CLIENT_KEY)
    page.keyboard.press("Enter")
    page.click("#start-cards")
    page.wait_for_selector("#bets li")
    item = visitor.press("ArrowRight")
    visitor.settled()
    history = locked.call("GET", f"/v1/users/{visitor.user}", key=CLIENT_KEY)["history"]
    assert [event["item"] for event in history] == [item]
    assert all("status of 401" in error for error in visitor.errors)
    visitor.errors.clear()
