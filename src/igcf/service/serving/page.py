"""What only the page and the dashboard ask for: what would be chosen, where to begin, pictures, figures."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from igcf.arrays import FloatArray
from igcf.errors import ConfigError
from igcf.online import Policy, Session
from igcf.online.evidence import LoggedBelief
from igcf.service.context import ServiceContext
from igcf.service.models import page_responses as answers
from igcf.service.models.requests import PolicyName
from igcf.service.models.responses import NamedItem, ScoredItem
from igcf.service.serving.catalogue import model_info, new_item_state
from igcf.service.serving.experiment_changes import experiment_states
from igcf.service.serving.recommending import pick_items, resolve_policy
from igcf.service.serving.served_model import ServedModel
from igcf.service.serving.taste import groups_of, taste_of
from igcf.service.serving.users import UsersInMemory
from igcf.service.store import figures
from igcf.service.store.decisions import announcements

MOST_IN_REGION = 4_000  # items of a region that the page may draw: as many as its whole map


def choices(
    context: ServiceContext,
    user_id: str,
    *,
    k: int,
    policy: PolicyName | None,
    nu: float | None,
    item: str | None,
    values: Sequence[float | None],
) -> answers.Choices:
    """Answer `GET /page/users/{user}/choices`."""
    place = context.place(user_id)
    served = place.served
    used, chooser = resolve_policy(context.settings, place.policy, place.explore, policy, nu)
    outcomes: list[answers.Outcome] = []
    with context.users.open(served, user_id) as user:
        if item is not None:
            served.model.item_row(item)
        for value in [None] if item is None else values:
            after = _copied(served, user.session)
            if item is not None:
                after.observe(item, value)
            outcomes.append(answers.Outcome(value=value, items=_chosen(served, after, chooser, k, user.aside)))
        revision = user.revision
    return answers.Choices(
        user=user_id, model=served.model_id, revision=revision, policy=used, item=item, outcomes=outcomes
    )


def beliefs(users: UsersInMemory, served: ServedModel, user_id: str, *, top: int, popular: int) -> answers.Beliefs:
    """Answer `GET /page/users/{user}/beliefs`."""
    with users.open(served, user_id) as user:
        revision, belief, chances = user.revision, user.session.belief, user.session.chances()
        means, stds = user.session.moments()
        reactions = dict([*user.session.logged, *user.session.history])
    ids, available, threshold = served.model.item_ids, served.available(), served.model.reward.threshold
    rows_hit = [
        (served.model.item_row(item_id), value is not None and value >= threshold)
        for item_id, value in reactions.items()
    ]
    order = np.argsort(-means, kind="stable")
    if available is not None:  # what cannot be shown is not put before anybody
        order = order[available[order]]
    unseen = [row for row in order[: top + len(reactions)].tolist() if ids[row] not in reactions]
    scores = {"mean": means, "std": stds, **chances._asdict()}

    def believed(row: int) -> dict[str, Any]:
        return served.named(row) | {name: float(each[row]) for name, each in scores.items()}

    return answers.Beliefs(
        user=user_id,
        model=served.model_id,
        revision=revision,
        top=[ScoredItem(**believed(row)) for row in unseen[:top]],
        popular=[ScoredItem(**believed(row)) for row in served.popular_rows[:popular].tolist()],
        taste=taste_of(served.model, belief, rows_hit),
    )


def regions(served: ServedModel) -> answers.Regions:
    """Answer `GET /page/regions`."""
    groups, ids = groups_of(served.model), served.model.item_ids
    found = zip(groups.names, groups.rows, strict=True) if groups.kind == "items" else ()
    return answers.Regions(
        model=served.model_id,
        regions=[
            answers.Region(name=name, items=[ids[row] for row in rows[:MOST_IN_REGION].tolist()])
            for name, rows in found
        ],
    )


def starting_items(context: ServiceContext, k: int) -> answers.StartingItems:
    """Answer `GET /page/start`."""
    served = context.current_model.served
    items = [NamedItem(**served.named(row)) for row in starting_rows(served, k)]
    return answers.StartingItems(model=served.model_id, items=items)


def _copied(served: ServedModel, session: Session) -> Session:
    """A session of its own that believes the same, for what has not happened."""
    known, rng = LoggedBelief(session.belief, session.offset), np.random.default_rng()
    copied = served.recommender.session(
        session.history, logged=session.logged, belief=known, rng=rng, attributes=session.attributes
    )
    copied.contributes = False
    return copied


def _chosen(
    served: ServedModel, session: Session, policy: Policy, k: int, aside: Sequence[str]
) -> list[answers.Choice]:
    """The best items that are left; fewer than `k` at the end of the catalogue."""
    picks = pick_items(session, k, fewer=True, exclude=aside, policy=policy)
    return [
        answers.Choice(
            **served.named(served.model.item_row(pick.item_id)),
            **pick._asdict(),
            reason="please" if pick.mean_rank <= max(1, pick.rank) else "learn",
        )
        for pick in picks
    ]


POPULAR_SHARE = 0.25
FEWEST_POPULAR, MOST_POPULAR = 60, 400
LONGEST = 48


def starting_rows(served: ServedModel, k: int) -> list[int]:
    """Choose `k` rows, at most `LONGEST`: the first ones of an order that is computed once."""
    found, available = served.catalogue.computed("starting rows", lambda: _spread(served)), served.available()
    return [row for row in found if available is None or available[row]][:k]


def _spread(served: ServedModel) -> list[int]:
    """Order some popular items so that each is the most informative one given those before it.

    Scores of the popular items are Gaussian over the population; a pivoted Cholesky decomposition finds the largest
    variance given the items before. No first category repeats until all others have had a turn.
    """
    model = served.model
    n_popular = min(model.n_items, max(FEWEST_POPULAR, min(MOST_POPULAR, int(POPULAR_SHARE * model.n_items))))
    rows = served.popular_rows[:n_popular]
    vectors = model.item_vectors[rows].astype(np.float64)
    cov: FloatArray = vectors @ model.prior_cov @ vectors.T
    left = np.diag(cov).copy()
    firsts = [next(iter(served.named(row)["categories"]), "") for row in rows.tolist()]
    turns = dict.fromkeys(firsts, 0)
    chosen: list[int] = []
    factors = np.zeros((n_popular, min(LONGEST, n_popular)))
    for step in range(factors.shape[1]):
        still_open = [place for place in range(n_popular) if place not in chosen]
        fewest = min(turns[firsts[place]] for place in still_open)
        best = max((place for place in still_open if turns[firsts[place]] == fewest), key=left.__getitem__)
        chosen.append(best)
        turns[firsts[best]] += 1
        if left[best] > 1e-12:
            factors[:, step] = (cov[:, best] - factors[:, :step] @ factors[best, :step]) / np.sqrt(left[best])
            left = np.maximum(left - factors[:, step] ** 2, 0.0)
    return [int(rows[place]) for place in chosen]


TYPES = {f".{name}": f"image/{name}" for name in ("avif", "gif", "jpeg", "png", "webp")} | {".jpg": "image/jpeg"}
"""Content types by the ending of a file; others are not shown, SVG among them, because it may hold scripts."""
LARGEST = 5_000_000  # bytes of a picture; a larger one is not shown


class Picture(NamedTuple):
    """The content of a file, and what it is."""

    content: bytes
    media_type: str
    mark: str  # changes when the file does


class Pictures:
    """The folder of pictures; nothing outside of it is ever read, whatever an item names."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder).resolve()
        if not self.folder.is_dir():
            raise ConfigError(f"images names {folder}, which is not a folder; expected the folder of the pictures")

    def read(self, name: str | None) -> Picture | None:
        """Read the picture of that name, a path within the folder; None if it may not be shown or does not exist."""
        if not name:
            return None
        try:
            path = (self.folder / name).resolve()  # links are followed first, so that none leads outside
            if not path.is_relative_to(self.folder) or path.suffix.lower() not in TYPES or not path.is_file():
                return None
            with path.open("rb") as file:
                content = file.read(LARGEST + 1)
            mark = f'"{path.stat().st_mtime_ns:x}-{len(content):x}"'
        except (OSError, ValueError):  # not to be read, too long, or with a zero byte
            return None
        return None if len(content) > LARGEST else Picture(content, TYPES[path.suffix.lower()], mark)


LISTED = 8  # rows of the dashboard's tables


def statistics(context: ServiceContext) -> answers.Stats:
    """Answer `GET /page/stats`."""
    served, database = context.current_model.served, context.store.database
    threshold = served.model.reward.threshold
    return answers.Stats(
        model=model_info(context.current_model, context.settings),
        experiment=next((each for each in experiment_states(database)[:1] if each.state != "ended"), None),
        generations=[answers.Generation(**each._asdict()) for each in announcements(database, LISTED)],
        catalogue_changes=[
            answers.CatalogueChange(
                item=item_id,
                title=served.title_of(item_id),
                state="retired" if retired else "changed" if updated > added + 1.0 else "new",
                time=updated,
                reactions=reactions,
                hits=hits,
                new=None if (row := served.model.known_row(item_id)) is None else new_item_state(served, row),
            )
            for item_id, retired, added, updated, reactions, hits in figures.latest_changes(database, threshold, LISTED)
        ],
        store=answers.StoreHealth(kind="postgresql" if database.is_postgres else "sqlite", **figures.sizes(database)),
    )
