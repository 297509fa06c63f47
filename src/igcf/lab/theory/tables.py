"""Document of `run_theory` as Markdown tables, for the terminal and for docs/theory.md."""

from collections.abc import Iterable, Sequence
from typing import Any

from igcf.tables import markdown_table

Document = dict[str, Any]


def as_text(document: Document) -> str:
    """Write all tables, one after the other."""
    parts = (coverage_table, nu_table, policy_table, bound_lines, prior_table, growth_table, meta_prior_table)
    return "\n\n".join([conclusion(document), *(part(document) for part in parts)])


def conclusion(document: Document) -> str:
    """Say in a sentence which of the guarantees hold in the simulation, and how much they say."""
    rows = document["coverage"]["rows"]
    broken = sum(row["information"]["low"] > row["delta"] for row in rows)
    worst = max(row["information"]["rate"] / row["delta"] for row in rows)
    bound, meta = document["policies"]["bound"], document["policies"]["bound"]["meta"]
    measured = next(row for row in document["policies"]["rows"] if row["policy"] == "ucb-theorem" and row["repeats"])
    factor = bound["correct_prior"] / measured["regret"]["mean"]
    first = (
        f"The confidence bound holds in all {len(rows)} settings (at most {worst:.2g} times the failures allowed)"
        if not broken
        else f"The confidence bound fails more often than allowed in {broken} of {len(rows)} settings"
    )
    second = f"the regret bound with the correct prior is {factor:.0f} times the measured regret"
    third = "says nothing (VACUOUS)" if meta["vacuous"] else "is informative"
    return f"{first}; {second}; the bound for a prior that was estimated from users {third}."


def coverage_table(document: Document) -> str:
    """Write failure rates beside delta."""
    part = document["coverage"]
    rows = [("correct", row) for row in part["rows"]] + [("10x too narrow", row) for row in part["narrow_prior"]]
    return _table(
        "Confidence bound (thm:ucb): share of users with any item outside its interval [95 % interval]",
        ("prior", "d", "N", "reactions", "delta", "theorem", "Gaussian union", "ellipsoid", "nu_t", "nu needed"),
        (
            (
                prior,
                row["dim"],
                row["n_items"],
                row["seen"],
                f"{row['delta']:g}",
                *(_rate(row[bound]) for bound in ("information", "union", "ellipsoid")),
                f"{row['nu_theorem']:.2f}",
                f"{row['nu_needed']:.2f}",
            )
            for prior, row in rows
        ),
    )


def nu_table(document: Document) -> str:
    """Write regret against nu."""
    part = document["nu"]
    title = (
        f"nu in practice: regret after {part['rounds']} rounds. The theorem asks for {part['theorem_first_round']:.2f} "
        f"in the first round, {part['theorem_late']:.2f} at the end; ellipsoid {part['ellipsoid']:.2f}"
    )
    rows = ((f"{row['nu']:g}", _mean(row["again"]), _mean(row["once"])) for row in part["regret"])
    return _table(title, ("nu", "items may come again", "each item once"), rows)


def policy_table(document: Document) -> str:
    """Write regret and exponents with the correct prior."""
    part = document["policies"]
    return _table(
        f"Regret after {part['rounds'][-1]} rounds with the correct prior; information at most "
        f"{part['max_information']:.1f} nats",
        ("candidates", "policy", "regret", "exponent in T", "information", "tau (median)", "tau reached"),
        (
            (
                "all" if row["repeats"] else "not yet shown",
                row["policy"],
                _mean(row["regret"]),
                f"{row['exponent']['value']:.2f} [{row['exponent']['low']:.2f}, {row['exponent']['high']:.2f}]",
                f"{row['information']:.1f}",
                f"{row['tau_median']:g}" if row["tau_median"] <= part["rounds"][-1] else f"> {part['rounds'][-1]}",
                f"{row['tau_reached']:.1%}",
            )
            for row in part["rows"]
        ),
    )


def bound_lines(document: Document) -> str:
    """Write the regret bounds, and whether they say anything."""
    bound = document["policies"]["bound"]
    meta, event = bound["meta"], bound["good_event"]
    measured = next(row for row in document["policies"]["rows"] if row["policy"] == "ucb-theorem" and row["repeats"])
    factor = bound["correct_prior"] / measured["regret"]["mean"]
    needed = "more than 1e300" if meta["users_needed"] is None else f"{meta['users_needed']:.2g}"
    state = "VACUOUS" if bound["vacuous"] else f"informative from T = {bound['informative_from']} on"
    return "\n".join(
        (
            f"Bound for UCB with the correct prior at T = {bound['rounds']}: {bound['correct_prior']:.0f} (as printed, "
            f"without a^2: {bound['printed']:.0f}; trivial: {bound['trivial']:.0f}); {state}; measured regret "
            f"{measured['regret']['mean']:.1f}, {factor:.0f} times less.",
            f"Bound for a prior from M = {meta['n_meta']} users: {meta['total']:.2g}, "
            + ("VACUOUS" if meta["vacuous"] else "informative")
            + f"; k_1 = {meta['k_1']:.2g}; it asks for M >= c_delta = {meta['c_delta']:.2g}, first satisfied at M = "
            f"{needed}.",
            f"Good event at that M: gamma = {event['gamma']:.2f}, c_1 = {event['c_1']:.1f}, c_2 = {event['c_2']:.3g}; "
            f"its own condition asks for M >= {event['least_users']:.0f}, "
            + ("satisfied." if event["holds"] else "NOT satisfied."),
        )
    )


def prior_table(document: Document) -> str:
    """Write the regret of all policies under several priors."""
    part = document["priors"]
    priors = list(dict.fromkeys(row["prior"] for row in part["rows"]))
    names = list(dict.fromkeys(row["policy"] for row in part["rows"]))
    regret = {(row["prior"], row["policy"]): _mean(row["regret"]) for row in part["rows"]}
    rows = ((prior, *(regret[prior, name] for name in names)) for prior in priors)
    return _table(f"Regret after {part['rounds']} rounds, {part['n_items']} items", ("prior", *names), rows)


def growth_table(document: Document) -> str:
    """Write the regret beyond that of the correct prior, against M."""
    part = document["priors"]
    kinds = list(dict.fromkeys((row["policy"], row["widening"]) for row in part["growth"]))
    excess = {(row["n_meta"], row["policy"], row["widening"]): _mean(row["excess"]) for row in part["growth"]}
    sizes = sorted({row["n_meta"] for row in part["growth"]})
    return _table(
        f"Regret after {part['rounds']} rounds with the prior from M users, minus that with the correct prior",
        ("M", *(f"{policy}, gamma: {widening}" for policy, widening in kinds)),
        ((size, *(excess[size, policy, widening] for policy, widening in kinds)) for size in sizes),
    )


def meta_prior_table(document: Document) -> str:
    """Write the errors of the estimated prior against M."""
    part = document["meta_prior"]
    title = (
        f"Estimated prior: |mean error| ~ M^{part['mean_exponent']:.2f}, |covariance error| ~ "
        f"M^{part['cov_exponent']:.2f} (lemma: -0.5 both); posterior means after {part['n_ratings']} ratings each"
    )
    return _table(
        title,
        ("M", "mean", "bound", "covariance", "bound", "condition", "failures", "posterior means", "repaired"),
        (
            (
                exact["n_meta"],
                f"{exact['mean_error']:.3f}",
                f"{exact['mean_bound']:.3f}",
                f"{exact['cov_error']:.3f}",
                f"{exact['cov_bound']:.1f}",
                "holds" if exact["condition_holds"] else "fails",
                f"{exact['failures']} of {exact['repeats']}",
                f"{shrunken['cov_error']:.3f}",
                f"{shrunken['repaired_error']:.3f}",
            )
            for exact, shrunken in zip(part["exact"], part["shrunken"], strict=True)
        ),
    )


def _rate(rate: dict[str, float]) -> str:
    return f"{rate['rate']:.4f} [{rate['low']:.4f}, {rate['high']:.4f}]"


def _mean(value: dict[str, float]) -> str:
    return f"{value['mean']:.1f} ± {value['se']:.1f}"


def _table(title: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    return f"{title}\n\n{markdown_table(header, rows)}"
