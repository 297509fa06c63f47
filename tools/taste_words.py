"""How often the sentences about a visitor's taste are right: `python -m tools.taste_words [--without-categories]`.

Worlds are invented (`igcf.data.synthetic`), a model is trained on the log of each, and visitors with a known taste
meet it: some love two or three categories and nothing else, others have the mixed tastes of the world's own users. A
named category is right where the visitor's true satisfaction with its items lies above (below, for what is liked less)
their satisfaction with the whole catalogue. Without categories, "closer to A than to B" is right where the items of A
satisfy the visitor more than those of B.
"""

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from igcf.arrays import FloatArray
from igcf.data.synthetic import GENRES, SyntheticWorld, _satisfaction, _stars, synthetic_world
from igcf.model import Model
from igcf.online import Recommender
from igcf.service.models.page_responses import Taste
from igcf.service.serving.taste import groups_of, taste_of

ROUNDS = 15
SATISFIED = 4.0


@dataclass
class Score:
    """How the sentences of some visitors fared."""

    visitors: int = 0
    spoken: int = 0
    right: int = 0
    """Visitors about whom everything that was said is right."""
    named: int = 0
    named_right: int = 0

    def add(self, taste: Taste, truth: dict[str, float]) -> None:
        """Count one visitor; `truth` is how much more than the catalogue each group satisfies them."""
        signs = {"liked": 1.0, "less": -1.0}
        right = [truth[each.name] * signs[each.standing] > 0 for each in taste.groups if each.standing in signs]
        compared = re.fullmatch(r"You \w+ closer to (.+) than to (.+)\.", taste.sentence)
        if compared and taste.kind == "items":
            right = [truth[compared[1]] > truth[compared[2]]]
        self.visitors += 1
        self.spoken += bool(taste.sentence)
        self.right += bool(right) and all(right)
        self.named += len(right)
        self.named_right += sum(right)

    def __str__(self) -> str:
        """One line with the figures."""
        return (
            f"{self.spoken} of {self.visitors} visitors see a statement; every statement is right for "
            f"{self.right} ({self.right / max(self.spoken, 1):.1%}); "
            f"of {self.named} named groups {self.named_right / max(self.named, 1):.1%} are right"
        )


def tastes_of(kind: str, n: int, *, rng: np.random.Generator) -> FloatArray:
    """Draw tastes over the genres, shape (n, genres): `two`, `three` or `mixed`."""
    if kind == "mixed":
        return rng.dirichlet(np.full(len(GENRES), 0.25), size=n)
    loved = {"two": 2, "three": 3}[kind]
    tastes = np.zeros((n, len(GENRES)))
    for row in tastes:
        row[rng.choice(len(GENRES), loved, replace=False)] = 1.0 / loved
    return tastes


def score_visitors(
    model: Model, world: SyntheticWorld, tastes: FloatArray, *, rounds: int = ROUNDS, rng: np.random.Generator
) -> Score:
    """Let visitors of these tastes meet a model, and score what is said about them after some rounds."""
    recommender, score = Recommender(model), Score()
    groups = groups_of(model)
    for taste in tastes:
        satisfaction = _satisfaction(taste[None], world.item_tastes, world.item_quality)
        stars = _stars(satisfaction, rng.random(satisfaction.shape))[0]
        session = recommender.session()
        reactions: list[tuple[int, bool]] = []
        for _ in range(rounds):
            item_id = session.recommend(1)[0].item_id
            row = model.item_row(item_id)
            session.observe(item_id, float(stars[row]))
            reactions.append((row, bool(stars[row] >= SATISFIED)))
        own = satisfaction[0]
        truth = {
            name: float(own[rows].mean() - own.mean()) for name, rows in zip(groups.names, groups.rows, strict=True)
        }
        score.add(taste_of(model, session.belief, reactions), truth)
    return score


def main(seeds: Sequence[int], *, with_categories: bool) -> None:
    """Train on each world and print the figures of all together."""
    from igcf.training.pretraining import pretrain

    scores = {kind: Score() for kind in ("two", "three", "mixed")}
    for seed in seeds:
        world = synthetic_world(seed=seed)
        log = world.log if with_categories else replace(world.log, categories=None)
        model = pretrain(log, seed=0)
        for kind, total in scores.items():
            rng = np.random.default_rng([seed, len(kind)])
            found = score_visitors(model, world, tastes_of(kind, 60, rng=rng), rng=rng)
            for name, value in vars(found).items():
                setattr(total, name, getattr(total, name) + value)
    for kind, total in scores.items():
        print(f"{kind}: {total}")


if __name__ == "__main__":
    chosen = [int(seed) for seed in sys.argv[1:] if seed.isdigit()] or [201, 202, 203, 204, 205]
    main(chosen, with_categories="--without-categories" not in sys.argv)
