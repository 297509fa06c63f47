"""Any sequence of what users and operators do, with several users interleaved, against brute force after every step.

`IGCF_CASES=2000 pytest tests/online/test_stateful.py` tries longer and more sequences.
"""

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import igcf
from igcf.arrays import FloatArray
from igcf.attributes import Attributes
from igcf.model import Model
from igcf.model.channel import linearised, sigmoid
from igcf.online import Belief, ScoringEngine, Session
from igcf.online.exploration import AMONG
from igcf.online.learning import learned, prior_belief
from igcf.training.content import fit_content
from tests.toys import attributed, contextual, ensemble_model, two_channel_model

CASES = int(os.environ.get("IGCF_CASES", "12"))
USERS = ("ann", "ben", "eve")
VALUES = st.sampled_from([1.0, 3.0, 4.0, 5.0, None])
NEVER = igcf.Exposure(share=0.0, settled=4)
ATTRIBUTES: list[tuple[dict[str, Any], list[float | None]]] = [
    ({}, [None] * 6),
    ({"gender": "x"}, [None] * 6),
    ({"gender": "f"}, [0.6, -0.6, None, None, None, None]),
    ({"country": ["fr", "nz"], "income": 200.0}, [None, None, 0.3, -0.5, 0.2, 2.0]),
]
"""Attributes of a user, and the numbers that they are; None where they are unknown."""
EXPLORED_UNDER: list[dict[str, Any]] = [
    {},
    {"filter": {"none": ["horror"]}},
    {"boost": {"comedy": 0.2}},
    {"weight": "margin", "strength": 0.5},
]
CONTEXTS: list[dict[str, Any] | None] = [None, None, {"device": "phone"}, {"device": "watch"}]


def described(model: Model) -> Model:
    """Give every other item a category, all a margin, and the model a content prior."""
    categories = [("comedy",) if row % 2 else ("horror",) for row in range(model.n_items)]
    margins = {"margin": np.arange(1.0, model.n_items + 1.0)}
    model = model.changed(categories=categories, attributes=Attributes(model.n_items, numbers=margins))
    return contextual(attributed(model.changed(content=fit_content(model))))


LOW_PASS = np.random.default_rng(9).normal(0.0, 0.3, (16, 4)).astype(np.float32)
MODELS = [described(two_channel_model(16, 3).changed(low_pass=LOW_PASS)), described(ensemble_model(16, 3))]


def brute_force_record(model: Model, logged: dict[int, float], shown: set[int], population: FloatArray) -> Belief:
    """The belief after a record of a linear model, with a sum over every single item of the training log."""
    prior = prior_belief(model)
    counted = model.channels[1].vectors[: model.n_trained] @ population
    weight = min(1.0, len(logged) / max(float(counted.sum()), 1.0))
    precision, information = np.linalg.inv(prior.cov), np.linalg.inv(prior.cov) @ prior.mean
    for channel in model.channels:
        for row in range(model.n_items):
            x, noise = channel.vectors[row].astype(np.float64), channel.noise_var[row]
            if row in logged and row not in shown:
                precision = precision + np.outer(x, x) / noise
                information = information + x * channel.reward.of_one(logged[row]) / noise
            elif row < model.n_trained and row not in logged:
                precision = precision + weight * np.outer(x, x) / noise
    cov = np.linalg.inv(precision)
    return Belief(cov @ information, cov)


def brute_force_filter(model: Model, logged: dict[int, float], shown: set[int]) -> FloatArray:
    """What the low-pass filter adds to the expected reward of every item, by the trained items still in the record."""
    added = np.zeros(model.n_items)
    amounts = {row: 1.0 if value >= 4.0 else 0.5 for row, value in logged.items() if row < 16 and row not in shown}
    for row, amount in amounts.items():
        added[:16] += LOW_PASS @ LOW_PASS[row].astype(np.float64) * amount / np.sqrt(max(sum(amounts.values()), 1.0))
    return added


def with_own_prior(model: Model, numbers: list[float | None]) -> Model:
    """The model with the prior of a user whose attributes are these numbers, direction by direction."""
    prior = model.attribute_prior
    assert prior is not None
    known = [place for place, number in enumerate(numbers) if number is not None]
    f = np.array([numbers[place] for place in known])
    W = prior.weights[:, known]
    variances = np.diagonal(model.prior_cov)
    explained = np.diagonal(W @ prior.spread[np.ix_(known, known)] @ W.T)
    return model.with_prior(model.prior_mean + W @ f, np.diag(np.maximum(variances - explained, 0.3 * variances)))


def brute_force(
    model: Model,
    logged: dict[int, float],
    shown: list[tuple[int, float]],
    population: FloatArray,
    on_phone: set[int],
) -> Belief:
    """The belief from the evidence, one reaction after the other."""
    belief = brute_force_record(model, logged, {row for row, _ in shown}, population) if logged else prior_belief(model)
    effect = model.context_effect
    assert effect is not None
    for row, value in shown:
        shift = effect.weights[:, :2] @ np.array([-0.5, 0.5]) * (row in on_phone)
        found = learned(Belief(belief.mean + shift, belief.cov), model, row, value)
        belief = Belief(found.mean - shift, found.cov)
    return belief


def scores(model: Model, belief: Belief) -> tuple[FloatArray, FloatArray]:
    """Expected reward and standard deviation of every item, written out term by term in double precision."""
    z, deviation, active = [], [], []
    for channel in model.channels:
        x, cov = channel.vectors.astype(np.float64), belief.cov[channel.span, channel.span]
        z.append(x @ belief.mean[channel.span])
        deviation.append(np.sqrt([each @ cov @ each for each in x]))
        active.append(sigmoid(z[-1]) if channel.link == "logit" else z[-1])
    mean = np.zeros(model.n_items)
    of_block: dict[int, FloatArray] = {}
    for term in model.terms:
        mean += term.weight * np.prod([active[n] for n in term.channels], axis=0)
    for n, channel in enumerate(model.channels):
        others = [[active[m] for m in term.channels if m != n] for term in model.terms if n in term.channels]
        weights = [term.weight for term in model.terms if n in term.channels]
        slope = sum(w * np.prod(own, axis=0) for w, own in zip(weights, others, strict=True))
        slope = slope * (active[n] * (1.0 - active[n]) if channel.link == "logit" else 1.0)
        of_block[channel.start] = of_block.get(channel.start, 0.0) + np.abs(slope) * deviation[n]
    return mean, np.sqrt(sum(np.square(each) for each in of_block.values()))


def ask_at_every_assignment(owner: Any, ask: Callable[[], None]) -> None:
    """Let `ask` run after every single assignment to an attribute of `owner`, as another thread might."""
    kind = type(owner)

    def assign(self: Any, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        ask()

    owner.__class__ = type(kind.__name__, (kind,), {"__setattr__": assign})


class Library(RuleBasedStateMachine):
    """A recommender, the sessions of three users, and their evidence in plain lists."""

    @initialize(number=st.sampled_from([0, 1]))
    def start(self, number: int) -> None:
        self.recommender = igcf.Recommender(MODELS[number], igcf.Ucb(0.5), exposure=NEVER, skip_rounds=3)
        self.sessions: dict[str, Session] = {user: self.recommender.session(user=user) for user in USERS}
        self.shown: dict[str, list[tuple[int, float]]] = {user: [] for user in USERS}
        self.before: dict[str, list[tuple[list[tuple[int, float]], set[int]]]] = {user: [] for user in USERS}
        self.on_phone: dict[str, set[int]] = {user: set() for user in USERS}
        self.logged: dict[str, dict[int, float]] = {user: {} for user in USERS}
        self.numbers: dict[str, list[float | None]] = dict.fromkeys(USERS, ATTRIBUTES[0][1])
        self.hidden: set[str] = set()
        self.is_linear = number == 0
        self.watch()
        self.add("comedy")

    def watch(self) -> None:
        """Let somebody ask for items whenever a part of what all sessions share is replaced."""
        onlooker = self.recommender.session(user="onlooker")

        def ask() -> None:
            with suppress(igcf.errors.NoItemsLeftError):
                onlooker.recommend(2)

        for owner in (self.recommender, self.recommender._live):
            ask_at_every_assignment(owner, ask)

    def row(self, number: int) -> int:
        return number % self.recommender.model.n_items

    @rule(
        user=st.sampled_from(USERS),
        number=st.integers(0, 15) | st.integers(16, 21),
        value=VALUES,
        context=st.sampled_from(CONTEXTS),
    )
    def observe(self, user: str, number: int, value: float | None, context: dict[str, Any] | None) -> None:
        row, own = self.row(number), dict(self.shown[user])
        others = {name: session.belief for name, session in self.sessions.items() if name != user}
        self.sessions[user].observe(self.recommender.model.item_ids[row], value, context=context)
        self.before[user].append((list(self.shown[user]), set(self.on_phone[user])))
        has_one = row in self.logged[user] or own.get(row, np.nan) == own.get(row, np.nan)
        if value is not None or not has_one:
            kept = [pair for pair in self.shown[user] if pair[0] != row]
            self.shown[user] = [*kept, (row, np.nan if value is None else value)]
            self.on_phone[user] = self.on_phone[user] - {row} | ({row} if context == {"device": "phone"} else set())
        for name, belief in others.items():
            if row not in dict(self.shown[name]) and row not in self.logged[name]:
                np.testing.assert_array_equal(self.sessions[name].belief.mean, belief.mean)

    @rule(user=st.sampled_from(USERS), attributes=st.sampled_from(ATTRIBUTES))
    def set_attributes(self, user: str, attributes: tuple[dict[str, Any], list[float | None]]) -> None:
        given, self.numbers[user] = attributes
        self.sessions[user].set_attributes(given)
        assert self.sessions[user].attributes == given

    @rule(user=st.sampled_from(USERS), attributes=st.sampled_from(ATTRIBUTES))
    def answer_under_other_attributes(self, user: str, attributes: tuple[dict[str, Any], list[float | None]]) -> None:
        """One answer under other attributes is that of a session that has them; the session itself is unchanged."""
        belief, other = self.sessions[user].belief, self.sessions[user].with_attributes(attributes[0])
        model = with_own_prior(self.recommender.model, attributes[1])
        population = self.recommender.model.prior_mean
        expected = brute_force(model, self.logged[user], self.shown[user], population, self.on_phone[user])
        np.testing.assert_allclose(other.belief.mean, expected.mean, atol=1e-6)
        np.testing.assert_array_equal(self.sessions[user].belief.mean, belief.mean)

    @rule(user=st.sampled_from(USERS), number=st.integers(0, 40))
    def skip(self, user: str, number: int) -> None:
        self.sessions[user].skip(self.recommender.model.item_ids[self.row(number)])
        self.before[user].append((list(self.shown[user]), set(self.on_phone[user])))

    @precondition(lambda self: any(self.before[user] for user in USERS))
    @rule(number=st.integers(0, 2))
    def undo(self, number: int) -> None:
        user = next(USERS[(number + n) % 3] for n in range(3) if self.before[USERS[(number + n) % 3]])
        self.sessions[user].undo()
        self.shown[user], self.on_phone[user] = self.before[user].pop()

    @precondition(lambda self: self.is_linear)
    @rule(user=st.sampled_from(USERS), numbers=st.lists(st.integers(0, 40), min_size=1, max_size=5), value=VALUES)
    def open_with_a_record(self, user: str, numbers: list[int], value: float | None) -> None:
        ids = self.recommender.model.item_ids
        self.logged[user] = {self.row(number): value or 5.0 for number in numbers}
        self.shown[user], self.before[user], self.on_phone[user] = [], [], set()
        record = [(ids[row], given) for row, given in self.logged[user].items()]
        given = self.sessions[user].attributes
        self.sessions[user] = self.recommender.session(logged=record, user=user, attributes=given)

    @precondition(lambda self: self.recommender.model.n_items < 22)
    @rule(category=st.sampled_from(["comedy", "horror"]))
    def add(self, category: str) -> None:
        self.recommender.add_items([{"id": f"new-{self.recommender.model.n_items}", "categories": [category]}])

    @rule(number=st.integers(0, 40), category=st.sampled_from(["comedy", "horror"]))
    def update(self, number: int, category: str) -> None:
        item_id = self.recommender.model.item_ids[self.row(number)]
        self.recommender.update_items([{"id": item_id, "categories": [category], "hidden": item_id in self.hidden}])

    @rule(number=st.integers(0, 40))
    def retire_or_restore(self, number: int) -> None:
        item_id = self.recommender.model.item_ids[self.row(number)]
        if item_id in self.hidden:
            self.recommender.restore_items([item_id])
        else:
            self.recommender.retire_items([item_id])
        self.hidden ^= {item_id}

    @rule()
    def save_and_load(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self.recommender.model.save(Path(folder) / "model")
            model = Model.load(Path(folder) / "model")
            for user, session in self.sessions.items():
                session.save(Path(folder) / user)
            self.learns_on_as_before(igcf.Recommender(Model.load(Path(folder) / "model"), exposure=NEVER))
            self.recommender = igcf.Recommender(model, igcf.Ucb(0.5), exposure=NEVER, skip_rounds=3)
            self.sessions = {user: self.recommender.load_session(Path(folder) / user) for user in USERS}
        self.watch()
        for user in USERS:
            self.before[user] = []

    def learns_on_as_before(self, loaded: igcf.Recommender) -> None:
        """One more reaction moves every new item alike here, where the recommender ends, and in the loaded one."""
        for recommender in (self.recommender, loaded):
            session = recommender.session([("item-0", 5.0)], user="one more")
            for row in recommender.model.added.tolist():
                session.observe(recommender.model.item_ids[row], 5.0)
        for own, other in zip(self.recommender.model.channels, loaded.model.channels, strict=True):
            np.testing.assert_allclose(own.vectors, other.vectors, atol=1e-6)

    @rule(user=st.sampled_from(USERS), k=st.integers(1, 4), category=st.sampled_from(["comedy", "horror"]))
    def recommend(self, user: str, k: int, category: str) -> None:
        session, rules = self.sessions[user], igcf.Rules.parse({"filter": {"none": [category]}})
        try:
            picks = [*session.recommend(k), *session.recommend(1, rules=rules)]
        except igcf.errors.NoItemsLeftError:
            return
        seen = {row for row, _ in self.shown[user]} | set(self.logged[user])
        catalogue, model = self.recommender.catalogue, self.recommender.model
        for pick in picks:
            assert pick.item_id not in self.hidden
            assert model.item_row(pick.item_id) not in seen
        assert category not in catalogue.item(model.item_row(picks[-1].item_id)).categories

    @rule(user=st.sampled_from(USERS), context=st.sampled_from(CONTEXTS), strength=st.sampled_from([0.0, 0.4, 1.0]))
    def recommend_by_weight(self, user: str, context: dict[str, Any] | None, strength: float) -> None:
        """The best score, of the vector that the context moves, times the weight; the context leaves no trace."""
        session, model = self.sessions[user], self.recommender.model
        margins = model.catalogue.attributes.numbers.get("margin")
        if margins is None or np.isnan(margins).all():
            return
        rules = igcf.Rules.parse({"weight": "margin", "strength": strength})
        belief, before = session.belief, session.moments()
        try:
            open_rows = np.flatnonzero(session.available(1, rules=rules)[0])
            [pick] = session.recommend(1, rules=rules, context=context)
        except igcf.errors.NoItemsLeftError:
            return
        assert model.context_effect is not None
        shift = model.context_effect.weights[:, :2] @ np.array([-0.5, 0.5]) * (context == {"device": "phone"})
        mean, std = scores(model, Belief(belief.mean + shift, belief.cov))
        mean += brute_force_filter(model, self.logged[user], {row for row, _ in self.shown[user]})
        weights = 1.0 - strength + strength * np.nan_to_num(margins / np.nanmean(margins), nan=1.0)
        expected = (mean + 0.5 * std) * weights
        assert abs(pick.score - expected[open_rows].max()) < 5e-4
        assert abs(pick.score - expected[model.item_row(pick.item_id)]) < 5e-4
        np.testing.assert_array_equal(session.moments(), before)

    @rule(
        user=st.sampled_from(USERS),
        k=st.integers(1, 3),
        spare=st.integers(0, 2),
        share=st.sampled_from([0.0, 0.5, 1.0]),
        rules=st.sampled_from(EXPLORED_UNDER),
    )
    def explore(self, user: str, k: int, spare: int, share: float, rules: dict[str, Any]) -> None:
        """Each item shown is one of the best left after those above it, with the probability that its place gives."""
        session, parsed = self.sessions[user], igcf.Rules.parse(rules)
        try:
            order = session.recommend(int(session.available(1, rules=parsed).sum()), rules=parsed, explore=0.0)
            picks = session.recommend(k + spare, spare=spare, rules=parsed, explore=share)
        except (igcf.errors.NoItemsLeftError, igcf.errors.RuleError):  # or no item has the category any more
            return
        left = {pick.item_id: pick.score for pick in order}
        for number, pick in enumerate(picks):
            own, n = left.pop(pick.item_id), min(AMONG, 1 + len(left))
            better = sum(score > own for score in left.values())
            assert better < n if number < k else better == 0
            is_best = {better == 0} if own not in left.values() else {better == 0, False}  # ties fall either way
            possible = [share / n + (1 - share) * each if number < k else np.nan for each in is_best]
            assert any(np.allclose(pick.propensity, each, equal_nan=True) for each in possible)

    @invariant()
    def trained_rows_never_change(self) -> None:
        for channel, first in zip(self.recommender.model.channels, MODELS[not self.is_linear].channels, strict=True):
            np.testing.assert_array_equal(channel.vectors[:16], first.vectors)

    @invariant()
    def item_vectors_are_those_of_the_channels(self) -> None:
        model = self.recommender.model
        expected = linearised(model.channels, model.terms, model.prior_mean)
        np.testing.assert_allclose(
            model.item_vectors, model.channels[0].vectors if model.is_linear else expected, atol=1e-6
        )

    @invariant()
    def beliefs_and_scores_are_those_of_the_evidence(self) -> None:
        model = self.recommender.model
        assert len(model.catalogue) == model.n_items == len(model.item_vectors)
        for user, session in self.sessions.items():
            belief = session.belief
            assert np.linalg.eigvalsh(belief.cov)[0] > -1e-9
            own = with_own_prior(model, self.numbers[user])
            expected = brute_force(own, self.logged[user], self.shown[user], model.prior_mean, self.on_phone[user])
            np.testing.assert_allclose(belief.mean, expected.mean, atol=1e-6)
            np.testing.assert_allclose(belief.cov, expected.cov, atol=1e-6)
            mean, std = scores(model, expected)
            exact = ScoringEngine(model, dtype=np.float64)
            exact.set_belief(belief)
            np.testing.assert_allclose(exact.means[0], mean, atol=1e-6)
            np.testing.assert_allclose(np.sqrt(exact.variances[0]), std, atol=1e-6)
            # sessions score in single precision: 6e-8 per operation, over tens of updates of numbers around 1
            mean += brute_force_filter(model, self.logged[user], {row for row, _ in self.shown[user]})
            session._follow()
            found, spread = session._engine.means[0].copy(), np.sqrt(session._engine.variances[0])
            session._release()
            np.testing.assert_allclose(found, mean, atol=2e-5)
            np.testing.assert_allclose(spread, std, atol=2e-4)  # the root of a small variance


TestLibrary: Any = pytest.mark.slow(Library.TestCase)
TestLibrary.settings = settings(max_examples=CASES, stateful_step_count=20 if CASES <= 12 else 60, deadline=None)
