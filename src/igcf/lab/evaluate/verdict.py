"""Who won an experiment, by how much; a difference within chance is a tie."""

from dataclasses import dataclass
from typing import Any

from igcf.lab.evaluate.results import Results, ranked
from igcf.lab.evaluate.significance import SIGNIFICANT
from igcf.tables import short_number


@dataclass(frozen=True)
class Verdict:
    """The best method of an experiment beside the second best, at the last round of the first session."""

    best: str
    score: float
    """Mean over users of what the methods are compared by."""
    unit: str
    """What the score counts, in words."""
    n_users: int
    runner_up: str | None = None
    difference: float = 0.0
    p_value: float = 1.0
    """P value of the paired test of both, that of the comparisons of the experiment."""

    @property
    def is_tie(self) -> bool:
        """Whether the difference between the two best methods is within chance."""
        return self.runner_up is not None and self.p_value >= SIGNIFICANT

    @property
    def winner(self) -> str | None:
        """The best method; None where the two best tie or there is only one."""
        return None if self.is_tie or self.runner_up is None else self.best

    @property
    def sentence(self) -> str:
        """One line for people."""
        score = f"{short_number(self.score)} {self.unit}"
        if self.runner_up is None:
            return f"{self.best}: {score}; there is no other method to compare with"
        test = f"p = {self.p_value:.2g}, paired test over {self.n_users} users"
        other = self.score - self.difference
        if self.is_tie:
            scores = f"{short_number(self.score)} and {short_number(other)} {self.unit}"
            return f"{self.best} and {self.runner_up} tie: {scores}, a difference within chance ({test})"
        share = f" ({self.difference / other:+.1%})" if other > 0 else ""
        return f"{self.best} won: {score}, {self.difference:.2g} more than {self.runner_up}{share}; {test}"

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"winner": self.winner, "tie": self.is_tie, **vars(self), "sentence": self.sentence}


def verdict(results: Results) -> Verdict:
    """Compare the two best methods, user by user."""
    session, protocol = results.sessions[0], results.setup.protocol
    curve, t = protocol.target(session)
    means = ranked(results, session)
    best, *others = means
    unit, n_users = protocol.unit(session), len({user for row in results.rows for user in row.outcome.user_ids})
    if not others:
        return Verdict(best, means[best], unit, n_users)
    metric = protocol.metric_name(curve, session, t)
    test = next(
        each
        for each in results.comparisons
        if {each.method, each.reference} == {best, others[0]} and each.metric == metric
    )
    return Verdict(best, means[best], unit, n_users, others[0], abs(test.difference), test.p_value)
