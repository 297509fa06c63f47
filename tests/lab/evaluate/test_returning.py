from dataclasses import replace
from functools import cache
from typing import Literal

import numpy as np
import pytest

from igcf.errors import ConfigError, DataError
from igcf.lab.evaluate import Results, Setup, evaluate, prepare, setup_for
from igcf.lab.evaluate.protocols import protocol_named, thinned
from igcf.lab.evaluate.protocols.cold import logged_part
from tests.lab.evaluate.worlds import log


def setup(part: str = "random") -> Setup:
    protocol = protocol_named("returning", logged=(1, 5), part=part)
    return setup_for(log(), protocol, n_users=20, min_reactions=20, rounds=12)


@cache
def results(part: Literal["random", "earliest"] = "random") -> Results:
    return evaluate(log(), setup(part=part), ("pop", "pca-gp"), settings={"pca-gp": {"dim": 8}})


def test_every_number_of_logged_reactions_stands_beside_two_cold_starts() -> None:
    words = ("", ", cold without those 1", ", 1 logged", ", cold without those 5", ", 5 logged")
    assert results().methods == tuple(f"{method}{start}" for method in ("pop", "pca-gp") for start in words)
    pairs = {(each.method, each.reference) for each in results().comparisons if each.method.startswith("pca-gp")}
    assert pairs == {
        (f"pca-gp, {n} logged", reference)
        for n in (1, 5)
        for reference in ("pca-gp", f"pca-gp, cold without those {n}")
    }


@pytest.mark.parametrize("part", ["random", "earliest"])
def test_what_is_logged_is_shown_neither_to_those_who_were_told_nor_to_the_others(
    part: Literal["random", "earliest"],
) -> None:
    case = prepare(log(), setup(), 0)
    assert case.record is not None
    for row in results(part).rows:
        if not row.outcome.notes:
            continue
        n = row.outcome.notes["logged"]
        logged = logged_part(case.record, n, part, rng=np.random.default_rng([0, 3]))
        assert row.outcome.user_ids == logged.user_ids
        pairs = set(zip(logged.user_idx.tolist(), logged.item_idx.tolist(), strict=True))
        assert len(pairs) == 20 * n
        shown = {(user, item) for user, items in enumerate(row.outcome.shown.rows[:, :, 0]) for item in items.tolist()}
        assert not shown & pairs


def test_both_starts_are_the_same_for_who_learns_nothing() -> None:
    """Popularity does not listen, so that being told is worth nothing; keeping items from it costs."""
    reached = {row.method: row.figures["precision"]["12"] for row in results().rows}
    assert reached["pop, 5 logged"] == reached["pop, cold without those 5"] < reached["pop"]


def test_a_plain_cold_start_is_that_of_the_protocol_cold_start() -> None:
    cold = setup_for(log(), "cold-start", n_users=20, min_reactions=20, rounds=12)
    (row,) = evaluate(log(), cold, ("pca-gp",), settings={"pca-gp": {"dim": 8}}).rows
    plain = next(each for each in results().rows if each.method == "pca-gp")
    np.testing.assert_array_equal(row.outcome.shown.rows, plain.outcome.shown.rows)


def test_more_logged_reactions_contain_fewer() -> None:
    case = prepare(log(), setup(), 0)
    assert case.record is not None
    one, five = (logged_part(case.record, n, "random", rng=np.random.default_rng(7)) for n in (1, 5))
    few, more = ({(u, i) for u, i in zip(part.user_idx, part.item_idx, strict=True)} for part in (one, five))
    assert few < more


def test_the_earliest_part_holds_nothing_later_than_the_rest() -> None:
    case = prepare(log(), setup(), 0)
    record = case.record
    assert record is not None
    assert record.timestamps is not None
    part = logged_part(record, 5, "earliest", rng=np.random.default_rng(0))
    assert part.timestamps is not None
    for user in range(record.n_users):
        times = np.sort(record.timestamps[record.user_idx == user])
        np.testing.assert_array_equal(np.sort(part.timestamps[part.user_idx == user]), times[:5])
    with pytest.raises(DataError, match="reactions without a time; take --part random"):
        logged_part(replace(record, timestamps=None), 5, "earliest", rng=np.random.default_rng(0))
    with pytest.raises(ConfigError, match="must be at least 1, got 0"):
        logged_part(record, 0, "random", rng=np.random.default_rng(0))


def test_rows_say_what_was_logged_and_who_was_told() -> None:
    rows = [row.as_dict() for row in results().rows if row.outcome.method == "pca-gp"]
    assert [(row.get("logged"), row.get("told")) for row in rows] == [
        (None, None), (1, False), (1, True), (5, False), (5, True),
    ]  # fmt: skip
    assert all(set(row["precision"]) == {"10", "12"} for row in rows)


def test_a_thinned_log_keeps_a_share_of_the_rows() -> None:
    part = thinned(log(), 0.1, rng=np.random.default_rng(0))
    assert len(part) == round(0.1 * len(log()))
    assert part.item_ids == log().item_ids
    assert set(np.unique(part.user_idx)) == set(range(part.n_users))
    rows = {(log().user_ids[u], i, v) for u, i, v in zip(log().user_idx, log().item_idx, log().values, strict=True)}
    assert {(part.user_ids[u], i, v) for u, i, v in zip(part.user_idx, part.item_idx, part.values, strict=True)} < rows
    again = thinned(log(), 0.1, rng=np.random.default_rng(0))
    assert again.fingerprint() == part.fingerprint()
    with pytest.raises(ConfigError, match=r"must be in \(0, 1\], got 0"):
        thinned(log(), 0.0, rng=np.random.default_rng(0))
