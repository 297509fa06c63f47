from pathlib import Path

import polars as pl
import pytest

from igcf.data import Interactions, synthetic_catalogue
from igcf.data.columns import Columns
from igcf.data.findings import LEVELS, Defect, Report, validate
from igcf.errors import DataError

GOOD = "user,item,value,timestamp\na,1,5,10\na,2,4,20\nb,1,3,30\nb,2,2,40\n"


def check(tmp_path: Path, text: str) -> Report:
    (tmp_path / "log.csv").write_text(text)
    return validate(tmp_path / "log.csv")


def only(report: Report, kind: str) -> Defect:
    (defect,) = (defect for defect in report.defects if defect.kind == kind)
    return defect


def test_a_good_log_has_no_defect(tmp_path: Path) -> None:
    report = check(tmp_path, GOOD)
    assert report.defects == ()
    assert report.is_usable
    assert (report.n_rows, report.n_users, report.n_items) == (4, 2, 2)


@pytest.mark.parametrize(
    ("row", "kind", "level"),
    [
        (",1,3,50", "null-id", "error"),
        ("a,,3,50", "null-id", "error"),
        ("c,1,,50", "null-value", "error"),
        ('"c","1","","50"', "null-value", "error"),
        ("c,1,good,50", "not-a-number", "error"),
        ("c,1,nan,50", "nan", "error"),
        ("c,1,-inf,50", "infinite", "error"),
        ("c,1,1e99,50", "infinite", "error"),
        ("c,1,3,soon", "bad-time", "error"),
        ("c,1,3,", "missing-time", "warning"),
        ("c,1,3,-5", "negative-time", "warning"),
        ("c,1,3,35", "times-not-sorted", "warning"),
        ("a,1,3,50", "duplicate-pair", "warning"),
        ("c ,1,3,50", "blank-in-id", "warning"),
        ('"c\td",1,3,50', "control-in-id", "error"),
        ("c,one,3,50", "mixed-ids", "warning"),
        ("c,007,3,50", "mixed-ids", "warning"),
        ("NULL,1,3,50", "perhaps-missing-id", "warning"),
        ("\\N,1,3,50", "perhaps-missing-id", "warning"),
        ("c,1,3,50", "single-reaction-user", "warning"),
        ("a,3,3,50", "single-reaction-item", "warning"),
    ],
)
def test_a_defect_is_reported_with_its_row(tmp_path: Path, row: str, kind: str, level: str) -> None:
    report = check(tmp_path, GOOD + row + "\n")
    defect = only(report, kind)
    assert (defect.level, defect.count, defect.rows) == (level, 1, (5,))
    assert report.is_usable == (level == "warning")


def test_ids_that_differ_in_case_or_blanks_are_reported_together(tmp_path: Path) -> None:
    defect = only(check(tmp_path, GOOD + "A,1,3,50\nb ,2,1,60\n"), "similar-ids")
    assert (defect.count, defect.rows) == (6, (1, 2, 3, 4, 5))


def test_values_and_times_that_never_change_are_reported(tmp_path: Path) -> None:
    report = check(tmp_path, "user,item,value,timestamp\na,1,5,7\nb,1,5,7\n")
    assert only(report, "constant-value").count == only(report, "constant-time").count == 2


def test_a_log_without_times_is_usable(tmp_path: Path) -> None:
    report = check(tmp_path, "user,item,value\na,1,5\nb,1,4\n")
    assert only(report, "no-times").level == "warning"
    assert report.is_usable


def test_every_kind_is_found_at_once_errors_first(tmp_path: Path) -> None:
    report = check(tmp_path, GOOD + ",1,x,\nc,1,inf,35\nc,1,nan,36\n")
    kinds = [defect.kind for defect in report.defects]
    assert {"null-id", "not-a-number", "infinite", "nan", "missing-time", "duplicate-pair"} <= set(kinds)
    levels = [defect.level for defect in report.defects]
    assert levels == sorted(levels)


def test_missing_columns_are_named(tmp_path: Path) -> None:
    check(tmp_path, GOOD.replace("user", "who").replace("value", "stars"))
    report = validate(tmp_path / "log.csv", Columns(user="user", value="value"))
    assert [defect.kind for defect in report.defects] == ["missing-column"]
    assert "no column 'user', 'value'; found 'who', 'item', 'stars', 'timestamp'" in report.defects[0].message
    named = validate(tmp_path / "log.csv", Columns(user="who", value="stars"))
    assert named.defects == ()


@pytest.mark.parametrize(("text", "kind"), [("", "unreadable"), ("user,item,value\n", "empty"), ("\0\0", "unreadable")])
def test_an_unusable_file_is_a_report_too(tmp_path: Path, text: str, kind: str) -> None:
    report = check(tmp_path, text)
    assert [defect.kind for defect in report.defects] == [kind]
    assert not report.is_usable
    assert report.as_dict()["usable"] is False


def test_parquet_is_checked_like_csv(tmp_path: Path) -> None:
    frame = pl.DataFrame({"user": [1, 1, None], "item": ["x", "y", "x"], "value": [1.0, float("nan"), 2.0]})
    frame.write_parquet(tmp_path / "log.parquet")
    report = validate(tmp_path / "log.parquet")
    assert only(report, "null-id").rows == (3,)
    assert only(report, "nan").rows == (2,)


def test_a_log_without_any_id_is_reported(tmp_path: Path) -> None:
    report = check(tmp_path, "user,item,value\n,1,2\n,2,3\n")
    assert only(report, "null-id").count == 2
    assert (report.n_rows, report.n_users) == (2, 0)


def test_a_file_that_nothing_else_would_read_is_not_usable(tmp_path: Path) -> None:
    (tmp_path / "log.json").write_text(GOOD)
    assert "no known ending" in only(validate(tmp_path / "log.json"), "unreadable").message


def test_every_kind_of_defect_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "checks.md").read_text()
    assert [kind for kind in LEVELS if f"`{kind}`" not in page] == []


def test_tabs_and_other_separators(tmp_path: Path) -> None:
    (tmp_path / "log.tsv").write_text(GOOD.replace(",", "\t"))
    assert validate(tmp_path / "log.tsv").defects == ()
    (tmp_path / "log.csv").write_text(GOOD.replace(",", ";"))
    assert validate(tmp_path / "log.csv", Columns(separator=";")).defects == ()
    assert validate(tmp_path / "log.csv").defects == ()
    assert "try separator=';'" in validate(tmp_path / "log.csv", Columns(separator=",")).defects[0].message


def test_the_synthetic_catalogue_is_without_defect(tmp_path: Path) -> None:
    log = synthetic_catalogue(n_users=200, n_items=60)
    pl.DataFrame(
        {
            "user": [log.user_ids[row] for row in log.user_idx],
            "item": [log.item_ids[row] for row in log.item_idx],
            "value": log.values,
            "timestamp": log.timestamps,
        }
    ).write_csv(tmp_path / "log.csv")
    report = validate(tmp_path / "log.csv")
    assert report.defects == ()
    assert report.n_rows == len(log)


def test_order_numbers_in_place_of_users_are_refused(tmp_path: Path) -> None:
    rows = [f"A{n},{n // 4},sku-{n % 7},{n % 5},{n}" for n in range(120)]
    text = "order_no,wer,sku,stars,when\n" + "\n".join(rows)
    report = check(tmp_path, text)
    assert not report.is_usable
    assert "say which column holds the users with user=" in only(report, "row-numbers").message
    with pytest.raises(DataError, match="'order_no' was taken for the users"):
        Interactions.from_csv(tmp_path / "log.csv")
    assert validate(tmp_path / "log.csv", Columns(user="order_no")).is_usable
    assert validate(tmp_path / "log.csv", Columns(user="wer")).n_users == 30


def test_tables_of_users_and_items_may_call_their_ids_as_the_log_does(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("wer,was,stars\nann,x,5\nann,y,3\nbob,x,4\n")
    (tmp_path / "people.csv").write_text("land,wer\nNL,ann\nPT,bob\n")
    (tmp_path / "goods.csv").write_text("name,was\nTea,x\nCup,y\n")
    columns = Columns(user="wer", item="was")
    report = validate(tmp_path / "log.csv", columns, items=tmp_path / "goods.csv", users=tmp_path / "people.csv")
    assert report.notes == (
        "items: id = was, title = name; separator: comma",
        "users: id = wer; categories: land",
        "2 of 2 users of the log are in the table of users",
    )
