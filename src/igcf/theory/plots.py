"""Figures of docs/theory.md."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from igcf.figures import prepare_folder, svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LABELS = {
    "ucb-theorem": "UCB, width of the theorem",
    "ucb-nu-1": "UCB, nu = 1",
    "thompson": "Thompson",
    "greedy": "greedy",
    "random": "random",
}
COLOURS = {"ucb-theorem": "C0", "ucb-nu-1": "C1", "thompson": "C2", "greedy": "C3", "random": "C7"}


def draw_figures(document: dict[str, Any], folder: Path) -> list[Path]:
    """Write one SVG per part of the document into `folder`."""
    prepare_folder(folder)
    paths = {folder / f"theory-{name}.svg": text for name, text in figure_texts(document).items()}
    for path, text in paths.items():
        path.write_text(text, encoding="utf-8")
    return list(paths)


def figure_texts(document: dict[str, Any]) -> dict[str, str]:
    """Draw all figures as SVG, by name."""
    return {name: svg(partial(draw, document=document), 8.5, 3.6) for name, draw in FIGURES.items()}


def draw_coverage(figure: "Figure", document: dict[str, Any]) -> None:
    """Draw failure rates beside delta."""
    rows = [row for row in document["coverage"]["rows"] if row["seen"] == 20]
    sizes = sorted({(row["dim"], row["n_items"]) for row in rows})
    floor = 0.3 / rows[0]["information"]["n"]
    for axes, (dim, n_items) in zip(figure.subplots(1, len(sizes), sharey=True), sizes, strict=True):
        own = sorted((row for row in rows if row["dim"] == dim), key=lambda row: row["delta"])
        deltas = [row["delta"] for row in own]
        axes.plot(deltas, deltas, "k--", lw=1, label="delta")
        for shift, bound in enumerate(("information", "union", "ellipsoid")):
            rates = [row[bound] for row in own]
            values = [max(rate["rate"], floor) for rate in rates]
            below = [max(value - rate["low"], 0.0) for value, rate in zip(values, rates, strict=True)]
            above = [max(rate["high"] - value, 0.0) for value, rate in zip(values, rates, strict=True)]
            places = [delta * 1.08 ** (shift - 1) for delta in deltas]
            axes.errorbar(
                places,
                values,
                [below, above],
                fmt="o",
                ms=4,
                capsize=2,
                label={"information": "theorem"}.get(bound, bound),
            )
        axes.set(xscale="log", yscale="log", ylim=(floor / 2, 1.2), xlabel="delta", title=f"d = {dim}, N = {n_items}")
        axes.set_xticks(deltas, [f"{delta:g}" for delta in deltas])
        axes.set_xticks([], minor=True)
    figure.axes[0].set_ylabel("users with any item outside")
    figure.axes[0].legend(fontsize=7)


def draw_nu(figure: "Figure", document: dict[str, Any]) -> None:
    """Draw regret against nu, with what the bounds ask for."""
    part = document["nu"]
    panels = {"again": "items may come again", "once": "each item once, as in a recommender"}
    for axes, (mode, title) in zip(figure.subplots(1, 2), panels.items(), strict=True):
        nus = [row["nu"] for row in part["regret"]]
        means = [row[mode]["mean"] for row in part["regret"]]
        axes.errorbar(nus, means, [1.96 * row[mode]["se"] for row in part["regret"]], marker="o", ms=4, capsize=2)
        marks = {"theorem_first_round": "theorem, t = 1", "theorem_late": "theorem, t large", "ellipsoid": "ellipsoid"}
        for number, (key, label) in enumerate(marks.items()):
            axes.axvline(part[key], color=f"C{number + 1}", ls="--", lw=1, label=label)
        axes.set(xlabel="nu", ylabel=f"regret after {part['rounds']} rounds", title=title, ylim=(0, None))
    figure.axes[0].legend(fontsize=7)


def draw_regret(figure: "Figure", document: dict[str, Any]) -> None:
    """Draw regret against T with the bound, both ways of choosing candidates."""
    part = document["policies"]
    for axes, repeats in zip(figure.subplots(1, 2, sharey=True), (True, False), strict=True):
        for row in (row for row in part["rows"] if row["repeats"] is repeats):
            label = f"{LABELS[row['policy']]}: T^{row['exponent']['value']:.2f}"
            axes.plot(part["rounds"], row["curve"], color=COLOURS[row["policy"]], label=label)
        axes.plot(part["rounds"], part["bound"]["curve"], "k-", lw=1, label="bound for UCB")
        axes.plot(part["rounds"], part["bound"]["trivial_curve"], "k:", lw=1, label="trivial bound")
        title = "items may come again" if repeats else "each item once"
        axes.set(xscale="log", yscale="log", xlabel="T", title=title)
        axes.legend(fontsize=6)
    figure.axes[0].set_ylabel("Bayesian regret")


def draw_priors(figure: "Figure", document: dict[str, Any]) -> None:
    """Draw regret with estimated priors against M, and with other priors."""
    part = document["priors"]
    left, right = figure.subplots(1, 2)
    for label, name in (("none", "thompson"), ("practice", "thompson"), ("lemma", "thompson"), ("none", "ucb-theorem")):
        rows = [row for row in part["growth"] if row["widening"] == label and row["policy"] == name]
        users = [row["n_meta"] for row in rows]
        errors = [1.96 * row["excess"]["se"] for row in rows]
        text = f"{LABELS[name]}, gamma: {label}"
        left.errorbar(users, [row["excess"]["mean"] for row in rows], errors, marker="o", ms=3, capsize=2, label=text)
    left.axhline(0.0, color="k", lw=1)
    left.set(xscale="log", xlabel="users M behind the prior", ylabel="regret minus that of the correct prior")
    left.set_yscale("symlog", linthresh=5.0)
    left.legend(fontsize=6)
    priors = list(dict.fromkeys(row["prior"] for row in part["rows"]))
    names = list(dict.fromkeys(row["policy"] for row in part["rows"]))
    for number, name in enumerate(names):
        values = [row["regret"]["mean"] for row in part["rows"] if row["policy"] == name]
        places = [place + 0.2 * (number - 1.5) for place in range(len(priors))]
        right.bar(places, values, 0.2, color=COLOURS[name], label=LABELS[name])
    right.set_xticks(range(len(priors)), priors, fontsize=7)
    right.set(ylabel=f"regret after {part['rounds']} rounds", title="priors")
    right.legend(fontsize=6)


def draw_meta_prior(figure: "Figure", document: dict[str, Any]) -> None:
    """Draw errors of the estimated prior against M."""
    part = document["meta_prior"]
    left, right = figure.subplots(1, 2)
    users = [row["n_meta"] for row in part["exact"]]
    _errors(left, part["exact"], "mean", f"measured: M^{part['mean_exponent']:.2f}")
    left.plot(users, [row["mean_expected"] for row in part["exact"]], "k:", lw=1, label="sqrt(trace / M)")
    _errors(right, part["exact"], "cov", f"exact vectors: M^{part['cov_exponent']:.2f}")
    own = [row["n_meta"] for row in part["shrunken"]]
    right.plot(own, [row["cov_error"] for row in part["shrunken"]], "C3.-", label="posterior means")
    right.plot(own, [row["repaired_error"] for row in part["shrunken"]], "C2.-", label="posterior means, repaired")
    left.set(title="error of the mean")
    right.set(title="error of the covariance (operator norm)")
    for axes in (left, right):
        axes.set(xscale="log", yscale="log", xlabel="users M")
        axes.legend(fontsize=6)


def _errors(axes: "Axes", rows: list[dict[str, Any]], which: str, label: str) -> None:
    users = [row["n_meta"] for row in rows]
    axes.plot(users, [row[f"{which}_error"] for row in rows], "C0o-", ms=3, label=label)
    axes.plot(users, [row[f"{which}_worst"] for row in rows], "C0_", label="worst draw")
    axes.plot(users, [row[f"{which}_bound"] for row in rows], "k-", lw=1, label="bound of the lemma")


FIGURES = {
    "coverage": draw_coverage,
    "nu": draw_nu,
    "regret": draw_regret,
    "priors": draw_priors,
    "meta-prior": draw_meta_prior,
}
"""Functions that draw the figures, by file name after `theory-`."""
