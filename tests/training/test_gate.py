"""The gate: who is held out, what passes, and what is refused before anything is trained."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import igcf
from igcf.data import Interactions, synthetic_catalogue
from igcf.errors import DataError
from igcf.model import Model
from igcf.training import gate
from igcf.training.gate import retrain
from tools.gate_power import first, shuffled


@pytest.fixture(scope="module")
def shop() -> Interactions:
    return synthetic_catalogue(n_users=200, n_items=40, seed=3)


@pytest.fixture(scope="module")
def served(shop: Interactions) -> Model:
    model, found = retrain(first(shop, 0.9), None, {"seed": 0}, progress=False)
    assert found is None
    assert model.metadata["gate"] == {"verdict": "first"}
    return model


def test_whoever_is_held_out_from_many_users_was_held_out_from_fewer() -> None:
    users = [f"user-{number}" for number in range(30_000)]
    numbers = (50, 100, 200, 400, 3_000, 10_000, 20_000, 30_000)
    shares = [gate.held_out_share(n) for n in numbers]
    assert shares == sorted(shares, reverse=True)
    held = [{users[i] for i in np.flatnonzero(gate.is_held_out(users, share))} for share in shares]
    assert all(later <= earlier for earlier, later in pairwise(held))
    assert len(held[-1]) == pytest.approx(1_000, rel=0.1)


def test_a_candidate_never_sees_the_held_out_users(shop: Interactions, served: Model) -> None:
    train, held, share = gate.split(first(shop, 0.9))
    assert served.metadata["data"]["reactions"] == len(train)
    assert served.metadata["held_out"] == share
    assert not set(train.user_ids) & set(held.user_ids)


def test_a_retrained_model_passes_with_its_evidence_and_a_shuffled_one_does_not(
    shop: Interactions, served: Model
) -> None:
    model, found = retrain(shop, served, {}, progress=False)
    assert found is not None
    assert model.metadata["settings"] == served.metadata["settings"]
    assert model.metadata["gate"]["checks"][0]["name"] == "successes"
    assert {check.name for check in found.checks} >= {"log loss of chances", "different items shown", "megabytes"}
    assert "judged on" in found.sentence
    assert "<table>" in found.page("tonight")
    held = gate.split(shop)[1]
    damaged = gate.judge(shuffled(served, np.random.default_rng(0)), served, held)
    assert damaged.verdict == "worse"
    assert damaged.checks[0].high is not None
    assert damaged.checks[0].high < 0


def test_a_log_that_lost_its_newest_half_is_noticed_whatever_the_replay_says(shop: Interactions, served: Model) -> None:
    old = Model.__new__(Model)
    old.__dict__.update(served.__dict__)
    data = served.metadata["data"]
    old.metadata = served.metadata | {
        "data": data | {"reactions": data["reactions"] // 2, "until": data["until"] - 10**7}
    }
    found = gate.judge(old, served, gate.split(shop)[1])
    assert [check.name for check in found.checks if check.verdict == "worse"] == [
        "reactions learned from",
        "days behind the newest reaction",
    ]
    assert found.verdict == "worse"


def test_of_a_model_that_was_trained_on_everybody_only_newer_reactions_count(shop: Interactions) -> None:
    everybody = igcf.pretrain(first(shop, 0.5), seed=0, progress=False)
    held = gate.split(shop)[1]
    fresh, users = gate.judged_on(held, everybody)
    assert held.timestamps is not None
    assert held.timestamps[fresh].min() > everybody.metadata["data"]["until"]
    assert len(users) >= gate.FEWEST_USERS
    saw_all = igcf.pretrain(shop, seed=0, progress=False)
    with pytest.raises(DataError, match=r"^0 held-out users have 3 reactions .*igcf models promote"):
        retrain(shop, saw_all, {}, progress=False)


def test_too_few_users_are_refused_in_a_sentence(shop: Interactions) -> None:
    with pytest.raises(DataError, match=r"too few users .*: 20 in the log, \d+ held out.* retrain when about"):
        retrain(shop.only_users(np.arange(20)), None, {}, progress=False)


def test_reactions_by_name_and_their_values_survive_a_retraining(shop: Interactions, served: Model) -> None:
    named, _ = retrain(replace(shop, kinds={"buy": 5.0}), None, {"seed": 0}, progress=False)
    again, _ = retrain(shop, named, {}, progress=False)
    assert again.kinds == {"buy": 5.0}
