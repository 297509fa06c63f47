"""What the gate before a new model found, as a verdict, a sentence, a table and a page."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from igcf.pages import html_table, report_page, section
from igcf.tables import Table

Verdict = Literal["better", "level", "worse"]


@dataclass(frozen=True)
class Check:
    """One comparison of the candidate with the model in service."""

    name: str
    candidate: float | None
    current: float | None
    verdict: Verdict
    low: float | None = None
    """Lower end of the 95 % interval of the relative gain; None where nothing is sampled."""
    high: float | None = None

    @property
    def gain(self) -> str:
        """The relative gain with its interval, in words; empty where nothing is sampled."""
        if self.low is None or self.high is None:
            return ""
        return f"{(self.low + self.high) / 2:+.1%}, 95 % interval {self.low:+.1%} to {self.high:+.1%}"

    def __str__(self) -> str:
        told = f"{self.name} {_number(self.candidate)}, in service {_number(self.current)}"
        return f"{told} ({self.gain})" if self.gain else told


@dataclass(frozen=True)
class Judgement:
    """What the gate found."""

    verdict: Verdict
    users: int
    """Users who were judged on."""
    reactions: int
    """Their reactions that neither model has seen."""
    checks: tuple[Check, ...]

    @property
    def sentence(self) -> str:
        """The verdict with its main reason."""
        reasons = [check for check in self.checks if check.verdict == self.verdict]
        if self.verdict == "level":
            reasons = [check for check in self.checks if check.low is not None]
        compared = "level with" if self.verdict == "level" else f"{self.verdict} than"
        told = "; ".join(map(str, reasons))
        return f"{compared} the model in service: {told}; judged on {self.users:,} users whom neither has seen"

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for `meta.json`."""
        return asdict(self) | {"checks": [asdict(check) for check in self.checks], "sentence": self.sentence}

    def table(self) -> Table:
        """Return the evidence, one check per row."""
        rows = [
            (each.name, _number(each.candidate), _number(each.current), each.gain or "-", each.verdict)
            for each in self.checks
        ]
        return Table("Evidence", ("check", "candidate", "in service", "relative gain", "verdict"), tuple(rows))

    def page(self, name: str) -> str:
        """Write the report."""
        note = "Relative gains are positive where the candidate is better, with their 95 % interval over users."
        intro = f"{self.reactions:,} reactions of {self.users:,} users that neither model has seen."
        return report_page(
            f"Gate: {name}", f"{name}: {self.sentence}", intro, [section("Evidence", html_table(self.table()), note)]
        )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.4g}"
