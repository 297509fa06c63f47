"""Pictures of items on the page: shown where there is one, the drawn cover elsewhere, and on the taste card too."""

from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

from igcf.attributes import Attributes
from tests.web.conftest import Serve, Server, Visit, film_model

pytestmark = pytest.mark.slow
RED = (200, 20, 30)


@pytest.fixture(scope="module")
def server(serve: Serve, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """Every second item names a picture that is there, the others one that is not."""
    folder: Path = tmp_path_factory.mktemp("posters")
    Image.new("RGB", (80, 120), RED).save(folder / "red.png")
    model = film_model.__wrapped__()  # one of its own, since it is changed
    names = tuple("red.png" if row % 2 else "none.png" for row in range(model.n_items))
    model.attributes = Attributes(model.n_items, images=names)
    return serve(model, "--images", str(folder))


def test_an_item_shows_its_picture_or_its_drawing(visit: Visit, server: Server) -> None:
    visitor = visit(path=None)
    visitor.page.goto(server.url)
    visitor.page.wait_for_selector("#start-grid button")
    visitor.settled()
    named = {item["item"]: item["image"] for item in server.call("GET", "/v1/items?limit=400")["items"]}
    tiles = visitor.page.locator("#start-grid button").all()
    wanted = {tile.get_attribute("data-item") or "": 0 for tile in tiles}
    wanted = {item: int(named[item] == "red.png") for item in wanted}
    visitor.page.wait_for_function(
        "n => document.querySelectorAll('#start-grid svg.cover image').length === n", arg=sum(wanted.values())
    )
    shown = {tile.get_attribute("data-item"): tile.locator("svg.cover image").count() for tile in tiles}
    assert shown == wanted
    assert set(shown.values()) == {0, 1}, "both kinds are among the twelve"
    red = next(item for item, has in shown.items() if has)
    tile = visitor.page.locator(f"#start-grid button[data-item='{red}']")
    visitor.page.evaluate("item => fetch(`/images/${encodeURIComponent(item)}`)", red)  # drawn once it is there
    picture = Image.open(BytesIO(tile.screenshot())).convert("RGB")
    assert picture.getpixel((picture.width // 2, picture.height // 3)) == RED


def test_the_taste_card_shows_them_too(visit: Visit, server: Server) -> None:
    visitor = visit()
    for _ in range(12):
        visitor.settled().press("ArrowRight")
    visitor.page.wait_for_selector("#finale[open] canvas[data-painted='12']")
    colours = visitor.page.evaluate(
        "() => { const canvas = document.querySelector('#taste-card');"
        " const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);"
        " let red = 0; for (let i = 0; i < data.length; i += 4)"
        " red += data[i] === 200 && data[i + 1] === 20 && data[i + 2] === 30; return red; }"
    )
    tops = server.bets(visitor.user)[:4]
    named = {item["item"]: item["image"] for item in server.call("GET", "/v1/items?limit=400")["items"]}
    pictures = sum(named[item["item"]] == "red.png" for item in tops)
    assert (colours > 30_000 * pictures) if pictures else colours == 0
