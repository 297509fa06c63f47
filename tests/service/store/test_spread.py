"""Users spread over several databases: each in one, all of them served, moved whole, counted once."""

import json
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy import event

from igcf.data import Interactions
from igcf.data.frames import read_parquet
from igcf.errors import StoreError
from igcf.item import Item
from igcf.service.errors import EventConflictError
from igcf.service.store import NewEvent, Store, in_force, read_store
from igcf.service.store import export as export_module
from igcf.service.store import moving as moving_module
from igcf.service.store.audit_files import AuditFolder
from igcf.service.store.database import Database
from igcf.service.store.export import write_reactions, written_reactions
from igcf.service.store.importing import import_interactions
from igcf.service.store.items import ItemStore
from igcf.service.store.maintenance import backup_store, check_store, restore_store
from igcf.service.store.merging_across import merge_across
from igcf.service.store.moving import rebalance
from igcf.service.store.placement import place_of_user
from igcf.service.store.records import Appended
from igcf.service.store.spread import AnyStore, Spread, open_store, refuse_if_changed
from igcf.service.store.tables import recommendations, shown
from igcf.service.store.transfer import export_store, import_store
from tests.service.postgres import Cluster
from tests.service.store.test_audit_files import line

USERS = [f"user-{number}" for number in range(40)]


@pytest.fixture(params=["sqlite", "postgresql"])
def urls(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    """Three empty databases."""
    if request.param == "sqlite":
        return [str(tmp_path / f"{name}.db") for name in "abc"]
    cluster: Cluster = request.getfixturevalue("cluster")
    return [cluster.new_store() for _ in range(3)]


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Spread]:
    opened = open_store([str(tmp_path / "one.db"), str(tmp_path / "two.db")])
    assert isinstance(opened, Spread)
    yield opened
    opened.close()


def fill(store: AnyStore, users: list[str] = USERS) -> None:
    for number, user in enumerate(users):
        store.append(user, [NewEvent(f"e{n}", f"i{n}", 1.0 + n) for n in range(1 + number % 4)], "m")


def logs(*urls: str) -> dict[str, list[tuple[str | None, str | None, float | None]]]:
    """What is in force of every user, in all databases together; nobody may be in two of them."""
    found: dict[str, list[tuple[str | None, str | None, float | None]]] = {}
    for url in urls:
        store = Store(url)
        names = store.database.read(lambda c: c.execute(sa.text("SELECT user_id FROM users")).scalars().all())
        for user in names:
            assert user not in found
            found[user] = [(each.event_id, each.item_id, each.value) for each in in_force(store.events(user))]
        store.close()
    return found


def counts(*urls: str) -> list[int]:
    found = []
    for url in urls:
        store = Store(url)
        found.append(store.database.read(lambda c: c.execute(sa.text("SELECT COUNT(*) FROM users")).scalar_one()))
        store.close()
    return found


def moved(stay: list[str], leave: list[str] | None = None) -> int:
    return rebalance(stay, leave or [], noticed_s=0.0).users


def test_a_database_that_joins_takes_its_share_and_nobody_else_moves() -> None:
    users = [f"u{number}" for number in range(10_000)]
    before = [place_of_user(user, ["a", "b", "c"]) for user in users]
    after = [place_of_user(user, ["d", "a", "c", "b"]) for user in users]
    assert {new for old, new in zip(before, after, strict=True) if old != new} == {"d"}
    shares = Counter(after)
    assert all(abs(n - 2_500) < 200 for n in shares.values())


def test_every_user_is_in_one_database_and_is_found_again_in_any_order(urls: list[str]) -> None:
    store = open_store(urls)
    fill(store)
    expected = {user: store.user(user).revision for user in USERS}
    store.close()
    again = open_store(urls[::-1])
    assert {user: again.version(user)[1] for user in USERS} == expected
    appended = again.append_all({user: [NewEvent("last", "i1", 1.0)] for user in USERS}, "m")
    assert all(isinstance(each, Appended) for each in appended.values())
    again.close()
    assert all(n > 3 for n in counts(*urls))
    assert {user: len(events) for user, events in logs(*urls).items()} == {u: n + 1 for u, n in expected.items()}
    assert check_store(*urls) == []


def test_a_part_is_not_served_alone_nor_with_strangers(urls: list[str]) -> None:
    open_store(urls[:2]).close()
    with pytest.raises(StoreError, match="is one of the databases of a store"):
        open_store(urls[:1])
    with pytest.raises(StoreError, match="run `igcf store rebalance`"):
        open_store(urls)
    moved(urls)
    with pytest.raises(StoreError, match="are not named"):
        open_store(urls[:2])
    with pytest.raises(StoreError, match="named twice"):
        open_store([*urls, urls[0]])


def test_a_store_with_users_is_spread_by_rebalancing_only(urls: list[str]) -> None:
    alone = open_store(urls[:1])
    fill(alone)
    alone.announce("folder", "m")
    alone.close()
    before = logs(urls[0])
    with pytest.raises(StoreError, match="run `igcf store rebalance`"):
        open_store(urls[:2])
    assert 0 < moved(urls[:2]) < len(USERS)
    store = open_store(urls[1::-1])
    assert store.generation() == (1, "folder")
    store.close()
    assert logs(*urls[:2]) == before
    assert moved(urls[:2]) == 0
    assert moved(urls) > 0
    assert logs(*urls) == before
    assert moved(urls[2:], urls[:2]) > 0
    assert counts(*urls) == [0, 0, len(USERS)]
    last = open_store(urls[2:])
    assert last.generation() == (1, "folder")
    assert logs(urls[2]) == before
    last.close()
    with pytest.raises(StoreError, match="have been moved to other databases"):
        open_store(urls[:1])


@pytest.mark.parametrize("step", range(0, 12, 2))
def test_a_killed_rebalancing_is_ended_by_the_next_and_nothing_is_lost_or_doubled(
    tmp_path: Path, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = [str(tmp_path / f"{name}.db") for name in "abc"]
    store = open_store(urls[:2])
    fill(store)
    ItemStore(store.common.database).put([Item("new")], is_known=lambda _: False)
    for part in store.parts:
        part.database.write(lambda c: c.execute(sa.insert(shown).values(item_id="i1", times=5, explored=2)))
    for user in [*USERS, "stranger-1", "stranger-2"]:
        row = line(f"answer to {user}", user) | {"items": "[]"}
        store.of(user).database.write(lambda c, r=row: c.execute(sa.insert(recommendations).values(r)))  # type: ignore[misc]
    store.close()
    before = logs(*urls[:2])
    monkeypatch.setattr(moving_module, "AT_ONCE", 3)
    n, answered = 0, list[str]()
    write = Database.write

    def killed(self: Database, work: object, **options: object) -> object:
        nonlocal n
        n += 1
        if n > 14 + 2 * step:  # the first ones open and mark the databases
            raise KeyboardInterrupt
        return write(self, work, **options)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(Database, "write", killed)
        with pytest.raises(KeyboardInterrupt):
            moved(urls[1:], urls[:1])
    with pytest.raises(StoreError, match=r"igcf store rebalance|have been moved"):
        open_store(urls[:2])
    moved(urls[1:], urls[:1])
    assert logs(*urls) == before
    assert counts(urls[0]) == [0]
    again = open_store(urls[1:])
    assert [item.item_id for item in ItemStore(again.common.database).changes()] == ["new"]
    total = [part.database.read(lambda c: c.execute(sa.select(shown.c.times)).scalars().all()) for part in again.parts]
    assert sum(map(sum, total)) == 10
    query = sa.select(recommendations.c.user_id)
    for part in again.parts:
        names = part.database.read(lambda c: c.execute(query).scalars().all())
        assert {again.place(user) for user in names} == {part}
        answered += names
    assert sorted(answered) == sorted([*USERS, "stranger-1", "stranger-2"])
    again.close()
    assert check_store(*urls[1:]) == []


def test_a_database_with_users_of_another_store_does_not_join_and_none_is_left_out(urls: list[str]) -> None:
    for url in urls[:2]:
        store = Store(url)
        fill(store)
        store.close()
    with pytest.raises(StoreError, match="must be empty"):
        moved(urls[:2])
    open_store([urls[2]]).close()
    assert moved([urls[0], urls[2]]) > 0
    with pytest.raises(StoreError, match="has users of this store"):
        moved([urls[0]])


def test_reactions_that_went_astray_come_back_to_their_user_once(two: Spread) -> None:
    two.append("ann", [NewEvent("e1", "i1", 1.0)], "m")
    stray = next(part for part in two.parts if part is not two.place("ann"))
    stray.append("ann", [NewEvent("e1", "i1", 1.0), NewEvent("e2", "i2", 2.0)], "m")
    files = [part.database.name.removeprefix("sqlite:///") for part in two.parts]
    assert check_store(*files) != []
    assert moved(files) == 1
    assert logs(*files)["ann"] == [("e1", "i1", 1.0), ("e2", "i2", 2.0)]


def test_a_server_that_was_forgotten_answers_nothing_after_users_were_moved(two: Spread, tmp_path: Path) -> None:
    fill(two)
    refuse_if_changed(two)
    moved([str(tmp_path / "one.db")], [str(tmp_path / "two.db")])
    refuse_if_changed(two)
    with pytest.raises(StoreError, match="spread anew"):
        two.version("user-1")
    alone = open_store([str(tmp_path / "one.db")])
    refuse_if_changed(alone)
    assert alone.version("user-1")[1] > 0
    moved([str(tmp_path / "one.db"), str(tmp_path / "third.db")])
    refuse_if_changed(alone)
    with pytest.raises(StoreError, match="spread anew"):
        alone.append("user-1", [NewEvent("late", "i1", 1.0)], "m")
    alone.close()


def pair(store: Spread) -> tuple[str, str]:
    """A visitor and a user of different databases."""
    return next((a, b) for a in USERS for b in USERS if store.place(a) is not store.place(b))


def test_a_visitor_of_another_database_is_merged_like_one_of_the_same(two: Spread) -> None:
    visitor, user = pair(two)
    two.append(user, [NewEvent("same", "i1", 1.0), NewEvent("other", "i2", 2.0)], "m")
    two.append(visitor, [NewEvent("same", "i1", 1.0), NewEvent("other", "i3", 3.0), NewEvent("gone", "i4", 4.0)], "m")
    two.retract(visitor, "gone", "m")
    source, target = two.of(visitor).database, two.of(user).database
    merged = merge_across(source, target, visitor, user)
    assert (merged.revision, merged.moved, merged.known, merged.duplicate) == (3, 1, 1, False)
    assert [event.item_id for event in in_force(two.events(user))] == ["i1", "i2", "i3"]
    assert two.version(visitor) == ("", 0)
    again = merge_across(source, target, visitor, user)
    assert (again.revision, again.moved, again.duplicate) == (3, 0, True)
    assert two.of(visitor).deletions().keys() != {}
    two.forget(user)
    for part in two.parts:
        assert part.database.read(lambda c: c.execute(sa.text("SELECT COUNT(*) FROM merges")).scalar_one()) == 0


@pytest.mark.parametrize("written", [1, 2])
def test_a_merge_that_was_interrupted_is_ended_by_the_same_call_and_by_no_other(
    two: Spread, written: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    visitor, user = pair(two)
    third = next(name for name in USERS if two.place(name) is not two.place(visitor) and name != user)
    two.append(visitor, [NewEvent("e1", "i1", 1.0), NewEvent("e2", "i2", 2.0)], "m")
    source, target = two.of(visitor).database, two.of(user).database
    n, write = 0, type(source).write

    def killed(self: Database, work: object, **options: object) -> object:
        nonlocal n
        n += 1
        if n > written:
            raise KeyboardInterrupt
        return write(self, work, **options)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(type(source), "write", killed)
        with pytest.raises(KeyboardInterrupt):
            merge_across(source, target, visitor, user)
    with pytest.raises(EventConflictError):
        merge_across(source, two.of(third).database, visitor, third)
    two.append(visitor, [NewEvent("e3", "i3", 3.0)], "m")
    merge_across(source, target, visitor, user)
    assert [event.event_id for event in two.events(user)] == ["e1", "e2", "e3"]
    assert two.version(visitor) == ("", 0)


def test_a_reaction_that_comes_while_a_visitor_is_merged_is_merged_too(
    two: Spread, monkeypatch: pytest.MonkeyPatch
) -> None:
    visitor, user = pair(two)
    two.append(visitor, [NewEvent("e1", "i1", 1.0)], "m")
    source, target = two.of(visitor).database, two.of(user).database
    write = target.write

    def late(work: Callable[[sa.Connection], object]) -> object:
        found = write(work)
        two.append(visitor, [NewEvent("e2", "i2", 2.0)], "m")
        return found

    monkeypatch.setattr(target, "write", late)
    merged = merge_across(source, target, visitor, user)
    assert (merged.revision, merged.moved, merged.known) == (2, 2, 0)
    assert [event.event_id for event in two.events(user)] == ["e1", "e2"]
    assert two.version(visitor) == ("", 0)


def _once_after_writing(database: Database, then: Callable[[], object], patch: pytest.MonkeyPatch) -> None:
    """Do something between the first transaction of a database and whatever follows it."""
    write, todo = database.write, [then]

    def late(work: Callable[[sa.Connection], object]) -> object:
        found = write(work)
        if todo:
            todo.pop()()
        return found

    patch.setattr(database, "write", late)


def test_a_reaction_that_is_taken_back_while_a_visitor_is_merged_is_taken_back_for_the_user_too(
    two: Spread, monkeypatch: pytest.MonkeyPatch
) -> None:
    visitor, user = pair(two)
    two.append(user, [NewEvent("e2", "i9", 5.0)], "m")  # an id that both have for different reactions
    two.append(visitor, [NewEvent(f"e{n}", f"i{n}", 1.0) for n in (1, 2, 3)], "m")
    source, target = two.of(visitor).database, two.of(user).database

    def take_back() -> None:
        assert [two.retract(visitor, f"e{n}", "m") for n in (1, 2)] == [4, 5]

    _once_after_writing(target, take_back, monkeypatch)
    merged = merge_across(source, target, visitor, user)
    assert [event.item_id for event in in_force(two.events(user))] == ["i9", "i3"]
    assert (merged.revision, merged.moved, merged.known) == (6, 1, 0)
    assert two.version(visitor) == ("", 0)


def test_somebody_who_is_deleted_while_being_merged_and_comes_back_keeps_what_is_new(
    two: Spread, monkeypatch: pytest.MonkeyPatch
) -> None:
    visitor, user = pair(two)
    two.append(visitor, [NewEvent("e1", "i1", 1.0), NewEvent("e2", "i2", 1.0)], "m")
    source, target = two.of(visitor).database, two.of(user).database

    def delete_and_come_back() -> None:
        two.forget(visitor)
        two.append(visitor, [NewEvent("new", "i3", 1.0)], "m")

    _once_after_writing(target, delete_and_come_back, monkeypatch)
    merge_across(source, target, visitor, user)
    assert [event.event_id for event in two.events(visitor)] == ["new"]
    assert [event.event_id for event in two.events(user)] == ["e1", "e2"]


def test_a_visitor_who_is_merged_during_a_backup_is_in_one_of_the_copies(two: Spread, tmp_path: Path) -> None:
    visitor, user = pair(two)
    two.append(visitor, [NewEvent("e1", "i1", 1.0)], "m")
    source, target = two.of(visitor).database, two.of(user).database

    def merge_after_the_first(what: str, done: int, total: int | None) -> None:
        if what == "checking the copy":
            merge_across(source, target, visitor, user)

    files = [str(database.engine.url.database) for database in (target, source)]
    backup_store(files, tmp_path / "copies", merge_after_the_first)
    assert logs(*files)[user] == [("e1", "i1", 1.0)]
    restored = [str(tmp_path / name) for name in ("target.db", "source.db")]
    restore_store(tmp_path / "copies", restored)
    assert logs(*restored) == {visitor: [("e1", "i1", 1.0)]}


def test_a_visitor_who_is_merged_during_an_export_is_in_it(urls: list[str], tmp_path: Path) -> None:
    serving, exporting = open_store(urls[:2]), open_store(urls[:2])
    assert isinstance(serving, Spread)
    visitor = next(name for name in USERS if serving.place(name) is serving.parts[1])
    user = next(name for name in USERS if serving.place(name) is serving.parts[0])
    serving.append(visitor, [NewEvent("e1", "i1", 1.0)], "m")
    databases = serving.of(visitor).database, serving.of(user).database
    merge = threading.Thread(target=lambda: merge_across(*databases, visitor, user))

    def begin_to_merge(*said: object) -> None:
        if "FROM" in str(said[2]) and not merge.ident:  # the first database has been asked, this one not yet
            merge.start()
            merge.join(0.3)  # it ends here where nothing keeps it waiting

    second = exporting.parts[1].database
    for engine in (second.engine, second.reader):
        event.listen(engine, "before_cursor_execute", begin_to_merge)
    found = export_store(exporting, tmp_path / "export")
    merge.join()
    assert found["feedback"]["rows"] == 1
    for store in (serving, exporting):
        store.close()


def test_an_export_of_two_databases_fills_one_or_three_and_comes_back(two: Spread, urls: list[str]) -> None:
    fill(two)
    for part in two.parts:
        part.database.write(lambda c: c.execute(sa.insert(shown).values(item_id="i1", times=5, explored=2)))
    folder = Path(two.parts[0].database.name.removeprefix("sqlite:///")).parent
    export_store(two, folder / "export")
    assert json.loads((folder / "export" / "manifest.json").read_text())["tables"]["users"]["rows"] == len(USERS)
    three, alone = open_store(urls), open_store([str(folder / "alone.db")])
    for store in (three, alone):
        assert import_store(store, folder / "export")
        assert not import_store(store, folder / "export")
        assert {user: store.version(user) for user in USERS} == {user: two.version(user) for user in USERS}
        assert store.common.database.read(lambda c: c.execute(sa.select(shown)).all()) == [("i1", 10, 4)]
    export_store(three, folder / "again")
    manifests = [json.loads((folder / name / "manifest.json").read_text()) for name in ("export", "again")]
    assert manifests[0] == manifests[1]
    for store in (three, alone):
        store.close()
    assert check_store(*urls) == []


def test_copies_of_two_files_make_two_files_again(two: Spread, tmp_path: Path) -> None:
    fill(two)
    files = [str(tmp_path / "one.db"), str(tmp_path / "two.db")]
    backup_store(files, tmp_path / "copies")
    restored = [str(tmp_path / "first.db"), str(tmp_path / "second.db")]
    restore_store(tmp_path / "copies", restored)
    assert logs(*restored) == logs(*files)
    assert check_store(*restored) == []
    with pytest.raises(StoreError, match="has copies of 2 databases"):
        restore_store(tmp_path / "copies", [*restored, "third.db"])


def test_a_log_is_imported_into_the_databases_of_its_users(two: Spread) -> None:
    data = Interactions.from_arrays(USERS * 2, ["i1"] * 40 + ["i2"] * 40, [1.0] * 80)
    assert import_interactions(two, data, "m").stored == 80
    assert import_interactions(two, data, "m").stored == 0
    assert all(two.version(user)[1] == 2 for user in USERS)


def test_users_of_a_database_that_is_away_are_refused_and_the_others_are_not(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    urls = [str(tmp_path / "one.db"), str(tmp_path / "gone" / "two.db")]
    store = open_store(urls)
    fill(store)
    store.close()
    (tmp_path / "gone").rename(tmp_path / "elsewhere")
    store = open_store(urls)
    assert isinstance(store, Spread)
    here = [user for user in USERS if store.place(user) is store.parts[0]]
    away = [user for user in USERS if user not in here]
    assert len(store.living) == 1
    assert all(store.version(user)[1] > 0 for user in here)
    with pytest.raises(StoreError, match="does not answer"):
        store.version(away[0])
    found = store.append_all({user: [NewEvent("x", "i1", 1.0)] for user in (here[0], away[0])}, "m")
    assert isinstance(found[here[0]], Appended)
    assert isinstance(found[away[0]], StoreError)
    shutil.move(tmp_path / "elsewhere", tmp_path / "gone")
    assert store.parts[1].database.probe()
    assert store.version(away[0])[1] > 0
    store.close()


def test_two_databases_and_a_folder_are_learned_from_as_one_log(two: Spread, tmp_path: Path) -> None:
    fill(two)
    two.append("user-0", [NewEvent("known", "i9", 2.0, "shown-1")], "m")
    AuditFolder(tmp_path / "audit").append([answer_line("shown-1", ["i9", "i8"]), answer_line("shown-2", ["i7"])])
    files = [str(tmp_path / "one.db"), str(tmp_path / "two.db")]
    log = read_store(*files, str(tmp_path / "audit"))
    assert len(log.interactions()) == sum(1 + number % 4 for number in range(len(USERS))) + 1
    assert list(log.times) == sorted(log.times)
    assert log.unanswered == 2
    assert "2 items of the audit drew no reaction" in log.sentence


def test_files_for_workers_hold_the_log_that_is_read_into_memory(
    urls: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(urls)
    fill(store)
    store.append("user-3", [NewEvent("again", "i0", 5.0), NewEvent("none", "i8", None)], "m")
    store.append("user-4", [NewEvent("skipped", "i9", None, evidence="skip")], "m")
    store.retract("user-7", "e1", "m")
    ItemStore(store.common.database).put(
        [Item("i1", title="One", categories=("a", "b"), numbers={"year": 1.0}), Item("never seen")],
        is_known=lambda _: False,
    )
    store.close()
    monkeypatch.setattr(export_module, "ROWS_PER_FILE", 7)
    files = write_reactions(tmp_path / "files", *urls, described=[Item("i2", title="Two")])
    log = read_store(*urls)
    assert files.sentence == log.sentence
    assert len(list(files.log.iterdir())) > 5
    assert files.items is not None
    found, expected = read_parquet(files.log).with_items(files.items), log.interactions()
    assert (found.n_users, found.n_items, found.titles) == (40, 4, ("i0", "One", "Two", "i3"))
    assert found.categories == ((), ("a", "b"), (), ())
    assert rows_of_log(found) == rows_of_log(expected)
    assert written_reactions(tmp_path / "files") == files


def rows_of_log(log: Interactions) -> set[tuple[str, str, float, int]]:
    assert log.timestamps is not None
    columns = (log.user_idx, log.item_idx, log.values, log.timestamps)
    return {
        (log.user_ids[user], log.item_ids[item], float(value), int(when))
        for user, item, value, when in zip(*columns, strict=True)
    }


def answer_line(name: str, items: list[str]) -> dict[str, object]:
    item = line(name)["items"][0]
    return line(name, "user-0") | {"items": [item | {"item": each} for each in items]}
