"""Who won an experiment, by how much, and whether it is more than chance."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from igcf.lab.evaluate import known_users
from igcf.lab.evaluate.protocols import primary_metric
from igcf.lab.evaluate.results import Results, user_scores
from igcf.lab.evaluate.significance import compare, corrected
from igcf.tables import short_number

SIGNIFICANT = 0.05


@dataclass(frozen=True)
class Verdict:
    """The best method of an experiment beside the second best, at the last round of the first session."""

    winner: str
    score: float
    """Mean over users of what the methods are compared by."""
    unit: str
    """What the score counts, in words."""
    n_users: int
    runner_up: str | None = None
    difference: float = 0.0
    p_value: float = 1.0
    """P value of the paired test of both, after Holm's correction over the winner's tests against all others."""

    @property
    def is_more_than_chance(self) -> bool:
        """Whether the winner's lead is significant."""
        return self.p_value < SIGNIFICANT

    @property
    def is_level(self) -> bool:
        """Whether the two best methods have the same score."""
        return self.runner_up is not None and abs(self.difference) < 1e-9  # sums of the same numbers in another order

    @property
    def sentence(self) -> str:
        """One line for people."""
        if self.runner_up is None:
            return f"{self.winner}: {short_number(self.score)} {self.unit}; there is no other method to compare with"
        if self.is_level:
            return (
                f"{self.winner} and {self.runner_up} are level: {short_number(self.score)} {self.unit} "
                f"(a mean over {self.n_users} users)"
            )
        share = f" ({self.difference / (self.score - self.difference):+.1%})" if self.score > self.difference else ""
        chance = "is more than chance" if self.is_more_than_chance else "may be chance"
        return (
            f"{self.winner} won: {short_number(self.score)} {self.unit}, {self.difference:.2g} more than "
            f"{self.runner_up}{share}"
            f"; this {chance} (p = {self.p_value:.2g}, paired test over {self.n_users} users)"
        )

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {**vars(self), "more_than_chance": self.is_more_than_chance, "sentence": self.sentence}


def verdict(results: Results) -> Verdict:
    """Compare the best method with all others, user by user."""
    session = results.sessions[0]
    curve, t = primary_metric(session), session.rounds
    what = "satisfied items" if curve == "precision" else f"cumulative nDCG with lists of {session.slate}"
    unit = f"{what} in {session.rounds} round{'s' if session.rounds > 1 else ''}"
    if results.setup.protocol == "known-users":
        curve, largest = known_users.COMPARED[0]
        t = min(largest, session.slate)
        unit = f"{curve}@{t}"
    rows = {method: results.rows_of(method, session) for method in results.methods}
    scores = {method: user_scores(own, curve, t) for method, own in rows.items()}
    means = {method: float(np.mean(list(each.values()))) for method, each in scores.items()}
    ranked = sorted(means, key=lambda method: -means[method])
    winner = ranked[0]
    found = []
    for other in ranked[1:]:
        users = sorted(scores[winner].keys() & scores[other].keys())
        ours, theirs = (np.array([scores[method][user] for user in users]) for method in (winner, other))
        found.append(compare(winner, other, curve, ours, theirs))
    if not found:
        return Verdict(winner, means[winner], unit, len(scores[winner]))
    first = corrected(found)[0]
    return Verdict(
        winner, means[winner], unit, len(scores[winner]), first.reference, first.difference, first.p_corrected
    )
