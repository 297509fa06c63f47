"""Document of `run_theory` as Markdown tables, for the terminal and for docs/theory.md."""

from collections.abc import Sequence
from typing import Any

from igcf.tables import markdown_table

Document = dict[str, Any]


def as_text(document: Document) -> str:
    """Write all tables."""
    parts = (coverage_table, policy_table, bound_lines, prior_table, meta_prior_table)
    return "\n\n".join([conclusion(document), *(part(document) for part in parts)])


def conclusion(document: Document) -> str:
    """Say in a sentence which of the guarantees hold in the simulation, and how much they say."""
    rows = document["coverage"]["rows"]
    broken = sum(row["information"]["low"] > row["delta"] for row in rows)
    worst = max(row["information"]["rate"] / row["delta"] for row in rows)
    factor = document["policies"]["bound"]["correct_prior"] / _measured(document)
    first = (
        f"The confidence bound holds in all {len(rows)} settings (at most {worst:.2g} times the failures allowed)"
        if not broken
        else f"The confidence bound fails more often than allowed in {broken} of {len(rows)} settings"
    )
    return f"{first}; the regret bound with the correct prior is {factor:.0f} times the measured regret."


def coverage_table(document: Document) -> str:
    """Write failure rates beside delta."""
    part = document["coverage"]
    rows = [("correct", row) for row in part["rows"]] + [("10x too narrow", row) for row in part["narrow_prior"]]
    bounds = {"theorem": "information", "Gaussian union": "union", "ellipsoid": "ellipsoid"}
    cells = [
        (
            *(prior, row["dim"], row["n_items"], row["seen"], f"{row['delta']:g}"),
            *("{rate:.4f} [{low:.4f}, {high:.4f}]".format(**row[key]) for key in bounds.values()),
            *(f"{row[name]:.2f}" for name in ("nu_theorem", "nu_needed")),
        )
        for prior, row in rows
    ]
    title = "Confidence bound (thm:ucb): share of users with any item outside its interval [95 % interval]"
    return _table(title, ("prior", "d", "N", "reactions", "delta", *bounds, "nu_t", "nu needed"), cells)


def policy_table(document: Document) -> str:
    """Write regret and exponents with the correct prior."""
    part = document["policies"]
    last = part["rounds"][-1]
    cells = [
        (
            "all" if row["repeats"] else "not yet shown",
            row["policy"],
            _mean(row["regret"]),
            "{value:.2f} [{low:.2f}, {high:.2f}]".format(**row["exponent"]),
            f"{row['information']:.1f}",
        )
        for row in part["rows"]
    ]
    title = f"Regret after {last} rounds with the correct prior; information at most {part['max_information']:.1f} nats"
    header = ("candidates", "policy", "regret", "exponent in T", "information")
    return _table(title, header, cells)


def bound_lines(document: Document) -> str:
    """Write the regret bound, and whether it says anything."""
    bound, measured = document["policies"]["bound"], _measured(document)
    state = "VACUOUS" if bound["vacuous"] else f"informative from T = {bound['informative_from']} on"
    return (
        f"Bound for UCB with the correct prior at T = {bound['rounds']}: {bound['correct_prior']:.0f} (as printed, "
        f"without a^2: {bound['printed']:.0f}; trivial: {bound['trivial']:.0f}); {state}; measured regret "
        f"{measured:.1f}, {bound['correct_prior'] / measured:.0f} times less."
    )


def prior_table(document: Document) -> str:
    """Write the regret of all policies under several priors."""
    part = document["priors"]
    cells = {(row["prior"], row["policy"]): _mean(row["regret"]) for row in part["rows"]}
    priors, policies = (dict.fromkeys(row[name] for row in part["rows"]) for name in ("prior", "policy"))
    rows = [(prior, *(cells[prior, policy] for policy in policies)) for prior in priors]
    title = f"Regret after {part['rounds']} rounds, {part['n_items']} items"
    return _table(title, ("prior", *policies), rows)


def meta_prior_table(document: Document) -> str:
    """Write the errors of the estimated prior against M."""
    part = document["meta_prior"]
    title = (
        f"Estimated prior: |mean error| ~ M^{part['mean_exponent']:.2f}, |covariance error| ~ "
        f"M^{part['cov_exponent']:.2f} (lemma: -0.5 both)"
    )
    header = ("M", "mean", "bound", "covariance", "bound", "condition", "failures")
    rows = [
        (
            row["n_meta"],
            *(f"{row[name]:.3f}" for name in ("mean_error", "mean_bound", "cov_error")),
            f"{row['cov_bound']:.1f}",
            "holds" if row["condition_holds"] else "fails",
            f"{row['failures']} of {row['repeats']}",
        )
        for row in part["rows"]
    ]
    return _table(title, header, rows)


def _measured(document: Document) -> float:
    """Return the measured regret of the theorem's own policy."""
    rows = document["policies"]["rows"]
    return float(next(row["regret"]["mean"] for row in rows if row["policy"] == "ucb-theorem" and row["repeats"]))


def _mean(value: dict[str, float]) -> str:
    return f"{value['mean']:.1f} ± {value['se']:.1f}"


def _table(title: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    return f"{title}\n\n{markdown_table(header, rows)}"
