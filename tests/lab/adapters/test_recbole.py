"""Files as RecBole's documentation describes them; its package does not run with NumPy 2."""

from pathlib import Path

import pytest

from igcf.errors import DataError
from igcf.lab.adapters.recbole import read_recbole

INTER = "user_id:token\titem_id:token\trating:float\ttimestamp:float\n1\ta\t3\t881250949\n2\tb\t5.0\t881250950\n"
ITEM = (
    'item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq\na\t"Toy Story\t1995\tAnimation Comedy\n'
)
USER = "user_id:token\tage:float\tgender:token\n1\t24\tM\n2\t53\tF\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "toy"
    folder.mkdir()
    for ending, text in (("inter", INTER), ("item", ITEM), ("user", USER)):
        (folder / f"toy.{ending}").write_text(text)
    return folder


def test_reactions_items_and_users_are_read_with_their_types(folder: Path) -> None:
    log = read_recbole(folder)
    assert (log.name, log.user_ids, log.item_ids) == ("toy", ("1", "2"), ("a", "b"))
    assert log.values.tolist() == [3.0, 5.0]
    assert log.timestamps is not None
    assert log.timestamps.tolist() == [881250949, 881250950]
    assert log.titles == ('"Toy Story', "b")
    assert log.categories == (("Animation", "Comedy"), ())
    assert log.users is not None
    assert log.users.given("2")["gender"] == ["F"]


def test_only_the_reactions_must_be_there(folder: Path) -> None:
    (folder / "toy.item").unlink()
    (folder / "toy.user").unlink()
    assert read_recbole(folder).users is None
    with pytest.raises(DataError, match=r"cannot read .*other\.inter"):
        read_recbole(folder, "other")


def test_a_header_without_types_is_refused(folder: Path) -> None:
    (folder / "toy.inter").write_text(INTER.replace("rating:float", "rating"))
    with pytest.raises(DataError, match="column 'rating' has no type; expected a header such as user_id:token"):
        read_recbole(folder)
