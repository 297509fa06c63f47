"""Whole logs in the store: every reaction once, whatever happens in between."""

import json
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from igcf.cli.main import cli
from igcf.data import Interactions
from igcf.service.store import NewEvent, Store, read_store
from igcf.service.store.export import stored_attributes
from igcf.service.store.tables import feedback, users
from igcf.service.store.transfer import import_interactions, logged_event_id
from tests.service.processes import Server


def log(n_users: int = 40, n_items: int = 30, *, seed: int = 0) -> Interactions:
    rng = np.random.default_rng(seed)
    pairs = rng.permutation(n_users * n_items)[: n_users * n_items // 2]
    values = rng.choice([0.5, 3.7, 5.0], len(pairs))
    return Interactions.from_arrays(
        [f"u{pair // n_items}" for pair in pairs], [f"item-{pair % n_items}" for pair in pairs], values,
        rng.integers(1_000, 2_000_000_000, len(pairs)),
    )  # fmt: skip


def rows(store: Store) -> list[tuple[str, str, float, float]]:
    query = sa.select(feedback.c.user_id, feedback.c.item_id, feedback.c.value, feedback.c.time)
    return sorted(tuple(row) for row in store.database.read(lambda connection: connection.execute(query).all()))


def expected(data: Interactions) -> list[tuple[str, str, float, float]]:
    assert data.timestamps is not None
    columns = (data.user_idx, data.item_idx, data.values, data.timestamps)
    return sorted(
        (data.user_ids[u], data.item_ids[i], float(str(v)), float(t)) for u, i, v, t in zip(*columns, strict=True)
    )


def test_a_log_is_stored_as_it_is_and_a_repetition_stores_nothing(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("igcf.service.store.transfer.BATCH", 100)
    store, data = Store(store_url), log()
    seen: list[int] = []
    first = import_interactions(store, data, "m", seen.append)
    assert (first.users, first.reactions, first.stored) == (40, 600, 600)
    assert seen[-1] == 600
    assert len(seen) >= 5
    assert rows(store) == expected(data)
    assert import_interactions(store, data, "m").stored == 0
    assert rows(store) == expected(data)
    for user_id in data.user_ids:
        events = store.events(user_id)
        assert [event.revision for event in events] == list(range(1, len(events) + 1))
        assert store.version(user_id)[1] == len(events)
        assert {event.evidence for event in events} == {"logged"}
    store.close()


def test_an_import_comes_after_what_is_stored(store_url: str) -> None:
    store, data = Store(store_url), log()
    event = NewEvent("e", "item-1", 5.0)
    store.append("u1", [event], "m")
    import_interactions(store, data, "m")
    assert [event.evidence for event in store.events("u1")][:2] == ["shown", "logged"]
    assert store.version("u1")[1] == len(store.events("u1"))
    store.forget("u1")
    assert import_interactions(store, data, "m").stored == int((data.user_idx == 1).sum())
    store.close()


def test_the_id_of_a_logged_reaction_is_the_same_from_a_file_and_from_a_request() -> None:
    value = float(np.float32(3.7))
    assert logged_event_id("ann", "i", value, 12.0) == logged_event_id("ann", "i", 3.7, 12)
    different = {
        logged_event_id(*said)
        for said in (("a", "b", 1.0, None), ("a", "b", 1.0, 0.0), ("a", "b", 2.0, None), ("b", "a", 1.0, None))
    }
    assert len(different) == 4


def test_the_store_tells_logged_from_shown_and_from_ignored_when_it_is_learned_from(store_url: str) -> None:
    store = Store(store_url)
    events = [
        NewEvent("a", "i1", 4.0, evidence="logged", time=10.0),
        NewEvent("b", "i1", 2.0, time=20.0),
        NewEvent("c", "i2", None),
        NewEvent("d", "i3", None, evidence="skip"),
        NewEvent("e", "i4", 5.0),
        NewEvent("f", "i5", 3.0, evidence="logged"),
    ]
    store.append("ann", events, "m")
    store.retract("ann", "e", "m")
    data, sentence = read_store(store_url)
    assert sentence.startswith("store: training on 1 logged reactions and 1 reactions to shown items; left out: 1 ")
    items = [data.item_ids[row] for row in data.item_idx]
    assert dict(zip(items, data.values.tolist(), strict=True)) == {"i1": 2.0, "i5": 3.0}  # the latest, once
    store.close()


KILLED_IN_THE_FIFTH_BATCH = """
import os, signal, sys
from igcf.cli.main import cli
from igcf.service.store import transfer

append, batches = transfer.append, []

def append_and_die(*given):
    found = append(*given)
    batches.append(given)
    if len(batches) == 5:  # its reactions are written, and not yet committed
        os.kill(os.getpid(), signal.SIGKILL)
    return found

transfer.append, transfer.BATCH = append_and_die, 2_000
cli.main(sys.argv[1:])
"""


@pytest.mark.slow
def test_an_import_that_is_killed_and_repeated_stores_every_reaction_once(
    store_url: str, model_folder: Path, tmp_path: Path
) -> None:
    rng = np.random.default_rng(1)
    pairs = rng.choice(1_000 * 400, 20_000, replace=False)
    lines = (f"{pair // 400},item-{pair % 400},{1 + pair % 5},{1_000 + pair}" for pair in pairs)
    file = tmp_path / "log.csv"
    file.write_text("user,item,value,timestamp\n" + "\n".join(lines))
    arguments = ["import", str(file), "--store", store_url, "--model", str(model_folder), "--json"]
    store = Store(store_url)

    def count(table: sa.Table) -> int:
        query = sa.select(sa.func.count()).select_from(table)
        return store.database.read(lambda connection: connection.execute(query).scalar_one())

    killed = subprocess.run([sys.executable, "-c", KILLED_IN_THE_FIFTH_BATCH, *arguments], capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    half = count(feedback)
    assert 8_000 <= half < 10_000, "the four batches before it are there, and nothing of the fifth"
    again = subprocess.run([sys.executable, "-m", "igcf", *arguments], check=True, capture_output=True, text=True)
    told = json.loads(again.stdout)
    assert (told["reactions"], told["stored"]) == (20_000, 20_000 - half)
    assert told["unknown_items"] == 200
    assert count(feedback) == 20_000
    assert count(users) == 1_000
    distinct = sa.select(sa.func.count()).select_from(
        sa.select(feedback.c.user_id, feedback.c.item_id).distinct().subquery()
    )
    assert store.database.read(lambda connection: connection.execute(distinct).scalar_one()) == 20_000
    store.close()


@pytest.mark.slow
def test_a_server_may_import_a_log_at_its_first_start(tmp_path: Path, model_folder: Path) -> None:
    file = tmp_path / "log.csv"
    file.write_text("user,item,value\nann,item-1,5\nann,item-2,1\nbob,item-3,4\n")
    for _ in range(2):
        server = Server(model_folder, str(tmp_path / "store.db"), "--import", str(file)).wait_until_ready()
        try:
            state = httpx.get(f"{server.url}/v1/users/ann").json()
        finally:
            server.stop()
        assert state["known"] is True
        assert [(each["item"], each["evidence"]) for each in state["history"]] == [
            ("item-1", "logged"),
            ("item-2", "logged"),
        ]


@pytest.mark.parametrize(
    ("user", "reason"),
    [
        ("a/b", "'/' is not allowed"),
        ("..", "'/' is not allowed, and neither are '.' and '..'"),
        ('"two\nlines"', "spans 2 lines; an id is on one line"),
        ("a\x01b", "holds a control character in 1 row, first 'a\\x01b' in row 2"),
        ("x" * 257, "at most 256 characters"),
    ],
)
def test_a_user_whom_no_request_could_name_is_refused_before_anything_is_stored(
    user: str, reason: str, model_folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "log.csv").write_text(f"user,item,value\nann,item-1,5\n{user},item-2,4\n")
    command = ["import", str(tmp_path / "log.csv"), "--store", str(tmp_path / "s.db"), "--model", str(model_folder)]
    found = CliRunner().invoke(cli, command)
    assert found.exit_code == 2
    assert reason in found.stderr
    assert not (tmp_path / "s.db").exists()


def test_an_import_says_what_validate_says_and_stores_nothing_by_order_number(
    model_folder: Path, tmp_path: Path
) -> None:
    rows = "".join(f"A{n},u{n // 4},item-{n % 9},5,x\n" for n in range(120))
    command = ["import", str(tmp_path / "log.csv"), "--store", str(tmp_path / "s.db"), "--model", str(model_folder)]
    (tmp_path / "log.csv").write_text("order_no,wer,sku,stars,note\n" + rows)
    refused = CliRunner().invoke(cli, command)
    assert refused.exit_code == 2
    assert "say which column holds the users with --user" in refused.stderr
    assert not (tmp_path / "s.db").exists()
    stored = CliRunner().invoke(cli, [*command, "--user", "wer"])
    assert stored.exit_code == 0, stored.stderr
    assert "warning: no-times" in stored.stderr


def test_a_table_of_users_is_imported_with_the_log_and_only_changes_are_stored_again(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("wer,sku,stars\nann,x,5\nann,y,1\nbob,x,4\n")
    target = str(tmp_path / "s.db")
    command = ["import", str(tmp_path / "log.csv"), "--user", "wer", "--store", target, "--json"]

    def imported(country: str) -> tuple[int, dict[str, Any]]:
        (tmp_path / "people.csv").write_text(f"wer,country\nann,{country}\nbob,PT\n")
        done = CliRunner().invoke(cli, [*command, "--users", str(tmp_path / "people.csv")])
        assert done.exit_code == 0, done.stderr
        with closing(Store(target)) as store:
            return json.loads(done.stdout)["stored"], stored_attributes(store)

    assert imported("NL") == (3, {"ann": {"country": "NL"}, "bob": {"country": "PT"}})
    assert imported("FI") == (0, {"ann": {"country": "FI"}, "bob": {"country": "PT"}})
    assert imported("NL")[1]["ann"] == {"country": "NL"}
    with closing(Store(target)) as store:
        assert [len(store.events(user)) for user in ("ann", "bob")] == [2 + 3, 1 + 1]
