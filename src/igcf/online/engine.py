"""Beliefs about users, and means and variances of all items, kept up to date in O(items x d) per reaction."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from igcf.arrays import AnyFloatArray, BoolArray, Float32Array, FloatArray, IntArray
from igcf.model import Model
from igcf.online import backend
from igcf.online.backend.numpy_items import described
from igcf.online.backend.types import Arrays, Evidence, Mixture, Moments, Selection
from igcf.online.belief import Belief, decay
from igcf.online.learning import monotone_learning
from igcf.online.state import Stale, State, Tracked, remembered, scored_blocks

if TYPE_CHECKING:
    from igcf.online.new_items.update import NewItems

RESYNC_EVERY = 200
"""Reactions after which means and variances are computed anew from the belief, so that rounding cannot pile up."""
CATCH_UP = 8
"""Reactions after a belief was set until all variances are computed: about as much work as doing without them."""
MOST_MOVES = 20_000_000  # moves of items by contexts that are kept
NO_MOMENTS = Moments((), ())


class ScoringEngine:
    """The state of `n_users` users in lock-step: beliefs (float64) and, for every item, mean and variance (`dtype`).

    After a reward on item j (eq:update_dis carried over to every item):

        w = cov x_j;  c = E w;  den = noise_j + x_j . w;  g = (reward - x_j . mean) / den
        item means += g c;  item variances -= c * c / den;  mean += g w;  cov -= w w' / den

    A model of several channels keeps such means and variances of z for every channel that its expected reward depends
    on. A user may have an offset per item beside the belief, which is added to the expected rewards.
    `igcf.online.state` describes when they are kept.

    Args:
        model: what is scored.
        n_users: users in lock-step.
        dtype: of the item matrices, means and variances: float32 is fast, float64 is exact to rounding.
        tracks_variances: False if variances are rarely read: means are then computed from the belief on demand,
            and so are variances, which is slow.

    Example:
        With the model of the example of `igcf.Model`:

        >>> import numpy as np
        >>> engine = igcf.online.ScoringEngine(model, n_users=2)
        >>> engine.observe(np.array([[0], [1]]), np.array([[1.0], [0.0]]))
        >>> np.round(engine.means.astype(float), 1).tolist()
        [[1.0, 0.4, 0.7], [0.6, 0.0, 0.3]]
    """

    keeps_items: ClassVar[bool] = True  # whether means and variances of all items are kept between answers
    of_items: ClassVar[tuple[str, ...]] = (
        "model", "new_items", "_items", "_mixture", "_blocks", "_monotone", "_prior_moments",
    )  # fmt: skip
    """Attributes that hold items, not users: engines of the same items share them."""

    def __init__(
        self, model: Model, n_users: int = 1, *, dtype: npt.DTypeLike = np.float32, tracks_variances: bool = True
    ) -> None:
        self.tracks_variances, self._dtype = tracks_variances, np.dtype(dtype)
        self.prior = Belief(model.prior_mean, model.prior_cov)
        self._spans = tuple(model.channels[number].span for number in model.scored)
        self._set_items(model, None)
        self._prior_moments = self._moments_of_prior()
        self._begin(n_users)

    def _set_items(self, model: Model, new_items: "NewItems | None") -> None:
        self.model = model
        self.new_items = new_items  # added items that are still being learned; None: no added items
        self._items: Arrays = tuple(
            np.ascontiguousarray(model.channels[number].vectors, dtype=self._dtype) for number in model.scored
        )
        self._mixture = Mixture.from_model(model)
        self._blocks = scored_blocks(model, self._items)
        self._monotone = monotone_learning(model)

    def _moments_of_prior(self, known: Moments | None = None) -> Moments:
        """Moments of all items at the prior; `known` are those of the items that the model was trained on."""
        rows, n = None if known is None else self.model.added, self.model.n_trained
        z = tuple(each[0] for each in self._z_of(self.prior.mean[None], rows))
        moments = Moments(z, self._z_variances_of(self.prior.cov, rows))
        if known is not None:
            pairs = zip(known, moments, strict=True)
            parts = [[np.concatenate([a[:n], b]) for a, b in zip(*pair, strict=True)] for pair in pairs]
            moments = Moments(*map(tuple, parts))
        for shared in (*moments.z, *moments.variances):
            shared.setflags(write=False)
        return moments

    def with_new_items(self, new_items: "NewItems") -> Self:
        """Return an engine at the prior of the same model with other rows of the added items."""
        other = self.fresh()
        known = self._prior_moments
        other._set_items(new_items.model, new_items)
        other._prior_moments = other._moments_of_prior(known if self.keeps_items else None)
        other._begin(1)
        return other

    def _begin(self, n_users: int) -> None:
        self.n_users = n_users
        self.belief_means: FloatArray = _for_all(self.prior.mean, n_users)
        self.belief_covs: FloatArray = _for_all(self.prior.cov, n_users)
        self._state: State = self._at_prior()
        self._offsets: AnyFloatArray | None = None
        self._scratch: AnyFloatArray | None = None
        self._drop_sums()

    def _at_prior(self) -> Tracked:
        moments = (tuple(_for_all(each, self.n_users) for each in part) for part in self._prior_moments)
        return Tracked(Moments(*moments), is_prior=True)

    def _drop_sums(self) -> None:
        self._means: AnyFloatArray | None = None
        self._variances: AnyFloatArray | None = None

    def fresh(self, n_users: int = 1) -> Self:
        """Return a new engine at the prior that shares the item matrices and the prior's moments with this one."""
        other = object.__new__(type(self))
        other.prior, other.tracks_variances, other._spans = self.prior, self.tracks_variances, self._spans
        other._dtype = self._dtype
        other.take_items(self)
        other._begin(n_users)
        return other

    def take_items(self, template: "ScoringEngine") -> None:
        """Take the items over from another engine; `items_moved` says which of them are others than before."""
        for name in self.of_items:
            setattr(self, name, getattr(template, name))

    def release_items(self) -> None:
        """Hold no items until `take_items`, so that an idle user does not keep an old snapshot of them in memory."""
        for name in self.of_items:
            delattr(self, name)

    def belief(self, user: int = 0) -> Belief:
        """Return a copy of the belief about one user."""
        return Belief(self.belief_means[user].copy(), self.belief_covs[user].copy())

    def set_belief(self, belief: Belief, user: int = 0, *, offset: AnyFloatArray | None = None) -> None:
        """Take over a belief computed elsewhere, for instance from a stored history.

        `offset` is added to the expected reward of every item, (items,), and stays while reactions are learned.
        """
        if self.n_users == 1:
            self.belief_means = np.array(belief.mean[None], order="C")
            self.belief_covs = np.array(belief.cov[None], order="C")
        else:
            self._own_beliefs()
            self.belief_means[user], self.belief_covs[user] = belief.mean, belief.cov
        self._state = Stale()
        self.set_offset(offset, user)

    def start_at(self, prior: Belief, variances: Arrays) -> None:
        """Start the only user from a prior of their own, for which the `variances` of all items are known."""
        self.set_belief(prior)
        if self.keeps_items:
            self._state = Tracked(
                Moments(self._z_of(self.belief_means), tuple(each[None].copy() for each in variances))
            )

    @contextmanager
    def shifted(self, by: FloatArray | None) -> Iterator[None]:
        """Score the only user as if their vector were moved, for as long as this lasts; nothing may be learned."""
        if by is None:  # what was computed so far is kept
            yield
            return
        before = self._state, self.belief_means, self._means, self._variances
        if self.keeps_items:
            moves, z = self._moves(by), self._z()
            moved = tuple([own if more is None else own + more for own, more in zip(z, moves, strict=True)])
            state = self._state
            self._state = Stale(moved) if isinstance(state, Stale) else Tracked(Moments(moved, state.moments.variances))
        else:
            self._state = Stale()
        self.belief_means = self.belief_means + by
        self._drop_sums()
        try:
            yield
        finally:
            self._state, self.belief_means, self._means, self._variances = before

    def _moves(self, by: FloatArray) -> tuple[AnyFloatArray | None, ...]:
        """How a move of the user's vector moves z; the same moves, those of contexts, come again and again."""

        def compute() -> tuple[AnyFloatArray | None, ...]:
            spans = zip(self._z_of(by[None]), self._spans, strict=True)
            return tuple(move if by[span].any() else None for move, span in spans)

        most = MOST_MOVES / (len(self._items) * max(self.model.n_items, 1))
        return remembered(self.model, "moves", by.tobytes(), most, compute)

    def offset_of(self, user: int = 0) -> Float32Array | None:
        """Return a copy of one user's offset, shape (items,); None: nobody has one."""
        return None if self._offsets is None else self._offsets[user].astype(np.float32)

    def set_offset(self, offset: AnyFloatArray | None, user: int = 0) -> None:
        """Add `offset`, shape (items,), to one user's expected rewards instead of any before; None adds nothing."""
        if offset is not None:
            if self._offsets is None:
                self._offsets = np.zeros((self.n_users, self.model.n_items), dtype=self._items[0].dtype)
            self._offsets[user] = offset
        elif self.n_users == 1:
            self._offsets = None
        elif self._offsets is not None:
            self._offsets[user] = 0.0
        self._drop_sums()

    def observe(self, rows: IntArray, values: npt.ArrayLike) -> None:
        """Learn from one reaction per user, `rows` and `values` (users,), or from slates of them (users, k).

        Values are in the units of the log; NaN is an item that was shown without a reaction.
        """
        rows = np.asarray(rows).reshape(self.n_users, -1)
        numbers = np.asarray(values, dtype=np.float64).reshape(self.n_users, -1)
        if self.n_users == 1:
            for row, value in zip(rows[0].tolist(), numbers[0].tolist(), strict=True):
                self.observe_one(row, value)
            return
        state = self._begin_update()
        for slot in range(rows.shape[1]):
            own_rows, own_values = rows[:, slot], numbers[:, slot]
            if self._monotone is None:
                rewards = np.stack([channel.reward.of(own_values) for channel in self.model.channels], axis=1)
            else:
                rewards = self._monotone.rewards_of(self.belief_means, self.belief_covs, own_rows, own_values)
            for number in range(len(self.model.channels)):
                self._observe_channel(number, own_rows, np.ascontiguousarray(rewards[:, number]), state)
        self._finish_update(state, rows.shape[1])

    def observe_one(self, row: int, value: float, by: FloatArray | None = None) -> None:
        """Learn from one reaction of the only user, all that it reveals about a block of the vector at once.

        `by` is how far the user's vector was moved when they reacted; what is learned moves means of items alike.
        """
        state = self._begin_update()
        mean, cov = self.belief_means[0], self.belief_covs[0]
        if by is not None:
            mean += by
        if self._monotone is None:
            channels = self.model.channels
            rewards = tuple([tuple([channels[n].reward.of_one(value) for n in own]) for _, own in self.model.blocks])
        else:
            rewards = self._monotone.rewards_of_one(mean, cov, row, value)
        moments = state.first_user if isinstance(state, Tracked) else NO_MOMENTS
        backend.loops.observe_and_rescore(mean, cov, row, self._blocks, rewards, moments)
        if by is not None:
            mean -= by
        self._finish_update(state, 1)

    def _observe_channel(self, number: int, rows: IntArray, rewards: FloatArray, state: Tracked | Stale) -> None:
        """Update all users' vectors by what a reaction each reveals in one channel, and all that is scored by them."""
        channel = self.model.channels[number]
        is_logit = np.full(self.n_users, channel.link == "logit")
        evidence = Evidence(channel.vectors[rows].astype(np.float64), rewards, channel.noise_var[rows], is_logit)
        w, steps = backend.loops.update_beliefs(self.belief_means, self.belief_covs, channel.start, evidence)
        for place, span in enumerate(self._spans):
            if isinstance(state, Tracked) and span.start == channel.start:
                z, variances = state.moments.z[place], state.moments.variances[place]
                self._scratch = np.empty_like(z) if self._scratch is None else self._scratch
                products = np.matmul(w.astype(z.dtype), self._items[place].T, out=self._scratch)
                backend.loops.rescore_users(products, steps, z, variances)

    def _begin_update(self) -> Tracked | Stale:
        """Leave the prior, and return the state that an update is to be carried over to."""
        self._drop_sums()
        state = self._state
        self._own_beliefs()
        if isinstance(state, Tracked) and (state.is_prior or not self.tracks_variances):
            self._state = state = state.owned() if self.tracks_variances else Stale()
        return state

    def _own_beliefs(self) -> None:
        """Copy the beliefs where they are still the prior's own arrays."""
        if isinstance(self._state, Tracked) and self._state.is_prior:
            self.belief_means = np.array(self.belief_means, order="C")
            self.belief_covs = np.array(self.belief_covs, order="C")

    def _finish_update(self, state: Tracked | Stale, n_reactions: int) -> None:
        state.n_updates += n_reactions
        if isinstance(state, Tracked):
            is_due = state.n_updates >= RESYNC_EVERY
        else:
            state.z = None
            is_due = self.tracks_variances and state.n_updates >= CATCH_UP
        if is_due:
            self.resync()

    def forget(self, keep: float) -> None:
        """Let every user's evidence decay toward the population by the factor `keep`."""
        if keep < 1.0:
            means, covs = decay(self.belief_means, self.belief_covs, self.prior, keep)
            self.belief_means, self.belief_covs = np.ascontiguousarray(means), np.ascontiguousarray(covs)
            if self._offsets is not None:
                self._offsets = self._offsets * self._offsets.dtype.type(keep)
            self._drop_sums()
            self._state = Stale()

    def resync(self) -> None:
        """Compute all means and variances anew from the beliefs."""
        self._own_beliefs()
        self._drop_sums()
        of_users = [self._z_variances_of(cov) for cov in self.belief_covs]
        variances = tuple(
            each[0][None] if self.n_users == 1 else np.stack(each) for each in zip(*of_users, strict=True)
        )
        self._state = Tracked(Moments(self._z_of(self.belief_means), variances))

    def items_moved(self, rows: IntArray) -> None:
        """Compute again what is kept of the items at `rows`, which have moved or are new."""
        self._drop_sums()
        self._scratch = None
        if self._offsets is not None:  # the graph says nothing of items added later
            self._offsets = np.pad(self._offsets, ((0, 0), (0, self.model.n_items - self._offsets.shape[1])))
        state = self._state
        if isinstance(state, Tracked) and state.is_prior:
            self._state = self._at_prior()
        elif isinstance(state, Stale) or (self.keeps_items and state.moments.z[0].shape[1] != self.model.n_items):
            self._state = Stale(n_updates=state.n_updates)
        else:
            for place, (items, span) in enumerate(zip(self._items, self._spans, strict=True)):
                state.moments.z[place][:, rows] = self.belief_means[:, span].astype(items.dtype) @ items[rows].T
                for user, cov in enumerate(self.belief_covs):
                    found = backend.loops.variances_of(items, cov[span, span], rows)
                    state.moments.variances[place][user, rows] = found

    def _up_to_date(self) -> Tracked:
        """The state with the moments of all items, which are computed where they are stale."""
        if isinstance(self._state, Stale):
            self.resync()
        assert not isinstance(self._state, Stale)  # noqa: S101
        return self._state

    def _z(self) -> Arrays:
        """Means of z of all items, computed where they are stale."""
        state = self._state
        if not isinstance(state, Stale):
            return state.moments.z
        if state.z is None:
            state.z = self._z_of(self.belief_means)
        return state.z

    def _z_of(self, users: FloatArray, rows: IntArray | None = None) -> Arrays:
        """Each scored channel's item vectors, all or those at `rows`, times user vectors, arrays (users, items)."""
        found = []
        for every, span in zip(self._items, self._spans, strict=True):
            items, own = every if rows is None else every[rows], users[:, span].astype(every.dtype)
            # for one user a matrix-vector product, which reads the items once, in order
            found.append(backend.loops.multiply(items, own[0])[None] if len(own) == 1 else np.asarray(own @ items.T))
        return tuple(found)

    def _z_variances_of(self, cov: FloatArray, rows: IntArray | None = None) -> Arrays:
        """The variances of z of each scored channel for one user, of all items or of those at `rows`."""
        pairs = zip(self._items, self._spans, strict=True)
        return tuple(backend.loops.variances_of(items, cov[span, span], rows) for items, span in pairs)

    @property
    def means(self) -> AnyFloatArray:
        """The expected reward of every item, (users, items); not to be written to."""
        if self._means is None:
            own = expected_from(self._mixture, self._z())
            self._means = own if self._offsets is None else own + self._offsets
        return self._means

    @property
    def variances(self) -> AnyFloatArray:
        """The variance of that expectation, (users, items), to first order; not to be written to."""
        if self._variances is None:
            self._variances = variances_from(self._mixture, *self._up_to_date().moments)
        return self._variances

    def variances_at(self, rows: IntArray) -> AnyFloatArray:
        """`variances` of the only user at some items; in the stale state they are computed for these items alone."""
        if self._variances is not None:
            return np.asarray(self._variances[0, rows])
        if isinstance(self._state, Stale):
            variances = self._z_variances_of(self.belief_covs[0], rows)
        else:
            variances = tuple([each[rows] for each in self._state.first_user.variances])
        z = () if self.model.is_linear else tuple([each[0, rows] for each in self._z()])
        return variances_from(self._mixture, z, variances)

    def means_at(self, rows: IntArray) -> AnyFloatArray:
        """`means` of all users at some items, (users, n), for `rows` (n,) or one row of them per user, (users, n)."""
        return self.means[:, rows] if rows.ndim == 1 else np.take_along_axis(self.means, rows, axis=1)

    def describe(
        self, rows: IntArray, scores: AnyFloatArray, available: BoolArray, among: IntArray | None = None
    ) -> Selection:
        """Return what is believed of the items at `rows`, where ranks are those among the rows that were scored.

        Args: the items, their scores, which items may be shown (items,), and the rows that were scored; None: all.
        """
        means = self.means[0]
        own = means[rows]
        above = backend.loops.count_above(means, available, own)
        return described(rows, scores, own, np.sqrt(self.variances_at(rows)), above)

    def expected_under(self, users: FloatArray) -> AnyFloatArray:
        """Return the expected rewards if the vectors of the users, or several ones of the only user, were these."""
        expected = self.model.expected(users)
        return expected if self._offsets is None else expected + self._offsets

    def ranks_in_draws(self, draws: FloatArray, rows: IntArray, available: BoolArray) -> IntArray:
        """Return the ranks of some items among those available, under draws of the only user (n, d), (n, rows)."""
        scores = self.expected_under(draws)
        others = scores[:, available]
        return np.stack([1 + (others > scores[:, [row]]).sum(axis=1) for row in rows], axis=1)

    def tracked_z(self, number: int) -> tuple[AnyFloatArray, AnyFloatArray] | None:
        """Means and variances of a channel's z of all items, for the first user, where they are kept up to date."""
        if isinstance(self._state, Stale) or number not in self.model.scored:
            return None
        place, (z, variances) = self.model.scored.index(number), self._state.first_user
        return z[place], variances[place]

    def z_moments_at(self, number: int, rows: IntArray) -> tuple[AnyFloatArray, AnyFloatArray]:
        """Mean and variance of a channel's z for the only user at some items; computed from the belief where stale."""
        tracked = self.tracked_z(number)
        if tracked is not None:
            return tracked[0][rows], tracked[1][rows]
        channel = self.model.channels[number]
        mean, cov = self.belief_means[0, channel.span], self.belief_covs[0][channel.span, channel.span]
        return backend.loops.moments_at(channel.vectors, rows, mean, cov)

    def item_uncertainty(self, draws: FloatArray | None = None) -> FloatArray:
        """Return what the variance of a score gains from what is unknown of the items themselves, (users, items).

        For independent e_i ~ N(x_i, diag s_i) and user ~ N(m, S) it is m' diag(s_i) m + trace(diag(s_i) S); items that
        were added to the model have an uncertainty of their own. `draws`, (users, d), stand for users without doubt.
        """
        users = self.belief_means if draws is None else draws
        second_moment = users**2
        if draws is None:
            second_moment = second_moment + np.einsum("bdd->bd", self.belief_covs)
        result = np.asarray(second_moment @ self.model.item_variances.T)
        if self.new_items is not None:
            result[:, self.new_items.rows] += self.new_items.uncertainty(users) ** 2
        return result


def expected_from(mixture: Mixture, z: Arrays) -> AnyFloatArray:
    """Return expected rewards from the z of all scored channels."""
    return np.asarray(z[0]) if mixture.model.is_linear else backend.loops.expected_rewards(mixture, z)


def variances_from(mixture: Mixture, z: Arrays, variances: Arrays) -> AnyFloatArray:
    """Return the variances of expected rewards from means and variances of z."""
    is_linear = mixture.model.is_linear
    return np.asarray(variances[0]) if is_linear else backend.loops.reward_variances(mixture, z, variances)


def _for_all(of_prior: Any, n_users: int) -> Any:
    """The same for all users, without a copy."""
    return of_prior[None] if n_users == 1 else np.broadcast_to(of_prior, (n_users, *of_prior.shape))
