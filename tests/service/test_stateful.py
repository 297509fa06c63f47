"""Two servers on one store against a simple model in memory: any sequence of calls leaves all with the same beliefs."""

import json
import shutil
import tempfile
import time
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import sqlalchemy as sa
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from igcf.experiments.assignment import Layout, point
from igcf.online import Recommender, Session
from igcf.service.context import ServiceContext
from igcf.service.http.application import create_app
from igcf.service.serving.model_swap import follow, learn_ignored
from igcf.service.settings import ServiceSettings
from igcf.service.store.tables import recommendations
from tests.service.conftest import small_model
from tests.toys import attributed, contextual

USERS, ITEMS = st.sampled_from(["ann", "bob", "visitor"]), st.sampled_from([f"item-{n}" for n in range(5)])
EVENTS, VALUES = st.sampled_from([f"e{n}" for n in range(8)]), st.sampled_from([1.0, 4.0, 5.0])
MODELS = {
    "first": contextual(attributed(small_model(12, 3))),
    "second": contextual(attributed(small_model(12, 3, seed=1))),
}
ATTRIBUTES: list[dict[str, Any]] = [{}, {"gender": "f"}, {"country": ["de", "fr"], "income": 10}, {"gender": "x"}]
CONTEXTS: list[dict[str, Any] | None] = [None, {"device": "phone"}, {"device": "desk", "time": "2026-11-15T10:00:00Z"}]
SERVERS = st.integers(0, 1)
SHARES = st.sampled_from([0.0, 0.3, 0.5, 1.0])


@dataclass(frozen=True)
class Reaction:
    """A reaction as it was sent."""

    event: str
    item: str
    value: float | None
    evidence: str
    context: dict[str, Any] | None = None
    time: int = 0
    """Its place among all reactions of all users."""
    arrived: float = 0.0

    def says_the_same_as(self, other: "Reaction") -> bool:
        return (self.item, self.value, self.evidence) == (other.item, other.value, other.evidence)


class Service(RuleBasedStateMachine):
    """What was acknowledged, kept as plain lists, beside two real servers on one SQLite file."""

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        for name in MODELS:
            MODELS[name].save(self.folder / name)
        self.served, self.clock = "first", 0
        self.layout: Layout | None = None
        """Who is in which arm of the experiment that runs; its arms are named after their models."""
        self.n_experiments = 0
        self.log: dict[str, list[Reaction]] = {}
        self.retracted: dict[str, set[str]] = {}
        self.titles: dict[str, str] = {}
        self.gone: set[str] = set()
        """Items that are hidden or retired."""
        self.attributes: dict[str, dict[str, Any]] = {}
        self.merged_into: str | None = None
        real, self.passed = time.time, 0.0
        self.time = patch("time.time", lambda: real() + self.passed)
        self.time.start()
        self.open()

    def open(self) -> None:
        store = ServiceSettings(store=str(self.folder / "s.db"), models=str(self.folder), no_reaction_after="1h")
        self.contexts = [ServiceContext.open(self.folder / self.served, store) for _ in range(2)]
        for context in self.contexts:
            context.experiments.follow()
        self.clients = [TestClient(create_app(context)) for context in self.contexts]

    def in_force(self, user: str) -> list[Reaction]:
        """One reaction per item, the latest, and all skips; what was shown without a reaction replaces none."""
        live = [each for each in self.log.get(user, []) if each.event not in self.retracted.get(user, set())]
        latest: dict[str, Reaction] = {}
        for each in sorted(live, key=lambda each: (each.value is not None, each.time)):
            if each.evidence == "shown":
                latest[each.item] = each
        return [each for each in live if each.evidence == "skip" or latest[each.item] is each]

    def model_of(self, user: str) -> Any:
        place = point(f"test-{self.n_experiments}", user)
        return MODELS[self.served if self.layout is None else self.layout.arm(place)]

    def expected(self, user: str) -> Session:
        """A session of the library with the same reactions."""
        shown = [each for each in self.in_force(user) if each.evidence == "shown"]
        contexts = {each.item: each.context for each in shown if each.context is not None}
        history = [(each.item, each.value) for each in shown]
        recommender = Recommender(self.model_of(user))
        return recommender.session(history, attributes=self.attributes.get(user, {}), contexts=contexts)

    @rule(
        server=SERVERS,
        user=USERS,
        item=ITEMS,
        event=EVENTS,
        value=VALUES,
        kind=st.sampled_from([None, None, "shown", "skip"]),
        context=st.sampled_from(CONTEXTS),
    )
    def react(
        self,
        server: int,
        user: str,
        item: str,
        event: str,
        value: float,
        kind: str | None,
        context: dict[str, Any] | None,
    ) -> None:
        body: dict[str, Any] = {"item": item, "event_id": event, "context": context}
        body |= {"value": value} if kind is None else {"kind": kind}
        self.clock += 1
        evidence = "skip" if kind == "skip" else "shown"
        value_told = value if kind is None else None
        told = Reaction(event, item, value_told, evidence, context, self.clock, time.time())
        answer = self.clients[server].post(f"/v1/users/{user}/feedback", json=body)
        known = next((each for each in self.log.get(user, []) if each.event == event), None)
        is_known = known is not None
        agrees = known is None or known.says_the_same_as(told)
        assert answer.status_code == (200 if agrees else 409), answer.text
        if agrees:
            assert answer.json()["duplicate"] is is_known
        if not is_known:
            self.log.setdefault(user, []).append(told)

    @rule(server=SERVERS, user=USERS, given=st.sampled_from(ATTRIBUTES))
    def set_attributes(self, server: int, user: str, given: dict[str, Any]) -> None:
        answer = self.clients[server].put(f"/v1/users/{user}/attributes", json={"attributes": given})
        assert answer.status_code == 200, answer.text
        assert answer.json()["ignored"] == (
            ["gender: 'x' was too rare in training to count"] if "x" in given.values() else []
        )
        self.attributes[user] = given
        self.log.setdefault(user, [])

    @precondition(lambda self: any(self.log.values()))
    @rule(server=SERVERS, place=st.integers(0, 20))
    def undo(self, server: int, place: int) -> None:
        known = [(user, each.event) for user, log in self.log.items() for each in log]
        user, event = [*known, (known[0][0], "never-sent")][place % (len(known) + 1)]
        is_known = (user, event) in known
        answer = self.clients[server].delete(f"/v1/users/{user}/feedback/{event}")
        assert answer.status_code == (200 if is_known else 404)
        if is_known:
            self.retracted.setdefault(user, set()).add(event)

    @precondition(lambda self: self.log)
    @rule(server=SERVERS, place=st.integers(0, 2))
    def delete(self, server: int, place: int) -> None:
        user = [*self.log][place % len(self.log)]
        self.clients[server].delete(f"/v1/users/{user}").raise_for_status()
        assert user not in self.listed(server)
        for kept in (self.log, self.attributes, self.retracted):
            kept.pop(user, None)
        if user in ("visitor", self.merged_into):
            self.merged_into = None

    @precondition(lambda self: self.log.get("visitor"))
    @rule(server=SERVERS, user=st.sampled_from(["ann", "bob"]))
    def merge(self, server: int, user: str) -> None:
        mine, theirs = self.log.get(user, []), self.log["visitor"]
        if {each.event for each in mine} & {each.event for each in theirs}:
            return  # one event id for two reactions: which counts is a test of its own
        answer = self.clients[server].post(f"/v1/users/{user}/merge", json={"from": "visitor"})
        if self.merged_into not in (None, user):
            assert answer.status_code == 409, answer.text
            return
        assert answer.status_code == 200, answer.text
        self.merged_into = user
        self.log[user] = [*mine, *(replace(each, arrived=time.time()) for each in self.in_force("visitor"))]
        if "visitor" in self.attributes:
            self.attributes[user] = self.attributes.pop("visitor") | self.attributes.get(user, {})
        del self.log["visitor"]
        self.retracted.pop("visitor", None)
        assert self.clients[server].get("/v1/users/visitor").json()["history"] == []
        assert "visitor" not in self.listed(server)

    def after_a_change_of_items(self) -> None:
        """Look as the background threads do within a second."""
        for context in self.contexts:
            context.items.look()

    @rule(server=SERVERS, item=ITEMS, title=st.sampled_from(["one", "two"]), hidden=st.booleans())
    def describe(self, server: int, item: str, title: str, hidden: bool) -> None:
        answer = self.clients[server].post(
            "/v1/items", json={"items": [{"id": item, "title": title, "hidden": hidden}]}
        )
        assert answer.status_code == 200, answer.text
        self.titles[item] = title
        (self.gone.add if hidden else self.gone.discard)(item)
        self.after_a_change_of_items()

    @rule(server=SERVERS, item=ITEMS)
    def retire(self, server: int, item: str) -> None:
        self.clients[server].delete(f"/v1/items/{item}").raise_for_status()
        self.gone.add(item)
        self.after_a_change_of_items()

    @rule(server=SERVERS)
    def swap(self, server: int) -> None:
        self.served = "second" if self.served == "first" else "first"
        self.clients[server].post("/v1/model", json={"folder": self.served}).raise_for_status()
        assert follow(self.contexts[1 - server])

    @rule(server=SERVERS, share=SHARES, arm=st.sampled_from([None, "first", "second"]))
    def experiment(self, server: int, share: float, arm: str | None) -> None:
        """Start an experiment, or give it other shares, or end it."""
        shares = {"first": share, "second": 1 - share}
        if self.layout is None:
            self.n_experiments += 1
            arms = {name: {"share": each, "model": name} for name, each in shares.items()}
            body: dict[str, Any] = {"experiment": {"name": f"test-{self.n_experiments}", "arms": arms}}
            body["action"], self.layout = "start", Layout.first(shares)
        elif share == 0.3:
            body, self.layout = {"action": "shares", "shares": shares}, self.layout.changed(shares)
        elif arm is None:
            body, self.layout = {"action": "stop"}, None
        else:
            body, self.layout, self.served = {"action": "promote", "arm": arm}, None, arm
        answer = self.clients[server].post("/v1/experiments", json=body)
        assert answer.status_code == 200, answer.text
        follow(self.contexts[1 - server])
        self.contexts[1 - server].experiments.follow()

    @rule(server=SERVERS)
    def an_hour_passes(self, server: int) -> None:
        """What the audit says was shown and drew nothing since is ignored."""
        for context in self.contexts:
            context.audit.flush()
        query = sa.select(recommendations).where(recommendations.c.due.is_not(None)).order_by(recommendations.c.due)
        answers = self.contexts[0].store.database.read(lambda connection: connection.execute(query).all())
        for answer in answers:
            for item in [each["item"] for each in json.loads(answer.items)]:
                log = self.log.setdefault(answer.user_id, [])
                done = {each.item for each in self.in_force(answer.user_id) if each.evidence == "shown"}
                if item not in done | {each.item for each in log if each.arrived > answer.time}:
                    self.clock += 1
                    key = f"ignored:{answer.recommendation_id}:{sha256(item.encode()).hexdigest()[:16]}"
                    log.append(Reaction(key, item, None, "shown", None, self.clock))
        self.passed += 3_601
        for _ in range(1 + len(answers) // 200):
            learn_ignored(self.contexts[server])

    @rule()
    def restart(self) -> None:
        for context in self.contexts:
            context.close()
        self.open()

    def listed(self, server: int) -> set[str]:
        return {each["user"] for each in self.clients[server].get("/v1/users").json()["users"]}

    def recommend(self, client: TestClient, user: str) -> None:
        answer = client.post(f"/v1/users/{user}/recommendations", json={"k": 3, "fewer": True}).json()
        assert ("arm" in answer) is (self.layout is not None)
        shown = answer["items"]
        assert not {each.item for each in self.in_force(user) if each.evidence == "shown"} & {e["item"] for e in shown}
        assert not self.gone & {each["item"] for each in shown}
        assert all(each["title"] == self.titles[each["item"]] for each in shown if each["item"] in self.titles)
        means, _ = self.expected(user).moments()
        rows = [self.model_of(user).item_row(each["item"]) for each in shown]
        np.testing.assert_allclose([each["mean"] for each in shown], means[rows], atol=1e-5)

    @invariant()
    def the_service_knows_what_was_acknowledged(self) -> None:
        client = self.clients[self.clock % 2]
        assert {user for user in self.log if self.log[user]} <= self.listed(self.clock % 2)
        for user in self.log:
            found = client.get(f"/v1/users/{user}", params={"cov": True}).json()
            told = [(each.event, each.item, each.value, each.evidence) for each in self.in_force(user)]
            assert [(e["event_id"], e["item"], e["value"], e["evidence"]) for e in found["history"]] == told
            assert found["attributes"] == self.attributes.get(user, {})
            belief = self.expected(user).belief
            np.testing.assert_allclose(found["belief"]["mean"], belief.mean, atol=1e-8)
            np.testing.assert_allclose(found["belief"]["cov"], belief.cov, atol=1e-8)
            for each in self.clients:
                self.recommend(each, user)

    def teardown(self) -> None:
        self.time.stop()
        for context in self.contexts:
            context.close()
        shutil.rmtree(self.folder, ignore_errors=True)


TestService = Service.TestCase
TestService.settings = settings(
    max_examples=15, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
