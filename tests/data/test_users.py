"""Tables of users become attributes, and attributes become numbers."""

from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import igcf
from igcf.data.users import read_users
from igcf.encoding import Attribute, Encoder
from igcf.errors import DataError

N = 120
TABLE: dict[str, Any] = {
    "user": [f"u{n}" for n in range(N)],
    "country": ["NZ"] * 60 + ["DE"] * 30 + ["FR", "IT", "ES"] * 9 + ["TV"] * 2 + [None],
    "income": [float(n) + 0.5 for n in range(N)],
    "group": [n % 3 for n in range(N)],
    "joined": ["2026-11-18T09:30:00+13:00"] * 60 + ["2026-11-15 21:00:00"] * 60,
    "likes": ["tea|milk"] * 60 + ["milk"] * 60,
}


def log() -> igcf.Interactions:
    return igcf.Interactions.from_arrays([*TABLE["user"], "stranger"], ["tea"] * (N + 1))


def test_the_reader_says_which_columns_it_took_and_how(tmp_path: Path) -> None:
    path = tmp_path / "users.csv"
    pl.DataFrame(TABLE).write_csv(path)
    data = log().with_users(path, without=["likes"])
    assert data.users is not None
    assert data.users.sentence == (
        "users: id = user; categories: country, group; numbers: income; times: joined; not used: likes"
    )
    assert data.notes[-1] == "120 of 121 users of the log are in the table of users"
    assert data.users.given("u3") == {
        "country": ["NZ"], "income": 3.5, "group": ["0"], "joined": datetime(2026, 11, 18, 9, 30)
    }  # fmt: skip
    assert data.users.given("stranger") == {}
    assert data.only_users(np.array([5, 7])).users is data.users
    frames = [pl.DataFrame(TABLE), TABLE]
    assert all(read_users(frame, ["likes"]).sentence == data.users.sentence for frame in frames)


def test_rare_values_are_pooled_and_the_rarest_are_not_in_the_model() -> None:
    encoder = read_users(TABLE).encoder(TABLE["user"])
    country = encoder.attributes[0]
    assert country.levels == ("DE", "NZ", "(other)")
    assert country.pooled == ("ES", "FR", "IT")
    assert "TV" not in str(encoder.as_dict())
    pooled, unknown = encoder.encode({"country": "IT"}), encoder.encode({"country": "TV"})
    assert pooled.numbers[encoder.spans[0]].argmax() == 2
    assert not unknown.numbers.any()
    assert not unknown.known
    assert len(unknown.ignored) == 1


def test_numbers_are_standardised_and_clipped_and_times_are_hours_and_weekdays() -> None:
    encoder = read_users(TABLE).encoder(TABLE["user"])
    places = dict(zip(encoder.names, encoder.spans, strict=True))
    assert encoder.encode({"income": 1e6}).numbers[places["income"]] == 3.0
    assert encoder.encode({"income": 60.0}).numbers[places["income"]] == pytest.approx(0.0)
    same = [encoder.encode({"joined": each}).numbers for each in ("2026-11-18T09:30:00+13:00", "2026-11-18T09:30")]
    np.testing.assert_array_equal(same[0], same[1])
    centred = [encoder.encode({"likes": each}).numbers[places["likes"]] for each in ("milk", ["tea", "milk"])]
    np.testing.assert_allclose(centred[0] - centred[1], [0.5, -0.5])
    assert not np.mean(
        [encoder.encode({"likes": v.split("|")}).numbers[places["likes"]] for v in TABLE["likes"]], 0
    ).any()


def test_an_encoder_survives_json_and_numbers_are_texts_of_categories() -> None:
    encoder = read_users(TABLE).encoder(TABLE["user"])
    assert Encoder.from_dict(encoder.as_dict()) == encoder
    for value in (2, 2.0, "2"):
        assert encoder.encode({"group": value}).known == (encoder.names.index("group"),)


def test_attributes_that_are_constant_or_hardly_known_are_left_out() -> None:
    assert Attribute.fit("a", "category", [("x",)] * 50) is None
    assert Attribute.fit("a", "number", [1.0] * 50) is None
    assert Attribute.fit("a", "category", [("x",)] * 10 + [None] * 90) is None


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"name": ["a"], "country": ["NZ"]}, "expected one called user"),
        ({"user": ["a"]}, "no column of attributes"),
        ({"user": ["u1", "u1"], "country": ["NZ", "DE"]}, "user 'u1' more than once"),
        ({"user": ["nobody"], "country": ["NZ"]}, "no user of the log is in the table"),
        ({"user": ["u1"], "income": [float("inf")]}, "infinite"),
    ],
)
def test_bad_tables_are_refused_in_one_sentence(table: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        log().with_users(table)
    with pytest.raises(DataError, match="no column 'age' to leave out"):
        log().with_users(TABLE, without=["age"])
