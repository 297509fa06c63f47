"""Fit of the attribute prior: what the training users' attributes say of their vectors, in closed form.

The belief about a training user after their whole record is N(mu, C). With S the population's variance in a principal
direction and s = 1 - C / S the part of it that the record resolved, mu - m0 ~ N(s f'w, s S) under N(m0 + f'w, S) as the
prior. Hence w = (sum s f f' + penalty)^-1 sum f (mu - m0), and its covariance is S times that inverse: users count by
how well their vector is known. Everything follows from sums over users (docs/maths.md, section Who and when).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from igcf.arrays import FloatArray, IntArray
from igcf.data.interactions import Interactions
from igcf.data.users import UserTable
from igcf.encoding import Encoder
from igcf.model import Model
from igcf.model.attribute_prior import AttributePrior, Worth, principal_directions
from igcf.online.evidence import belief_from_logged
from igcf.training.attribute_share import Fit, with_best_share
from igcf.training.experts.executor import in_threads

PENALTIES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1_000.0, 3_000.0, np.inf)
"""Ridge penalties of an attribute that held-out users decide between; infinity: it has no weight."""
START = 300.0
FOLDS = 5
PASSES = 2  # rounds over all attributes in which each penalty is chosen with the others as they are
LEAST_T = 2.5  # standard errors by which an attribute must raise the likelihood of held-out users to have any weight
MOST_USERS = 20_000  # number of users to regress; a random sample of more
FEWEST_USERS = 50


class UserVectors(NamedTuple):
    """Beliefs about the training users along the principal directions of the population."""

    rows: IntArray  # rows of the users, shape (n,)
    deviations: FloatArray  # posterior mean minus prior mean, shape (n, d)
    resolved: FloatArray  # part of the prior variance that the record resolved, from 0 to 1, shape (n, d)
    variances: FloatArray  # prior variances, shape (d,)
    directions: FloatArray  # principal directions as columns, shape (d, d)


def with_attributes(model: Model, data: Interactions, *, seed: int = 0) -> Model:
    """Return the model with a prior per user attribute, learned from the users of its log and their table."""
    if data.users is None:
        return model
    vectors = user_vectors(model, data, seed=seed)
    fit = fit_attributes(vectors, data.users, [data.user_ids[row] for row in vectors.rows.tolist()], seed=seed)
    return model.changed(attribute_prior=with_best_share(model, data, vectors.rows, fit, seed=seed))


def drawn_users(rows: IntArray, seed: int) -> IntArray:
    """Return the users to regress: all, or a random sample."""
    if len(rows) <= MOST_USERS:
        return rows
    return np.sort(np.random.default_rng(seed).choice(rows, MOST_USERS, replace=False))


def user_vectors(model: Model, data: Interactions, *, seed: int = 0) -> UserVectors:
    """Return the users' posteriors given their whole records."""
    order = np.argsort(data.user_idx, kind="stable")
    ends = np.searchsorted(data.user_idx[order], np.arange(data.n_users + 1))
    rows = drawn_users(np.flatnonzero(np.diff(ends)), seed)
    directions = principal_directions(model.prior_cov, [span for span, _ in model.blocks])
    variances = np.maximum(np.einsum("ik,ij,jk->k", directions, model.prior_cov, directions), 0.0)
    deviations, resolved = np.zeros((len(rows), model.dim)), np.zeros((len(rows), model.dim))
    item_rows = np.array(model.item_rows(data.item_ids))
    is_axis = np.array_equal(directions, np.eye(model.dim))

    def learn(place: int) -> None:
        own = order[ends[rows[place]] : ends[rows[place] + 1]]
        own = own[~np.isnan(data.values[own])]
        belief = belief_from_logged(model, item_rows[data.item_idx[own]], data.values[own]).belief
        left = np.diagonal(belief.cov) if is_axis else np.einsum("ik,ij,jk->k", directions, belief.cov, directions)
        deviations[place] = (belief.mean - model.prior_mean) @ directions
        resolved[place] = 1.0 - left / np.where(variances > 0, variances, 1.0)

    in_threads(learn, range(len(rows)))
    resolved = np.where(variances > 0, np.clip(resolved, 0.0, 1.0), 0.0)
    return UserVectors(rows, np.where(variances > 0, deviations, 0.0), resolved, variances, directions)


def fit_attributes(vectors: UserVectors, table: UserTable, user_ids: list[str], *, seed: int = 0) -> Fit:
    """Regress users' vectors on their attributes; attributes that predict nothing are left out of the encoder."""
    encoder = table.encoder(user_ids) if len(user_ids) >= FEWEST_USERS else Encoder(())
    F = encoded(encoder, lambda name: table.values_of(name, user_ids), len(user_ids))
    problem = _Problem.from_users(vectors, F, np.random.default_rng(seed).permutation(len(F)) % FOLDS)
    penalties, worth, used = choose_penalties(problem.gains, encoder, table.kinds)
    kept = np.flatnonzero(np.isfinite(penalties))
    final, projection = problem.columns(kept), identified(used)
    spread = final.F.T @ final.F / max(len(F), 1)

    def prior(without: int | None) -> AttributePrior:
        inverses = np.linalg.inv(final.precision(without) + np.diag(penalties[kept]))
        weights = np.einsum("kpq,kq->kp", inverses, final.information(without))
        errors = np.einsum("pq,kqr,pr->kp", projection, inverses, projection) * final.noise(weights)[:, None]
        turn = vectors.directions
        return AttributePrior(used, turn @ weights, np.sqrt(turn**2 @ errors), spread, worth)

    return Fit(prior(None), problem.folds, tuple(map(prior, range(FOLDS))) if len(kept) else ())


def identified(encoder: Encoder) -> FloatArray:
    """The projection onto what users can show: the levels of a category have nothing in common beside the mean."""
    result = np.eye(encoder.n_columns)
    for attribute, span in zip(encoder.attributes, encoder.spans, strict=True):
        if attribute.kind == "category":
            result[span, span] -= 1.0 / len(attribute.levels)
    return result


def encoded(encoder: Encoder, values_of: Callable[[str], Sequence[Any]], n_rows: int) -> FloatArray:
    """Return attributes as numbers, shape (rows, columns), from their values by name; zero where unknown."""
    F = np.zeros((n_rows, encoder.n_columns))
    for attribute, span in zip(encoder.attributes, encoder.spans, strict=True):
        for row, value in enumerate(values_of(attribute.name)):
            found = None if value is None else attribute.encoded(value)
            if found is not None:
                F[row, span] = found
    return F


@dataclass(frozen=True, eq=False)
class _Problem:
    """Weighted regressions, one per direction, and their sums over users, fold by fold."""

    F: FloatArray
    vectors: UserVectors
    folds: IntArray  # fold of each user, shape (n,)
    squares: FloatArray  # sum of s f f' over the users of a fold, shape (folds, d, columns, columns)
    products: FloatArray  # sum of f (mu - m0), shape (folds, d, columns)

    @classmethod
    def from_users(cls, vectors: UserVectors, F: FloatArray, folds: IntArray) -> "_Problem":
        squares, products = [], []
        for fold in range(FOLDS):
            own = F[folds == fold]
            weights = vectors.resolved[folds == fold]
            squares.append(np.stack([(own * each[:, None]).T @ own for each in weights.T]))
            products.append(vectors.deviations[folds == fold].T @ own)
        return cls(F, vectors, folds, np.stack(squares), np.stack(products))

    def columns(self, kept: IntArray) -> "_Problem":
        squares = self.squares[:, :, kept][:, :, :, kept]
        return replace(self, F=self.F[:, kept], squares=squares, products=self.products[:, :, kept])

    def precision(self, without: int | None = None) -> FloatArray:
        total = self.squares.sum(axis=0)
        return np.asarray(total if without is None else total - self.squares[without])

    def information(self, without: int | None = None) -> FloatArray:
        total = self.products.sum(axis=0)
        return np.asarray(total if without is None else total - self.products[without])

    def noise(self, weights: FloatArray) -> FloatArray:
        """Variance of what the weights, (d, columns), leave unexplained, per direction: S_k in a world of the model."""
        s = self.vectors.resolved
        left = (self.vectors.deviations - s * (self.F @ weights.T)) ** 2
        return np.asarray(left.sum(axis=0) / np.maximum(s.sum(axis=0), 1e-12))

    def gains(self, penalties: FloatArray) -> FloatArray:
        """Log-likelihood of each user's vector beside that without weights, fitted on the other folds, shape (n,)."""
        kept = np.flatnonzero(np.isfinite(penalties))
        result = np.zeros(len(self.F))
        if not len(kept):
            return result
        own, ridge = self.columns(kept), np.diag(penalties[kept])
        inverse_variances = 1.0 / np.where(self.vectors.variances > 0, self.vectors.variances, np.inf)
        for fold in range(FOLDS):
            is_in = self.folds == fold
            weights = np.linalg.solve(own.precision(fold) + ridge, own.information(fold)[..., None])[..., 0]
            moves = own.F[is_in] @ weights.T
            terms = moves * (self.vectors.deviations[is_in] - 0.5 * self.vectors.resolved[is_in] * moves)
            result[is_in] = terms @ inverse_variances
        return result


def choose_penalties(
    gains: Callable[[FloatArray], FloatArray], encoder: Encoder, names: Iterable[str]
) -> tuple[FloatArray, dict[str, Worth], Encoder]:
    """Choose the penalty of each attribute on held-out users; return it per column, what each is worth, and those used.

    `gains` returns what weights with some penalties, one per column, add to the likelihood of held-out users; `names`
    are those of all columns of the table, also of those that cannot be encoded.
    """
    penalties = np.full(encoder.n_columns, START)

    def gains_with(span: slice, penalty: float) -> FloatArray:
        tried = penalties.copy()
        tried[span] = penalty
        return gains(tried)

    for _ in range(PASSES):
        for span in encoder.spans:
            found = [float(gains_with(span, penalty).sum()) for penalty in PENALTIES]
            penalties[span] = PENALTIES[int(np.argmax(found))]
    for span in encoder.spans:
        gain, error = _difference(gains(penalties), gains_with(span, np.inf))
        if gain <= LEAST_T * error:
            penalties[span] = np.inf
    worth = {}
    for name, span in zip(encoder.names, encoder.spans, strict=True):
        penalty = float(penalties[span.start])
        is_used = bool(np.isfinite(penalty))
        gain, error = _difference(gains_with(span, penalty if is_used else START), gains_with(span, np.inf))
        worth[name] = Worth(penalty if is_used else None, gain, error)
    worth |= {name: Worth(None, 0.0, 0.0) for name in names if name not in worth}
    return penalties, worth, encoder.without([name for name, each in worth.items() if each.penalty is None])


def _difference(a: FloatArray, b: FloatArray) -> tuple[float, float]:
    """Mean difference of two numbers per user, and its standard error."""
    return float((a - b).mean()), float((a - b).std() / np.sqrt(len(a)))


def worth_lines(prior: AttributePrior | None, what: str = "attribute") -> list[str]:
    """Return one line per attribute about what it is worth, the best first, then what all of them are together."""
    if prior is None:
        return []
    worth, played = prior.worth, prior.played
    ordered = sorted(worth.items(), key=lambda pair: -pair[1].gain if pair[1].penalty is not None else np.inf)
    lines = [
        f"{what} {name}: {each.gain:+.3f} nats per held-out user (standard error {each.error:.3f})"
        + ("" if each.penalty is not None else "; not used")
        for name, each in ordered
    ]
    if played is None:
        return lines
    together = (
        f"together: {played.without + played.gain:.2f} instead of {played.without:.2f} successes of a held-out user in "
        f"{played.rounds} rounds (standard error {played.error:.2f}), with {prior.share:g} of the weights"
    )
    return [*lines, together if prior.share else f"{together}: no attribute is used"]
