"""The audit in a folder: every answer once, whoever writes, dies, deletes or reads."""

import json
import multiprocessing
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner

from igcf.cli.main import cli
from igcf.errors import StoreError
from igcf.service.context import ServiceContext
from igcf.service.models.requests import Feedback, RecommendationRequest
from igcf.service.serving.many import merge
from igcf.service.serving.reacting import forget, react
from igcf.service.serving.recommending import recommend
from igcf.service.store import Store, audit, audit_files
from igcf.service.store.answers import read_answers, shown_items, summary
from igcf.service.store.audit_files import HOUR_S, AuditFolder, hour_name
from igcf.service.store.audit_reading import schema
from tests.service.conftest import OpenService, small_model
from tests.service.processes import wait_until


def line(name: str, user: str = "ann", when: float | None = None) -> dict[str, Any]:
    item = {"item": "i1", "score": 1.0, "mean": 0.5, "std": 0.1, "chance": None, "mean_rank": 1, "reason": "please"}
    return {
        "recommendation_id": name,
        "user_id": user,
        "model": "m",
        "revision": 0,
        "policy": '{"name":"greedy"}',
        "propensity": "exact",
        "items": [item | {"propensity": 1.0}],
        "time": time.time() if when is None else when,
    }


def names(folder: AuditFolder | Path) -> list[str]:
    opened = folder if isinstance(folder, AuditFolder) else AuditFolder(folder)
    return sorted(name for frame in opened.frames() for name in frame["recommendation_id"])


def users(folder: Path) -> set[str]:
    return {user for frame in AuditFolder(folder).frames() for user in frame["user_id"]}


def an_hour_ago() -> float:
    return time.time() - 2 * HOUR_S


def test_an_hour_that_is_over_becomes_one_parquet_file_per_process_which_anybody_can_read(tmp_path: Path) -> None:
    folder = AuditFolder(tmp_path / "audit")
    folder.append([line("old-1", when=an_hour_ago()), line("old-2", when=an_hour_ago()), line("new")])
    assert names(folder) == ["new", "old-1", "old-2"]
    folder.finish()
    tables = list((tmp_path / "audit").glob("hour=*/*.parquet"))
    assert [path.parent.name for path in tables] == [hour_name(an_hour_ago())]
    frame = pl.read_parquet(tables[0])
    assert dict(frame.schema) == schema()
    assert frame["items"].to_list()[0] == [line("")["items"][0]]
    assert names(folder) == ["new", "old-1", "old-2"]


def test_an_answer_that_comes_late_is_in_a_further_file_of_its_hour(tmp_path: Path) -> None:
    folder = AuditFolder(tmp_path)
    for name in ("first", "second"):
        folder.append([line(name, when=an_hour_ago())])
        AuditFolder(tmp_path).finish()  # another process does it
    assert names(folder) == ["first", "second"]
    assert len(list(tmp_path.glob("hour=*/*.parquet"))) == 2


def test_a_journal_that_has_grown_large_becomes_a_file_before_its_hour_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_files, "LARGEST_JOURNAL", 10)
    folder = AuditFolder(tmp_path)
    folder.append([line("one")])
    folder.finish()
    folder.append([line("two")])
    assert len(list(tmp_path.glob("hour=*/*.parquet"))) == 1
    assert names(folder) == ["one", "two"]


def test_a_process_killed_while_it_finishes_an_hour_leaves_every_answer_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = AuditFolder(tmp_path)
    folder.append([line("one", when=an_hour_ago())])
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", _killed)  # the table is there, the journal too
        with pytest.raises(KeyboardInterrupt):
            folder.finish()
    assert names(tmp_path) == ["one"]
    folder.append([line("two", when=an_hour_ago())])
    assert names(tmp_path) == ["one", "two"]
    AuditFolder(tmp_path).finish()
    assert names(tmp_path) == ["one", "two"]


def _killed(self: Path, missing_ok: bool = False) -> None:
    if self.suffix == ".jsonl":
        raise KeyboardInterrupt


def _interrupted(self: Path, target: Path | None = None, *, missing_ok: bool = False) -> None:
    raise KeyboardInterrupt


def test_what_a_crash_left_of_a_line_is_no_answer_and_hides_none(tmp_path: Path) -> None:
    folder = AuditFolder(tmp_path)
    folder.append([line("whole", when=an_hour_ago())])
    (journal,) = tmp_path.glob("hour=*/*.jsonl")
    with journal.open("ab") as file:
        file.write(b'{"recommendation_id":"in part","us')
    assert names(tmp_path) == ["whole"]
    AuditFolder(tmp_path).finish()
    assert names(tmp_path) == ["whole"]


def test_a_deleted_user_is_in_no_file_and_no_journal_and_the_others_are_untouched(tmp_path: Path) -> None:
    one, two = AuditFolder(tmp_path), AuditFolder(tmp_path)
    one.append([line("a", "ann", an_hour_ago()), line("b", "bob", an_hour_ago())])
    one.finish()
    two.append([line("c", "ann"), line("d", "bob")])
    one.delete_user("ann")
    two.append([line("e", "bob")])
    assert names(tmp_path) == ["b", "d", "e"]
    assert not any(b"ann" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_old_hours_are_deleted_whole(tmp_path: Path) -> None:
    folder = AuditFolder(tmp_path)
    now = time.time()
    folder.append([line("old", when=now - 5 * HOUR_S), line("new", when=now)])
    folder.finish()
    folder.append([line("older", when=now - 6 * HOUR_S)])
    assert folder.delete_before(now - 2 * HOUR_S) == 2
    assert names(folder) == ["new"]
    assert len(list(tmp_path.glob("hour=*"))) == 1


def _write_many(folder: Path, name: str) -> None:
    opened = AuditFolder(folder)
    for number in range(60):
        opened.append([line(f"{name}-{number}", f"user-{number % 7}", an_hour_ago())])
        opened.finish()


def test_processes_write_finish_and_delete_at_once_and_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    fork = multiprocessing.get_context("spawn")
    processes = [fork.Process(target=_write_many, args=(tmp_path, name)) for name in "ab"]
    for process in processes:
        process.start()
    while any(process.is_alive() for process in processes):
        AuditFolder(tmp_path).delete_user("nobody")
        found = names(tmp_path)
        assert len(found) == len(set(found))
    assert [process.exitcode for process in processes] == [0, 0]
    assert names(tmp_path) == sorted(f"{name}-{number}" for name in "ab" for number in range(60))


def test_a_damaged_file_is_named_and_keeps_no_other_from_being_finished(tmp_path: Path) -> None:
    damaged = tmp_path / hour_name(an_hour_ago() - HOUR_S)
    damaged.mkdir()
    (damaged / "other-1.jsonl").write_text('{"user_id":"ann", garbage\n')
    folder = AuditFolder(tmp_path)
    folder.append([line("one", "ann", an_hour_ago()), line("two", "bob", an_hour_ago())])
    with pytest.raises(StoreError, match=r"other-1.jsonl of the audit is damaged: .*; move it out of the folder"):
        folder.finish()
    (table,) = tmp_path.glob("hour=*/*.parquet")
    folder.delete_user("ann")
    assert not any(b"ann" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    folder.finish()
    assert names(tmp_path) == ["two"]
    table.write_bytes(table.read_bytes()[:100])
    for work in (lambda: folder.delete_user("ann"), lambda: names(tmp_path)):
        with pytest.raises(StoreError, match=f"{table.name} of the audit is damaged"):
            work()
    pl.DataFrame({"user_id": ["ann"]}).write_parquet(table)
    with pytest.raises(StoreError, match="other columns"):
        names(tmp_path)


def test_a_line_that_could_not_be_undone_does_not_spoil_the_next(tmp_path: Path) -> None:
    folder = AuditFolder(tmp_path)
    folder.append([line("one")])
    (journal,) = tmp_path.glob("hour=*/*.jsonl")
    with journal.open("ab") as file:
        file.write(b'{"recommendation_id":"in part","us')  # the disk was full, and would not be truncated
    folder.append([line("two")])
    assert names(tmp_path) == ["one", "two"]


def test_what_a_killed_process_was_writing_is_gone_with_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = AuditFolder(tmp_path)
    folder.append([line("one", "ann", an_hour_ago()), line("two", "bob", an_hour_ago())])
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", _interrupted)
        patch.setattr(Path, "unlink", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            folder.rename_user("bob", "eve")
    (left,) = tmp_path.glob("hour=*/.*")
    content = left.read_bytes()
    folder.finish()
    left.write_bytes(content)  # killed again
    AuditFolder(tmp_path).delete_user("ann")
    assert not any(b"ann" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_the_writer_outlives_a_damaged_journal(
    open_service: OpenService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / hour_name(an_hour_ago())).mkdir()
    (tmp_path / hour_name(an_hour_ago()) / "other-1.jsonl").write_text("no answer\n")
    monkeypatch.setattr(audit, "PAUSE_S", 0.01)
    context = open_service(audit=str(tmp_path))
    wait_until(lambda: "audit log not written" in caplog.messages, "nobody tells of the journal")
    answered(context, "ann")
    wait_until(
        lambda: any(b"ann" in each.read_bytes() for each in tmp_path.glob("hour=*/*.jsonl")), "it is not written"
    )


def test_old_answers_are_deleted_in_the_store_too_where_there_is_a_folder_by_now(
    open_service: OpenService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = open_service()
    answered(before, "ann")
    before.audit.flush()
    monkeypatch.setattr(audit, "PAUSE_S", 0.01)
    after = open_service(audit=str(tmp_path), audit_days=1e-9)
    wait_until(lambda: not sum(map(len, read_answers(after.store))), "the old answer stays")


def test_a_folder_that_cannot_be_written_is_told_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot write the audit to"):
        AuditFolder(tmp_path / "file" / "audit")


def answered(context: ServiceContext, user: str) -> str:
    return recommend(context, user, RecommendationRequest(k=2)).recommendation_id


def test_servers_with_a_folder_write_every_answer_there_and_none_to_the_store(
    open_service: OpenService, tmp_path: Path
) -> None:
    services = [open_service(audit=str(tmp_path / "audit")) for _ in range(2)]
    given = sorted(answered(service, user) for service in services for user in ("ann", "bob"))
    for service in services:
        service.audit.flush()
    assert names(tmp_path / "audit") == given
    counted = services[0].store.common.database.read(
        lambda connection: (
            connection.exec_driver_sql("SELECT COUNT(*) FROM recommendations").scalar_one(),
            connection.exec_driver_sql("SELECT SUM(times) FROM shown").scalar_one(),
        )
    )
    assert counted == (0, 8)


def test_a_deleted_user_leaves_the_folder_also_out_of_the_queue_of_another_server(
    open_service: OpenService, tmp_path: Path
) -> None:
    one, two = (open_service(audit=str(tmp_path / "audit")) for _ in range(2))
    for service in (one, two):
        service.audit.close()  # no thread but this one writes
    for service in (one, two):
        answered(service, "ann")
    kept = answered(two, "bob")
    one.audit.flush()
    forget(one, "ann")
    two.audit.flush()
    assert names(tmp_path / "audit") == [kept]
    back = answered(two, "ann")
    two.audit.flush()
    assert names(tmp_path / "audit") == sorted([kept, back])


def test_answers_to_a_visitor_are_the_users_after_a_merge(open_service: OpenService, tmp_path: Path) -> None:
    context = open_service(audit=str(tmp_path / "audit"))
    answered(context, "visitor")
    merge(context, "ann", "visitor")
    assert users(tmp_path / "audit") == {"ann"}


@pytest.mark.parametrize("is_in_files", [False, True])
def test_what_was_shown_is_compared_with_the_reactions_to_it(
    open_service: OpenService, tmp_path: Path, is_in_files: bool
) -> None:
    context = open_service(**({"audit": str(tmp_path / "audit")} if is_in_files else {}))
    answer = recommend(context, "ann", RecommendationRequest(k=4, policy="greedy"))
    for item, value in zip(answer.items, (5.0, 2.0, 4.0), strict=False):
        event = Feedback(item=item.item, value=value, recommendation_id=answer.recommendation_id)
        react(context, "ann", event)
    context.audit.flush()
    found = summary(shown_items(context.store, context.audit.folder), satisfied=4.0)
    (row,) = found.to_dicts()
    expected = sum(item.chance or 0.0 for item in answer.items[:3]) / 3
    assert (row["shown"], row["reactions"], row["satisfied"]) == (4, 3, pytest.approx(2 / 3))
    assert row["expected"] == pytest.approx(expected)


def test_what_drew_no_reaction_has_no_share_of_satisfied_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    small_model().save(tmp_path / "model")
    Store("one.db").close()
    AuditFolder("audit").append([line("one"), line("two")])
    command = ["store", "audit", "--store", "one.db", "--audit", "audit", "--model", "model"]
    found = CliRunner().invoke(cli, [*command, "--json"])
    (row,) = json.loads(found.stdout)["audit"]
    assert (row["shown"], row["reactions"], row["satisfied"], row["expected"]) == (2, 0, None, None)
    assert "2 shown, 0 reactions" in CliRunner().invoke(cli, command).output
