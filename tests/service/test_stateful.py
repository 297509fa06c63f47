"""Two servers on one store against a simple model in memory: any sequence of calls leaves all with the same beliefs."""

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from igcf.online import Recommender, Session
from igcf.service.context import ServiceContext
from igcf.service.http.application import create_app
from igcf.service.serving.model_swap import follow
from igcf.service.settings import ServiceSettings
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
        self.log: dict[str, list[Reaction]] = {}
        self.retracted: dict[str, set[str]] = {}
        self.titles: dict[str, str] = {}
        self.gone: set[str] = set()
        """Items that are hidden or retired."""
        self.attributes: dict[str, dict[str, Any]] = {}
        self.merged_into: str | None = None
        self.open()

    def open(self) -> None:
        store = ServiceSettings(store=str(self.folder / "s.db"), models=str(self.folder))
        self.contexts = [ServiceContext.open(self.folder / self.served, store) for _ in range(2)]
        self.clients = [TestClient(create_app(context)) for context in self.contexts]

    def in_force(self, user: str) -> list[Reaction]:
        """One reaction per item, the latest, and all skips; what was shown without a reaction replaces none."""
        live = [each for each in self.log.get(user, []) if each.event not in self.retracted.get(user, set())]
        latest: dict[str, Reaction] = {}
        for each in sorted(live, key=lambda each: (each.value is not None, each.time)):
            if each.evidence == "shown":
                latest[each.item] = each
        return [each for each in live if each.evidence == "skip" or latest[each.item] is each]

    def expected(self, user: str) -> Session:
        """A session of the library with the same reactions."""
        shown = [each for each in self.in_force(user) if each.evidence == "shown"]
        contexts = {each.item: each.context for each in shown if each.context is not None}
        history = [(each.item, each.value) for each in shown]
        recommender = Recommender(MODELS[self.served])
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
        told = Reaction(event, item, value if kind is None else None, evidence, context, self.clock)
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

    @rule(server=SERVERS, user=USERS, event=EVENTS)
    def undo(self, server: int, user: str, event: str) -> None:
        is_known = any(each.event == event for each in self.log.get(user, []))
        answer = self.clients[server].delete(f"/v1/users/{user}/feedback/{event}")
        assert answer.status_code == (200 if is_known else 404)
        if is_known:
            self.retracted.setdefault(user, set()).add(event)

    @rule(server=SERVERS, user=USERS)
    def delete(self, server: int, user: str) -> None:
        self.clients[server].delete(f"/v1/users/{user}").raise_for_status()
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
        self.log[user] = [*mine, *self.in_force("visitor")]
        if "visitor" in self.attributes:
            self.attributes[user] = self.attributes.pop("visitor") | self.attributes.get(user, {})
        del self.log["visitor"]
        self.retracted.pop("visitor", None)
        assert self.clients[server].get("/v1/users/visitor").json()["history"] == []

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

    @rule()
    def restart(self) -> None:
        for context in self.contexts:
            context.close()
        self.open()

    def recommend(self, client: TestClient, user: str) -> None:
        ask = {"k": 3, "fewer": True}
        shown = client.post(f"/v1/users/{user}/recommendations", json=ask).json()["items"]
        assert not {each.item for each in self.in_force(user) if each.evidence == "shown"} & {e["item"] for e in shown}
        assert not self.gone & {each["item"] for each in shown}
        assert all(each["title"] == self.titles[each["item"]] for each in shown if each["item"] in self.titles)
        means, _ = self.expected(user).moments()
        rows = [MODELS[self.served].item_row(each["item"]) for each in shown]
        np.testing.assert_allclose([each["mean"] for each in shown], means[rows], atol=1e-5)

    @invariant()
    def the_service_knows_what_was_acknowledged(self) -> None:
        client = self.clients[self.clock % 2]
        listed = {each["user"] for each in client.get("/v1/users").json()["users"]}
        assert {user for user in self.log if self.log[user]} <= listed
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
        for context in self.contexts:
            context.close()
        shutil.rmtree(self.folder, ignore_errors=True)


TestService = Service.TestCase
TestService.settings = settings(
    max_examples=8, stateful_step_count=15, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
