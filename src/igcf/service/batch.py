"""Recommendations for every user of a store, written to one Parquet file: for e-mail and other batch jobs."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from igcf.errors import ConfigError
from igcf.online.policies import own_policy
from igcf.progress import Report, silent
from igcf.service.context import ServiceContext
from igcf.service.models.requests import RecommendationRequest
from igcf.service.serving.recommending import answer_rules, check_limits, excluded, pick_items

SCHEMA = {"user": pl.String, "rank": pl.Int32, "item": pl.String, "score": pl.Float64, "chance": pl.Float64}
PAGE = 500  # number of users written together; an interrupted run loses at most these


class Batch(NamedTuple):
    """Size of a finished batch."""

    users: int
    rows: int
    resumed: int  # users written by an interrupted earlier run


def recommend_all(context: ServiceContext, out: Path, k: int, *, report: Report = silent, page: int = PAGE) -> Batch:
    """Write the `k` best items of every user of the store to `out`, with fewer rows for users who have fewer left.

    Columns: `user`, `rank`, `item`, `score`, `chance`. Finished pages are kept in a folder beside `out`, so that an
    interrupted run can resume. Nothing is logged as shown.

    Raises:
        ConfigError: `out` exists, or an interrupted run used another model, store or `k`.
    """
    check_limits(context.settings, RecommendationRequest.model_construct(k=k))
    if out.exists():
        raise ConfigError(f"{out} exists; delete it or choose another name with --out")
    context.experiments.follow()
    context.items_from_log.look(context.current_model.served)
    context.experiments.learn()
    model = context.current_model.served.model_id
    pages = _open_pages(out, {"model": model, "store": context.store.database.name, "k": k})
    after, resumed = _written(pages)
    done = resumed
    while users := [each.user for each in context.store.list_users(after, page)]:
        part = pages / f"{done:012d}-{len(users)}"
        best = [row for user in users for row in _best(context, user, k)]
        pl.DataFrame(best, schema=SCHEMA, orient="row").write_parquet(part)
        after, done = users[-1], done + len(users)
        partial = part.with_suffix(".partial")
        partial.write_text(json.dumps(after), encoding="utf-8")
        partial.rename(part.with_suffix(".last"))  # marks the page as finished; one without it is written again
        report("users", done, None)
    rows = _join(pages, out)
    shutil.rmtree(pages)
    return Batch(done, rows, resumed)


def _open_pages(out: Path, settings: dict[str, object]) -> Path:
    """Return the folder of finished pages; refuse one that another model, store or `k` filled."""
    folder = out.with_name(f".{out.name}.pages")
    file = folder / "settings.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            file.write_text(json.dumps(settings), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write beside {out}: {error.strerror}; choose another --out") from error
    if json.loads(file.read_text(encoding="utf-8")) != settings:
        raise ConfigError(
            f"{folder} holds an interrupted run with another model, store or k; delete it or choose another --out"
        )
    return folder


def _written(pages: Path) -> tuple[str, int]:
    """Return the last user of the finished pages and the number of users in them."""
    marks = sorted(pages.glob("*.last"))
    if not marks:
        return "", 0
    first, size = marks[-1].stem.split("-")
    return json.loads(marks[-1].read_text(encoding="utf-8")), int(first) + int(size)


def _join(pages: Path, out: Path) -> int:
    """Join the finished pages into one file, which appears whole."""
    parts = [str(mark.with_suffix("")) for mark in sorted(pages.glob("*.last"))]
    frames = pl.scan_parquet(parts) if parts else pl.LazyFrame(schema=SCHEMA)
    joined = pages / "joined"
    frames.sink_parquet(joined)
    rows = int(pl.scan_parquet(joined).select(pl.len()).collect().item())
    joined.rename(out)
    return rows


def _best(context: ServiceContext, user_id: str, k: int) -> Iterator[tuple[str, int, str, float, float]]:
    """Yield the recommendations of one user, as a request that accepts fewer items would get them."""
    ask = RecommendationRequest(k=k, fewer=True)
    place = context.place(user_id)
    rules = answer_rules(place.rules, ask)
    with context.users.open(place.served, user_id) as user:
        asked: dict[str, Any] = {"exclude": excluded(user, ask, rules), "rules": rules}
        picks = pick_items(user.session, k, fewer=True, policy=own_policy(place.policy), **asked)
    for pick in picks:
        yield user_id, pick.rank, pick.item_id, pick.score, pick.chance
