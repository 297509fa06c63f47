"""A catalogue of artists without categories, and a log of how often people played them."""

from functools import cache

import numpy as np
import pytest

from igcf.data import Interactions, success_in
from igcf.model import Model, Reward
from tests.web.conftest import Serve, Server, Visit, Visitor
from tests.web.test_access import PHONE

pytestmark = pytest.mark.slow

SCENES = {
    "metal": "Iron Maiden;Metallica;Black Sabbath;Judas Priest;Slayer;Megadeth;Opeth;Mastodon;Pantera;Dio;Tool;Gojira",
    "pop": "Madonna;Britney Spears;Lady Gaga;Katy Perry;Rihanna;Shakira;Pink;Prince;ABBA;Cher;Duffy;Robyn",
    "jazz": "Miles Davis;John Coltrane;Bill Evans;Chet Baker;Art Blakey;Stan Getz;Basie;Simone;Sun Ra;Monk;Bird;Dexter",
}
NAMES = [name for names in SCENES.values() for name in names.split(";")]


@cache
def plays_model() -> Model:
    """Scenes as directions of taste; values are plays with a long tail."""
    rng = np.random.default_rng(0)
    plays = np.floor(rng.lognormal(3.0, 1.5, size=4_000)) + 1.0
    success = success_in(Interactions.from_arrays(range(len(plays)), range(len(plays)), plays))
    fame = np.tile(np.linspace(0.5, 0.3, 12), 3)
    scenes = np.repeat(np.eye(3), 12, axis=0) + rng.normal(size=(36, 3)) * 0.05
    return Model(
        item_vectors=np.column_stack([fame, 0.3 * scenes]),
        item_ids=[f"a{row}" for row in range(36)],
        prior_mean=[1.0, 0.0, 0.0, 0.0],
        prior_cov=np.diag([0.0, 1.0, 1.0, 1.0]),
        noise_var=0.1,
        reward=Reward.from_log(plays, "satisfied", success.threshold),
        titles=NAMES,
        metadata={"success": success.as_dict(), "reading": {"columns": {"value": "plays"}}},
    )


@pytest.fixture(scope="module")
def server(serve_here: Serve) -> Server:
    return serve_here(plays_model())


LEFT = "each => parseFloat(each.style.left)"


def listen(visitor: Visitor, rounds: int) -> None:
    """Play metal often and nothing else."""
    metal = SCENES["metal"].split(";")
    for _ in range(rounds):
        visitor.press("ArrowRight" if visitor.text(".card:not(.leave) h2") in metal else "ArrowLeft")
    visitor.settled()


def test_regions_are_named_by_their_best_known_items_and_the_visitor_walks_among_them(visit: Visit) -> None:
    visitor = visit().settled()
    labels = visitor.page.locator(".region")
    assert sorted(labels.all_text_contents()) == [
        "Iron Maiden and Metallica",
        "Madonna and Britney Spears",
        "Miles Davis and John Coltrane",
    ]
    listen(visitor, 8)
    here = visitor.page.locator(".here")
    visitor.page.wait_for_timeout(500)  # the walk
    metal = visitor.page.locator(".region", has_text="Iron Maiden")
    assert here.inner_text() == "you"
    assert metal.inner_text().startswith("♥")
    far = {label.inner_text(): abs(float(label.evaluate(LEFT)) - float(here.evaluate(LEFT))) for label in labels.all()}
    assert min(far, key=lambda name: far[name]) == metal.inner_text()
    labels.first.hover()
    assert "explored" in visitor.text("#map-tip")
    assert visitor.page.locator("#replay").is_visible()


def test_what_was_learned_is_said_by_items(visit: Visit) -> None:
    visitor = visit()
    listen(visitor, 8)
    assert visitor.text("#learned").startswith("You are closer to Iron Maiden and Metallica than to ")
    assert "cards like Iron Maiden and Metallica" in visitor.text("#learned-more")


@pytest.mark.parametrize("options", [{}, PHONE], ids=["wide", "phone"])
def test_amounts_are_words_with_ordinary_values_of_the_log(
    visit: Visit, server: Server, options: dict[str, object]
) -> None:
    visitor = visit(**options)
    buttons = visitor.page.locator("#stars button")
    names = [str(button.get_attribute("aria-label")) for button in buttons.all()]
    assert names == ["Hardly ever", "A few plays", "Often", "Very often"]
    assert all(button.locator("small").inner_text().endswith(" plays") for button in buttons.all())
    for place in range(4):
        visitor.after(lambda place=place: buttons.nth(place).click())  # type: ignore[misc]
    visitor.settled()
    typical = plays_model().metadata["success"]["typical"]
    assert [value for _, value in server.history(visitor.user)] == typical
    assert typical == sorted(set(typical))
    assert typical[1] < plays_model().reward.threshold <= typical[2]
    assert visitor.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_shading_stands_for_what_is_unknown_and_never_grows(visit: Visit, server: Server) -> None:
    visitor = visit()
    before: dict[str, float] = {}
    for _ in range(8):
        listen(visitor, 1)
        groups = server.call("GET", f"/page/users/{visitor.user}/beliefs")["taste"]["groups"]
        for each in groups:
            assert each["unknown"] <= before.get(each["name"], 1.0)
        before = {each["name"]: each["unknown"] for each in groups}
    assert before["Iron Maiden and Metallica"] < 0.5
