"""The short form of `make torture`, with fixed seeds; and that its checker notices what it is there for."""

import random
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from igcf.service.store import Store
from tests.service.postgres import Cluster
from tools.torture import results
from tools.torture.check import check_answers
from tools.torture.cuts import cut_connections
from tools.torture.disturbances import clock_jumps, lost_answers, out_of_memory, stop_in_swap
from tools.torture.interleaving import interleavings
from tools.torture.kills import kill_forked
from tools.torture.ledger import Ledger, Reaction
from tools.torture.operations import OPERATIONS
from tools.torture.places import Place, place
from tools.torture.power import can_mount, power_cuts
from tools.torture.results import Trial
from tools.torture.servers import Forked, Launcher, wait_until_ready
from tools.torture.writes import every_write

pytestmark = pytest.mark.slow
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="faults are injected by a library in C")


@pytest.fixture(scope="module")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launcher]:
    launcher = Launcher(tmp_path_factory.mktemp("launcher"))
    yield launcher
    launcher.close()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    yield cluster
    cluster.close()


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Place]:
    with place(1, within=str(tmp_path)) as found:
        yield found


@pytest.fixture
def on_postgres(tmp_path: Path, cluster: Cluster) -> Iterator[Place]:
    with place(1, cluster, within=str(tmp_path)) as found:
        yield found


@pytest.fixture
def server(here: Place, launcher: Launcher) -> Iterator[Forked]:
    """A server to which three reactions were sent; one of them was taken back."""
    server = launcher.start(here.models[0], here.url)
    wait_until_ready(server.port)
    OPERATIONS["retraction"](here.ledger, server.port, "ann")()
    OPERATIONS["first reaction"](here.ledger, server.port, "bob")()
    yield server
    server.stop()


def nothing_is_wrong(trials: Iterable[Trial]) -> int:
    found = list(trials)
    assert [problem for trial in found for problem in trial.problems] == []
    return sum(trial.tried for trial in found if trial.scenario != results.WHOLE)


def lose(ledger: Ledger) -> None:
    ledger.add(Reaction("bob", "never-stored", "item-9", 5.0, is_acknowledged=True))


def invent(ledger: Ledger) -> None:
    del ledger.reactions["ann"]["ann-e1"]


def change(ledger: Ledger) -> None:
    ledger.reactions["bob"]["bob-e0"].value = 4.0


def renumber(ledger: Ledger) -> None:
    ledger.reactions["ann"]["ann-e1"].revision = 7


def restore(ledger: Ledger) -> None:
    ledger.reactions["ann"]["ann-e0"].is_taken_back = False


def keep_deleted(ledger: Ledger) -> None:
    ledger.deleted["ann"] = True


@pytest.mark.parametrize("spoil", [lose, invent, change, renumber, restore, keep_deleted])
def test_the_checker_notices_when_clients_were_told_something_else(
    here: Place, server: Forked, spoil: Callable[[Ledger], None]
) -> None:
    assert here.check(server.port) == []
    spoil(here.ledger)
    assert here.check(server.port, is_whole=True) != []


def test_the_checker_notices_an_answer_that_does_not_follow_from_the_log(here: Place, server: Forked) -> None:
    store = Store(here.url)
    events = store.events("bob")
    store.close()
    assert check_answers("bob", events, server.port, here.models) == []
    problems = check_answers("bob", [], server.port, here.models)
    assert [any(word in problem for problem in problems) for word in ("history", "revision", "belief", "shown")] == [
        True
    ] * 4


def test_nothing_is_lost_when_servers_are_killed(here: Place, launcher: Launcher) -> None:
    assert nothing_is_wrong(kill_forked(here, launcher, turns=1)) == 3


def test_nothing_is_lost_when_servers_on_postgresql_are_killed(on_postgres: Place, launcher: Launcher) -> None:
    assert nothing_is_wrong(kill_forked(on_postgres, launcher, turns=1)) >= 1


@needs_compiler
def test_a_fault_or_a_crash_at_any_write_leaves_all_or_nothing(here: Place) -> None:
    assert nothing_is_wrong(every_write(here, ["further reaction"], ["EIO", "short write", "kill amid"], step=5)) >= 3


def test_a_connection_to_the_database_that_is_cut_leaves_all_or_nothing(on_postgres: Place, launcher: Launcher) -> None:
    assert nothing_is_wrong(cut_connections(on_postgres, launcher, "further reaction", cuts=6)) >= 1


def test_two_writers_on_one_user_do_what_they_would_one_after_the_other() -> None:
    assert nothing_is_wrong(interleavings(0, 100)) == 100


def test_answers_that_nobody_waits_for_are_counted_once(here: Place, launcher: Launcher) -> None:
    assert nothing_is_wrong(lost_answers(here, launcher, 20)) == 20


@needs_compiler
def test_a_clock_that_jumps_changes_nothing(here: Place) -> None:
    assert nothing_is_wrong(clock_jumps(here, 5)) == 5


def test_lack_of_memory_leaves_all_or_nothing(here: Place, launcher: Launcher) -> None:
    assert nothing_is_wrong(out_of_memory(here, launcher, 1)) == 1


def test_a_stop_during_a_model_swap_loses_neither_reactions_nor_the_swap(here: Place, launcher: Launcher) -> None:
    assert nothing_is_wrong(stop_in_swap(here, launcher, 1)) == 1


def test_the_report_counts_what_was_tried_and_names_what_failed(tmp_path: Path) -> None:
    run = {"only": "kill-sqlite", "seed": 3, "commit": "abc"}
    for trial in (
        Trial("kill of the group", "SQLite", recovery_s=1.0),
        Trial("kill of the group", "SQLite", ["ann: lost"], recovery_s=3.0),
        Trial("interleaved", "SQLite", tried=1000),
    ):
        results.append(tmp_path, trial, run)
    assert results.summary(results.read(tmp_path)).rows == (
        ("interleaved", "SQLite", "1,000", "0", "", ""),
        ("kill of the group", "SQLite", "2", "1", "2.0", "3.0"),
    )
    page = results.write_report(tmp_path).read_text()
    assert "--only kill-sqlite --seed 3" in page
    assert "ann: lost" in page


@pytest.mark.skipif(not can_mount(), reason="a disk of our own needs root")
def test_what_was_acknowledged_is_on_the_disk_after_a_power_cut() -> None:
    trials = list(power_cuts(random.Random(1), 3))
    assert [trial.problems for trial in trials] == [[], [], []]
