"""The protocol `new-items`: items that are not in the training log are learned from users who come one after another.

A share of the items is hidden from training, by lot or the newest. Users outside of training arrive in order of time,
in stretches of users who are met at the same time; what they react to new items is learned at once and by all. Test
users are then met with the items as they were known after the first n reactions to each (docs/protocols.md).
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np

from igcf.arrays import BoolArray, IntArray
from igcf.data import Interactions
from igcf.data.splits import Split
from igcf.errors import ConfigError
from igcf.lab.baselines.simple import RankedItems
from igcf.lab.evaluate.hidden_items import Part, arriving_users, data_item, hidden_items, without_items
from igcf.lab.evaluate.live import STRETCH, LiveLearner, NewItemsRow, Stretch, learned, played
from igcf.lab.evaluate.protocols import Setup, cold_users, setup_for
from igcf.model import Model
from igcf.model.content import ContentPrior
from igcf.model.features import Features
from igcf.online import Exposure, Greedy, ModelLearner, NewItems
from igcf.tables import Table
from igcf.training import pretrain

REACTIONS = (0, 5, 20, 50)
"""Numbers of reactions to each new item after which test users are met."""
PSEUDO_USERS = 10.0
"""Users that the mean success rate of all items stands for, in the popularity of a new item."""


@dataclass(frozen=True)
class NewItemsSetup:
    """An experiment of this protocol: plain values only."""

    cold: Setup
    """The users, rounds and successes, as of cold start."""
    share: float = 0.2
    """Share of the items that are hidden from training."""
    part: Part = "lot"
    exposure: Exposure = field(default_factory=Exposure)

    @property
    def given(self) -> Exposure:
        """How items are tried until each has had as many reactions as are looked at: in turn, whatever that costs."""
        return replace(self.exposure, price=1.0, doubt=0.0, turn=1.0, most=REACTIONS[-1])


@dataclass(frozen=True, eq=False)
class NewItemsResults:
    """All methods on the same test users, and the users before them."""

    setup: NewItemsSetup
    seed: int
    n_items: int
    n_new: int
    rows: tuple[NewItemsRow, ...]
    stretches: tuple[Stretch, ...]
    """While trials must be paid for."""
    given: tuple[Stretch, ...]
    """While every item is tried in turn."""
    n_reactions: IntArray
    """Number of reactions that each new item has had in the end, (2, new items): paid for, in turn."""
    seconds: float
    command: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "protocol": "new-items",
            "command": self.command,
            **asdict(self.setup),
            "seed": self.seed,
            "items": self.n_items,
            "new_items": self.n_new,
            "rows": [row.as_dict() for row in self.rows],
            "stretches": [{**vars(each), "price": each.price} for each in self.stretches],
            "given": [{**vars(each), "price": each.price} for each in self.given],
            "reactions": self.n_reactions.tolist(),
            "seconds": self.seconds,
        }


def new_items_setup(  # noqa: PLR0913  (each may change one choice of the protocol)
    data: Interactions,
    *,
    satisfied: float | None = None,
    rounds: int | None = None,
    split: Split | None = None,
    n_users: int | None = None,
    share: float = 0.2,
    part: Part = "lot",
    price: float = 0.01,
) -> NewItemsSetup:
    """Return the experiment on this log; users are asked to try something in the second half of their rounds."""
    if part == "newest" and data.timestamps is None:
        raise ConfigError(f"{data.name} has no timestamps; the newest items need them, draw items by lot")
    cold = setup_for(data, "cold-start", rounds=rounds, satisfied=satisfied, split=split, n_users=n_users)
    most = data.n_users // 8
    cold = replace(cold, n_users=min(cold.n_users, most), n_validation=min(cold.n_validation, most))
    return NewItemsSetup(cold, share, part, Exposure(price=price, known=cold.sessions[0].rounds // 2))


def new_items(
    data: Interactions,
    setup: NewItemsSetup,
    *,
    seed: int = 0,
    users: Literal["test", "validation"] = "test",
    step: Callable[[str], None] = lambda stage: None,
    command: str = "",
) -> NewItemsResults:
    """Run the experiment; `users` says whether the test users are met or, to choose settings, the validation users."""
    begun = time.perf_counter()
    cold, split = setup.cold, cold_users(data, setup.cold, seed)
    is_new = hidden_items(data, setup.share, setup.part, seed, is_validation=users == "validation")
    order = np.concatenate([np.flatnonzero(~is_new), np.flatnonzero(is_new)])
    n_old, met = int((~is_new).sum()), split.test if users == "test" else split.validation
    truth, stream = met.dense()[:, order], arriving_users(data, split).dense()[:, order]
    settings: dict[str, Any] = {
        "satisfied": cold.satisfied,
        "calibrated": False,
        "neighbours": False,
        "progress": False,
    }
    step("frozen")
    base = pretrain(
        without_items(split.train, is_new), validation=without_items(split.validation, is_new), seed=seed, **settings
    )
    everything = [data_item(data, int(row)) for row in np.flatnonzero(is_new)]
    rows = [played("frozen", None, ModelLearner(base, Greedy()), truth[:, :n_old], cold, n_old)]
    step("igcf")
    items = NewItems(base.with_items(everything), setup.exposure)
    blind = NewItems(_without_content(base).with_items(everything), setup.exposure)
    stretches = learned(base, LiveLearner(items, is_learning=True, watchers=[blind]), stream, cold, n_old)
    step("in turn")
    given = NewItems(base.with_items(everything), setup.given)
    in_turn = learned(base, LiveLearner(given, is_learning=True), stream, cold, n_old)
    step("others")
    rows.append(played("pop", REACTIONS[-1], _popularity(split.train, items, is_new, cold), truth, cold, n_old))
    for name, own, numbers in (
        ("no-content", blind, REACTIONS[3:]),
        ("content", items, REACTIONS[:1]),
        ("igcf", items, REACTIONS[1:]),
        ("igcf-in-turn", given, REACTIONS[1:]),
    ):
        rows += [played(name, n, LiveLearner(own.limited(n), is_learning=False), truth, cold, n_old) for n in numbers]
    step("ceiling")
    ceiling = pretrain(split.train, validation=split.validation, seed=seed, **settings)
    found = played("ceiling", None, ModelLearner(ceiling, Greedy()), met.dense(), cold, is_new)
    return NewItemsResults(
        setup,
        seed,
        data.n_items,
        len(everything),
        (*rows, found),
        tuple(stretches),
        tuple(in_turn),
        np.stack([items.n_reactions, given.n_reactions]),
        time.perf_counter() - begun,
        command,
    )


def _popularity(train: Interactions, items: NewItems, is_new: BoolArray, cold: Setup) -> RankedItems:
    """Success rate so far: of the training users and, for a new item, of the reactions to it, begun at the mean."""
    n_users = max(len(np.unique(train.user_idx)), 1)
    happy = train.item_idx[train.values >= cold.satisfied]
    rates = np.bincount(happy, minlength=train.n_items)[~is_new] / n_users
    own = []
    for row in items.rows.tolist():
        rewards = [float(told.rewards[0]) for told in items.told(row).values()][: REACTIONS[-1]]
        own.append((rates.mean() * PSEUDO_USERS + np.nansum(rewards)) / (PSEUDO_USERS + len(rewards)))
    return RankedItems(np.concatenate([rates, own]))


def _without_content(model: Model) -> Model:
    """The model with a content prior that knows no feature: new items are like the others."""
    content = model.content
    assert content is not None  # noqa: S101
    items = [model.catalogue.item(row) for row in range(model.n_items)]
    mean = np.concatenate([[1.0], content.features.of(items).mean(axis=0)])
    other = model.used_as(model.usage)
    other.content = ContentPrior(
        Features(),
        mean[None] @ content.shares,
        content.least_share,
        tuple(np.einsum("f,kfw->kw", mean, each)[:, None].astype(np.float32) for each in content.coefficients),
        content.covs,
        content.noise,
        content.temperature,
    )
    return other


def new_items_tables(results: NewItemsResults) -> list[Table]:
    """Build the table of the methods and those of the stretches."""
    ceiling = results.rows[-1]
    frozen = results.rows[0]
    gap = max(float(ceiling.all_items.mean() - frozen.all_items.mean()), 1e-9)
    lines = tuple(
        (
            row.method,
            "" if row.reactions is None else str(row.reactions),
            f"{row.all_items.mean():.2f}",
            f"{row.new_items.mean():.2f}",
            f"{(row.all_items.mean() - frozen.all_items.mean()) / gap:.0%}",
            f"{row.new_items.mean() / max(ceiling.new_items.mean(), 1e-9):.0%}",
        )
        for row in results.rows
    )
    cold = results.setup.cold
    title = (
        f"{cold.dataset}, new items: {results.n_new} of {results.n_items} items, "
        f"{len(ceiling.all_items)} users, {cold.sessions[0].rounds} rounds"
    )
    header = ("method", "reactions", "all", "new", "gap closed", "new / ceiling")
    paid, in_turn = results.n_reactions
    return [
        Table(title, header, lines),
        _stretches(f"while trials are paid for: {_reached(paid)}", results.stretches),
        _stretches(f"while every new item is tried in turn: {_reached(in_turn)}", results.given),
    ]


def _reached(n_reactions: IntArray) -> str:
    """How many of the items have had some numbers of reactions."""
    return ", ".join(f"{float((n_reactions >= n).mean()):.0%} had {n} reactions" for n in REACTIONS[1:])


def _stretches(title: str, stretches: Sequence[Stretch]) -> Table:
    columns = ("users", "frozen", "learning", "on new", "trials", "reactions per item", "change")
    lines = tuple(
        (
            str(number * STRETCH + each.n_users),
            str(each.frozen),
            str(each.learning),
            str(each.on_new),
            str(each.trials),
            f"{each.reactions:.1f}",
            f"{-each.price:+.1%}",
        )
        for number, each in enumerate(stretches)
    )
    return Table(title, columns, lines)
