"""Recommendations for every user of a store, written to one Parquet file: for e-mail and other batch jobs."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from igcf.errors import ConfigError
from igcf.online import Recommendation
from igcf.online.policies import own_policy
from igcf.progress import Report, silent
from igcf.service.context import ServiceContext
from igcf.service.models.requests import RecommendationRequest
from igcf.service.serving.recommending import answer_rules, check_limits, excluded, most_left

if TYPE_CHECKING:
    import polars as pl

PAGE = 500
"""Number of users written together; an interrupted run loses at most these."""


class Batch(NamedTuple):
    """Size of a finished batch."""

    users: int
    rows: int
    resumed: int
    """Users written by an interrupted earlier run."""


def recommend_all(context: ServiceContext, out: Path, k: int, *, report: Report = silent, page: int = PAGE) -> Batch:
    """Write the `k` best items of every user of the store to `out`, with fewer rows for users who have fewer left.

    Columns: `user`, `rank`, `item`, `score`, `chance`. Finished pages are kept in a folder beside `out`, so that an
    interrupted run can resume. Nothing is logged as shown.

    Raises:
        ConfigError: `out` exists, or an interrupted run used another model, store or `k`.
    """
    check_limits(context.settings, RecommendationRequest(k=k))
    if out.exists():
        raise ConfigError(f"{out} exists; delete it or choose another name with --out")
    context.experiments.follow()
    context.items_from_log.look(context.current_model.served)
    context.experiments.learn()
    pages = _open_pages(
        out, {"model": context.current_model.served.model_id, "store": context.store.database.name, "k": k}
    )
    after, resumed = _written(pages)
    done = resumed
    while users := [each.user for each in context.store.list_users(after, page)]:
        frame = _frame(context, users, k)
        part = pages / f"{done:012d}-{len(users)}"
        frame.write_parquet(part)
        after, done = users[-1], done + len(users)
        _mark(part, after)
        report("users", done, None)
    rows = _join(pages, out)
    shutil.rmtree(pages)
    return Batch(done, rows, resumed)


def _open_pages(out: Path, settings: dict[str, object]) -> Path:
    """Return the folder of finished pages; refuse one that another model, store or `k` filled."""
    folder = out.with_name(f".{out.name}.pages")
    file = folder / "settings.json"
    if file.exists():
        if json.loads(file.read_text(encoding="utf-8")) != settings:
            raise ConfigError(
                f"{folder} holds an interrupted run with another model, store or k; delete it or choose another --out"
            )
        return folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(settings), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write beside {out}: {error.strerror}; choose another --out") from error
    return folder


def _mark(part: Path, last: str) -> None:
    """Mark a page as finished, naming its last user; one without the mark is written again."""
    partial = part.with_suffix(".partial")
    partial.write_text(json.dumps(last), encoding="utf-8")
    partial.rename(part.with_suffix(".last"))


def _written(pages: Path) -> tuple[str, int]:
    """Return the last user of the finished pages and the number of users in them."""
    marks = sorted(pages.glob("*.last"))
    if not marks:
        return "", 0
    first, size = marks[-1].stem.split("-")
    return json.loads(marks[-1].read_text(encoding="utf-8")), int(first) + int(size)


def _join(pages: Path, out: Path) -> int:
    """Join the finished pages into one file, which appears whole."""
    import polars as pl

    parts = [str(mark.with_suffix("")) for mark in sorted(pages.glob("*.last"))]
    frames = pl.scan_parquet(parts) if parts else pl.LazyFrame(schema=_schema())
    joined = pages / "joined"
    frames.sink_parquet(joined)
    rows = int(pl.scan_parquet(joined).select(pl.len()).collect().item())
    joined.rename(out)
    return rows


def _frame(context: ServiceContext, users: list[str], k: int) -> "pl.DataFrame":
    import polars as pl

    rows = [row for user in users for row in _best(context, user, k)]
    return pl.DataFrame(rows, schema=_schema(), orient="row")


def _best(context: ServiceContext, user_id: str, k: int) -> Iterator[tuple[str, int, str, float, float]]:
    """Yield the recommendations of one user, as a request that accepts fewer items would get them."""
    ask = RecommendationRequest(k=k, fewer=True)
    place = context.place(user_id)
    rules = answer_rules(place.rules, ask)
    with context.users.open(place.served, user_id) as user:
        exclude = excluded(user, ask, rules)

        def recommend(most: int) -> list[Recommendation]:
            return user.session.recommend(most, exclude=exclude, rules=rules, policy=own_policy(place.policy))

        left = most_left(recommend, k)
        picks = recommend(left) if left else []
    for pick in picks:
        yield user_id, pick.rank, pick.item_id, pick.score, pick.chance


def _schema() -> "dict[str, type[pl.DataType]]":
    import polars as pl

    return {"user": pl.String, "rank": pl.Int32, "item": pl.String, "score": pl.Float64, "chance": pl.Float64}
