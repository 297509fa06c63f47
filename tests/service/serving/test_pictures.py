"""Pictures of items: what an item names is shown if it is a picture inside the folder, and nothing else ever is."""

from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from igcf.attributes import Attributes
from igcf.errors import ConfigError
from igcf.service.context import ServiceContext
from igcf.service.http.application import create_app
from igcf.service.serving import page as pictures
from igcf.service.serving.page import Pictures
from igcf.service.settings import ServiceSettings
from tests.service.conftest import small_model

PNG = b"\x89PNG\r\n\x1a\n and so on"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one picture above a file that nobody may see."""
    home = tmp_path / "posters"
    (home / "deep").mkdir(parents=True)
    (home / "deep" / "Film 1.PNG").write_bytes(PNG)
    (home / "script.svg").write_text("<svg/>")
    (home / "keys.txt").write_text("secret")
    (tmp_path / "secret.png").write_bytes(PNG)
    (home / "out.png").symlink_to(tmp_path / "secret.png")
    (home / "text.png").symlink_to(home / "keys.txt")
    return home


def test_a_picture_is_named_by_its_path_within_the_folder_or_in_full(folder: Path) -> None:
    for name in ("deep/Film 1.PNG", "./deep/../deep/Film 1.PNG", str(folder / "deep" / "Film 1.PNG")):
        found = Pictures(str(folder)).read(name)
        assert found is not None
        assert (found.content, found.media_type) == (PNG, "image/png")


@pytest.mark.parametrize(
    "name",
    [
        None,
        "",
        "deep",
        "missing.png",
        "../secret.png",
        "deep/../../secret.png",
        "/etc/passwd",
        "out.png",
        "text.png",
        "keys.txt",
        "script.svg",
        "https://example.com/1.png",
        "deep/Film 1.PNG\0",
        "x" * 5000 + ".png",
    ],
)
def test_nothing_else_is_read(folder: Path, name: str | None) -> None:
    assert Pictures(str(folder)).read(name) is None


def test_a_picture_that_is_too_large_is_not_shown(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "LARGEST", len(PNG))
    assert Pictures(str(folder)).read("deep/Film 1.PNG")
    monkeypatch.setattr(pictures, "LARGEST", len(PNG) - 1)
    assert Pictures(str(folder)).read("deep/Film 1.PNG") is None


def test_a_folder_that_is_none_is_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"images names .*keys.txt, which is not a folder"):
        Pictures(str(folder / "keys.txt"))


def test_the_server_shows_what_items_name_and_tells_the_page_of_it(folder: Path, tmp_path: Path) -> None:
    model = small_model(4)
    named = ("deep/Film 1.PNG", "../secret.png", None, "keys.txt")
    model.attributes = Attributes(4, images=named)
    model.save(tmp_path / "model")
    for images in (str(folder), None):
        context = ServiceContext.open(
            tmp_path / "model", ServiceSettings(store=str(tmp_path / "store.db"), images=images)
        )
        client = TestClient(create_app(context))
        assert ("data-pictures" in client.get("/").text) == (images is not None)
        found = [client.get(f"/images/item-{i}") for i in range(5)]
        assert [each.status_code for each in found] == ([200, 204, 204, 204, 404] if images else [404] * 5)
        if images:
            first = found[0]
            assert (first.content, first.headers["content-type"]) == (PNG, "image/png")
            assert first.headers["x-content-type-options"] == "nosniff"
            assert "script-src 'self'" in first.headers["content-security-policy"]
            again = client.get("/images/item-0", headers={"If-None-Match": first.headers["etag"]})
            assert again.status_code == 304
            assert client.get("/images/deep/Film%201.PNG").status_code == 404, "an item is asked for, not a file"
        context.close()
