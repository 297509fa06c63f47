"""The lab offers the attributes that the model understands, and the explanation names what they add."""

import pytest

from tests.toys import attributed
from tests.web.conftest import Serve, Visit, film_model
from tests.web.test_access import violations

pytestmark = pytest.mark.slow


def test_a_visitor_switches_attributes_and_sees_what_they_add(serve_here: Serve, visit: Visit) -> None:
    server = serve_here(attributed(film_model()))
    visitor = visit(server).lab()
    page = visitor.page
    assert page.locator("#attributes .field").count() == 3
    assert page.locator("#attribute-country option").all_inner_texts() == ["not given", "de", "nz"], "not the pool"
    before = server.bets(visitor.user)
    page.select_option("#attribute-country", "nz")
    page.get_by_text("Exact numbers").click()
    page.locator("#why tr", has_text="Your country (nz)").wait_for()
    page.fill("#attribute-income", "150")
    page.press("#attribute-income", "Enter")
    page.locator("#why tr", has_text="Your income (150)").wait_for()
    assert server.call("GET", f"/v1/users/{visitor.user}")["attributes"] == {"country": "nz", "income": 150}
    assert server.bets(visitor.user) != before
    assert violations(visitor) == []
    page.reload()
    page.wait_for_selector("#attributes .field")
    assert page.input_value("#attribute-country") == "nz", "stored by the server"
    page.select_option("#attribute-country", "")
    page.fill("#attribute-income", "")
    page.press("#attribute-income", "Enter")
    page.locator("#why tr", has_text="Your").first.wait_for(state="detached")
    assert server.bets(visitor.user) == before


def test_a_model_without_attributes_asks_for_none(visit: Visit) -> None:
    visitor = visit().lab()
    assert visitor.page.locator("#about-you").is_hidden()
