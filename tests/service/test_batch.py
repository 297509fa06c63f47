"""Recommendations for every user of a store in one file."""

from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner

from igcf.cli.main import cli
from igcf.errors import ConfigError
from igcf.service import batch
from igcf.service.batch import recommend_all
from igcf.service.context import ServiceContext
from igcf.service.models.requests import Feedback, RecommendationRequest
from igcf.service.serving.recommending import recommend
from tests.service.conftest import OpenService, react

USERS = [f"user-{number}" for number in range(7)]


def with_reactions(context: ServiceContext) -> ServiceContext:
    """Give every user a reaction of their own."""
    for number, user in enumerate(USERS):
        react(context, user, Feedback(item=f"item-{number}", value=float(1 + number % 5)))
    return context


def test_every_user_gets_what_a_request_would_answer(open_service: OpenService, tmp_path: Path) -> None:
    context = with_reactions(open_service())
    found = recommend_all(context, tmp_path / "recs.parquet", 3, page=2)
    assert found == (len(USERS), 3 * len(USERS), 0)
    frame = pl.read_parquet(tmp_path / "recs.parquet")
    for user in USERS:
        answer = recommend(context, user, RecommendationRequest(k=3))
        own = frame.filter(pl.col("user") == user).sort("rank")
        assert own["item"].to_list() == [item.item for item in answer.items]
        assert own["chance"].to_list() == pytest.approx([item.chance for item in answer.items])
    assert [path.name for path in tmp_path.iterdir() if "pages" in path.name] == []


def test_an_interrupted_run_resumes_after_its_last_page(
    open_service: OpenService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context, out = with_reactions(open_service()), tmp_path / "recs.parquet"
    opened: list[str] = []
    whole = batch._best

    def stops_at_the_fifth(context: ServiceContext, user: str, k: int) -> object:
        if user == USERS[4] and len(opened) == 4:
            raise KeyboardInterrupt
        opened.append(user)
        return whole(context, user, k)

    monkeypatch.setattr(batch, "_best", stops_at_the_fifth)
    with pytest.raises(KeyboardInterrupt):
        recommend_all(context, out, 3, page=2)
    assert not out.exists()
    with pytest.raises(ConfigError, match="another model, store or k"):
        recommend_all(context, out, 4, page=2)
    opened.append("resumed")
    assert recommend_all(context, out, 3, page=2) == (len(USERS), 3 * len(USERS), 4)
    assert opened == [*USERS[:4], "resumed", *USERS[4:]]
    assert pl.read_parquet(out)["user"].to_list() == [user for user in USERS for _ in range(3)]


def test_a_user_with_few_items_left_gets_fewer(open_service: OpenService, tmp_path: Path) -> None:
    context = open_service()
    for number in range(198):
        react(context, "avid", Feedback(item=f"item-{number}", value=3.0))
    assert recommend_all(context, tmp_path / "recs.parquet", 5) == (1, 2, 0)


def test_the_command_writes_a_file_and_refuses_to_overwrite_it(
    open_service: OpenService, store_url: str, model_folder: Path, tmp_path: Path
) -> None:
    with_reactions(open_service()).close()
    out = tmp_path / "recs.parquet"
    command = ["recommend-all", str(model_folder), "--store", store_url, "--out", str(out), "-k", "2"]
    done = CliRunner().invoke(cli, [*command, "--json"])
    assert done.exit_code == 0, done.output
    assert len(pl.read_parquet(out)) == 2 * len(USERS)
    again = CliRunner().invoke(cli, command)
    assert again.exit_code == 2
    assert again.stderr.strip() == f"Error: {out} already exists and is never overwritten; choose another name"
    many = CliRunner().invoke(cli, [*command, "-k", "1000", "--out", str(out.with_name("many.parquet"))])
    assert (many.exit_code, many.stderr) == (2, "Error: k is 1000; this server allows 100\n")


def test_a_store_without_users_gives_an_empty_file(open_service: OpenService, tmp_path: Path) -> None:
    assert recommend_all(open_service(), tmp_path / "recs.parquet", 3) == (0, 0, 0)
    assert pl.read_parquet(tmp_path / "recs.parquet").columns == ["user", "rank", "item", "score", "chance"]
