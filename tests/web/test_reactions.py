"""Chances, skips, and the reactions that fit a log, in a real browser."""

import re
from typing import Any

import numpy as np
import pytest

from igcf.model import Model, Reward
from tests.web.conftest import Serve, Server, Visit, film_model

pytestmark = pytest.mark.slow


def model_of(reward: Reward) -> Model:
    """The films, with values of another kind."""
    films = film_model()
    return Model(
        item_vectors=films.item_vectors[:60],
        prior_mean=films.prior_mean,
        prior_cov=films.prior_cov,
        noise_var=0.04,
        item_ids=films.item_ids[:60],
        titles=None if films.titles is None else films.titles[:60],
        reward=reward,
    )


def percents(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"(-?\d+)\s%", text.replace("−", "-"))]


def test_the_number_shown_is_the_chance_with_its_interval_in_words(visit: Visit, server: Server) -> None:
    visitor = visit()
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft", "ArrowRight"):
        visitor.press(key)
    visitor.settled()
    bets = server.bets(visitor.user)[:7]
    shown = [percents(text) for text in visitor.page.locator("#bets .value").all_text_contents()]
    assert shown == [[round(100 * bet["chance"])] for bet in bets]
    assert all(0 <= bet["low"] <= bet["chance"] <= bet["high"] <= 1 for bet in bets)
    why = server.call("GET", f"/v1/users/{visitor.user}/explanations/{visitor.item}")
    said = visitor.text("#why .about")
    assert re.search(r"(hit|bet|shot), (quite sure|fairly sure|not sure yet)\.", said)
    assert percents(said) == [], "words first"
    visitor.page.click("#why summary")
    exact = percents(visitor.text("#why details p"))
    assert exact[0] == round(100 * why["chance"])
    assert all(0 <= number <= 100 for number in exact)
    assert re.search(r"(hit|bet|shot) · .*%", visitor.text(".card:not(.leave) .chance"))
    assert "±" not in visitor.text("main")


def test_a_skip_is_put_aside_and_teaches_nothing(visit: Visit, server: Server) -> None:
    visitor = visit()
    visitor.press("ArrowRight")
    visitor.settled()
    before = visitor.text("#bets")
    reactions: list[dict[str, Any]] = []

    def note(request: Any) -> None:
        if request.url.endswith("/feedback"):
            reactions.append(request.post_data_json)

    visitor.page.on("request", note)
    gone = [visitor.after(lambda: visitor.page.click("#skip")) for _ in range(3)]
    assert "was skipped" in visitor.text("#notice")
    visitor.settled()
    assert [reaction["kind"] for reaction in reactions] == ["skip"] * 3
    assert all("value" not in reaction for reaction in reactions)
    assert visitor.text("#bets") == before
    assert visitor.text("#facts").startswith("1 reaction")
    assert visitor.page.locator("#past li").first.get_attribute("title").endswith("skipped")  # type: ignore[union-attr]
    assert visitor.item not in gone
    visitor.after(lambda: visitor.page.click("#undo"))
    visitor.settled()
    assert visitor.item == gone[-1]
    assert len(server.history(visitor.user)) == 3


@pytest.mark.parametrize(
    ("reward", "n_buttons", "given"),
    [
        (Reward("satisfied", threshold=1.0, low=0.0, high=1.0), 0, [1.0, 0.0]),
        (Reward("satisfied", threshold=1.0, low=1.0, high=1.0), 0, [1.0, None]),
        (Reward("satisfied", threshold=3.0, low=1.0, high=4.0), 4, [4.0, 1.0]),
        (Reward("satisfied", threshold=260.0, low=1.0, high=352_698.0), 4, [780.0, 1.0]),
        (Reward("satisfied", threshold=3.5, low=-10.0, high=10.0), 5, [10.0, -10.0]),
    ],
)
def test_the_reactions_offered_fit_the_log(
    visit: Visit, serve_here: Serve, reward: Reward, n_buttons: int, given: list[float | None]
) -> None:
    server = serve_here(model_of(reward))
    visitor = visit(server)
    assert visitor.page.locator("#stars button").count() == n_buttons
    visitor.press("ArrowRight")
    visitor.press("ArrowLeft")
    for place in range(n_buttons):
        visitor.after(lambda place=place: visitor.page.locator("#stars button").nth(place).click())  # type: ignore[misc]
    visitor.settled()
    values = [value for _, value in server.history(visitor.user)]
    assert values[:2] == given
    assert all(value is None or reward.low <= value <= reward.high for value in values)
    assert values[2:] == sorted(values[2:], key=float)  # type: ignore[arg-type]
    assert visitor.page.locator("#past li.good").count() >= 1
    assert visitor.page.locator("#past li.bad").count() >= 1


def test_no_reaction_offered_lies_outside_the_log_or_blurs_a_success(visit: Visit) -> None:
    visitor = visit()
    rng = np.random.default_rng(5)
    rewards = []
    for _ in range(200):
        low, high = np.sort(rng.normal(size=2) * 10.0 ** rng.integers(0, 5))
        low, high = (np.round(low), np.round(high) + 1) if rng.random() < 0.5 else (low, high)
        threshold = low + (high - low) * rng.uniform(0.001, 1) ** rng.integers(1, 4)
        rewards.append({"low": low, "high": high, "threshold": threshold, "implicit": False, "typical": []})
    offers = visitor.page.evaluate("rewards => import('/static/values.js').then(m => rewards.map(m.offer))", rewards)
    for reward, offer in zip(rewards, offers, strict=True):
        values = [choice["value"] for choice in offer["choices"]]
        assert values == sorted(set(values)), reward
        assert reward["low"] <= values[0] < values[-1] <= reward["high"], reward
        assert values[0] < reward["threshold"] <= values[-1], reward


def test_what_a_dislike_adds_is_never_shown_as_praise(visit: Visit) -> None:
    visitor = visit()
    for key in ("ArrowLeft", "1", "2", "ArrowRight", "ArrowLeft"):
        visitor.press(key)
        visitor.settled()
        praised = visitor.page.locator("#why tr:has(rect.plus) th").all_text_contents()
        assert all(text.startswith(("4★", "5★")) for text in praised)


def test_a_user_with_a_log_is_known_and_the_log_is_told_apart(visit: Visit, server: Server) -> None:
    items = [item["item"] for item in server.call("GET", "/v1/items?limit=6")["items"]]
    reactions = [{"item": item, "value": 5} for item in items]
    assert server.call("POST", "/v1/users/logged/history", {"reactions": reactions})["stored"] == 6
    visitor = visit()
    visitor.lab().page.click("#load-user")
    visitor.page.fill("#load-name", "logged")
    visitor.page.get_by_role("button", name="Load", exact=True).click()
    visitor.page.wait_for_selector("text=6 reactions remembered")
    visitor.settled()
    assert "6 from your history" in visitor.text("#facts")
    assert visitor.item not in items
    assert "(from your history)" in (visitor.page.locator("#why").text_content() or "")
