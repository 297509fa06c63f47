"""The service against a simple model in memory: any sequence of calls leaves both with the same reactions."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from igcf.online import Recommender
from igcf.service.context import ServiceContext
from igcf.service.http.application import create_app
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
Reaction = tuple[str, str, float | None, str]
"""Event id, item, value and evidence."""


class Service(RuleBasedStateMachine):
    """What was acknowledged, kept as plain lists, beside the real service on SQLite."""

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        for name in MODELS:
            MODELS[name].save(self.folder / name)
        self.served = "first"
        self.log: dict[str, list[Reaction]] = {}
        self.retracted: dict[str, set[str]] = {}
        self.titles: dict[str, str] = {}
        self.attributes: dict[str, dict[str, Any]] = {}
        self.open()

    def open(self) -> None:
        store = ServiceSettings(store=str(self.folder / "s.db"), models=str(self.folder))
        self.context = ServiceContext.open(self.folder / self.served, store)
        self.client = TestClient(create_app(self.context))

    def in_force(self, user: str) -> list[Reaction]:
        return [each for each in self.log.get(user, []) if each[0] not in self.retracted.get(user, set())]

    @rule(user=USERS, item=ITEMS, event=EVENTS, value=VALUES, kind=st.sampled_from([None, None, "shown", "skip"]))
    def react(self, user: str, item: str, event: str, value: float, kind: str | None) -> None:
        body: dict[str, Any] = {"item": item, "event_id": event}
        body |= {"value": value} if kind is None else {"kind": kind}
        told: Reaction = (event, item, value if kind is None else None, "skip" if kind == "skip" else "shown")
        answer = self.client.post(f"/v1/users/{user}/feedback", json=body)
        known = next((each for each in self.log.get(user, []) if each[0] == event), None)
        assert answer.status_code == (200 if known in (None, told) else 409), answer.text
        if answer.status_code == 200:
            assert answer.json()["duplicate"] is (known is not None)
        if known is None:
            self.log.setdefault(user, []).append(told)

    @rule(user=USERS, given=st.sampled_from(ATTRIBUTES))
    def set_attributes(self, user: str, given: dict[str, Any]) -> None:
        answer = self.client.put(f"/v1/users/{user}/attributes", json={"attributes": given})
        assert answer.status_code == 200, answer.text
        assert answer.json()["ignored"] == (
            ["gender: 'x' was too rare in training to count"] if "x" in given.values() else []
        )
        self.attributes[user] = given
        self.log.setdefault(user, [])

    @rule(user=USERS, event=EVENTS)
    def undo(self, user: str, event: str) -> None:
        is_known = any(each[0] == event for each in self.log.get(user, []))
        answer = self.client.delete(f"/v1/users/{user}/feedback/{event}")
        assert answer.status_code == (200 if is_known else 404)
        if is_known:
            self.retracted.setdefault(user, set()).add(event)

    @rule(user=USERS)
    def delete(self, user: str) -> None:
        self.client.delete(f"/v1/users/{user}").raise_for_status()
        self.log.pop(user, None)
        self.attributes.pop(user, None)
        self.retracted.pop(user, None)

    @precondition(lambda self: self.log.get("visitor"))
    @rule(user=st.sampled_from(["ann", "bob"]))
    def merge(self, user: str) -> None:
        mine, theirs = self.log.get(user, []), self.log.get("visitor", [])
        if {each[0] for each in mine} & {each[0] for each in theirs}:
            return  # one event id for two reactions: which counts is a test of its own
        wanted = [*self.in_force(user), *self.in_force("visitor")]
        self.client.post(f"/v1/users/{user}/merge", json={"from": "visitor"}).raise_for_status()
        history = self.client.get(f"/v1/users/{user}").json()["history"]
        found: list[Reaction] = [(e["event_id"], e["item"], e["value"], e["evidence"]) for e in history]
        assert sorted(found, key=str) == sorted(wanted, key=str)
        undone = [each for each in (*mine, *theirs) if each not in wanted]
        self.log[user] = [*undone, *found]
        self.retracted[user] = {each[0] for each in undone}
        if "visitor" in self.attributes:
            self.attributes[user] = self.attributes.pop("visitor") | self.attributes.get(user, {})
        del self.log["visitor"]
        self.retracted.pop("visitor", None)
        assert self.client.get("/v1/users/visitor").json()["history"] == []

    @rule(item=ITEMS, title=st.sampled_from(["one", "two"]))
    def describe(self, item: str, title: str) -> None:
        self.client.patch(f"/v1/items/{item}", json={"title": title}).raise_for_status()
        self.titles[item] = title

    @rule()
    def swap(self) -> None:
        self.served = "second" if self.served == "first" else "first"
        self.client.post("/v1/model", json={"folder": self.served}).raise_for_status()

    @rule()
    def restart(self) -> None:
        self.context.close()
        self.open()

    @rule(user=USERS)
    def recommend(self, user: str) -> None:
        shown = self.client.post(f"/v1/users/{user}/recommendations", json={"k": 3, "fewer": True}).json()["items"]
        seen = {item for _, item, _, evidence in self.in_force(user) if evidence == "shown"}
        assert not seen & {each["item"] for each in shown}
        assert all(each["title"] == self.titles[each["item"]] for each in shown if each["item"] in self.titles)

    @invariant()
    def the_service_knows_what_was_acknowledged(self) -> None:
        listed = {each["user"] for each in self.client.get("/v1/users").json()["users"]}
        assert {user for user in self.log if self.log[user]} <= listed
        for user in self.log:
            found = self.client.get(f"/v1/users/{user}", params={"cov": True}).json()
            expected = self.in_force(user)
            assert [(e["event_id"], e["item"], e["value"], e["evidence"]) for e in found["history"]] == expected
            history = [(item, value) for _, item, value, evidence in expected if evidence == "shown"]
            own = self.attributes.get(user, {})
            assert found["attributes"] == own
            belief = Recommender(MODELS[self.served]).session(history, attributes=own).belief
            np.testing.assert_allclose(found["belief"]["mean"], belief.mean, atol=1e-8)
            np.testing.assert_allclose(found["belief"]["cov"], belief.cov, atol=1e-8)

    def teardown(self) -> None:
        self.context.close()
        shutil.rmtree(self.folder, ignore_errors=True)


TestService = Service.TestCase
TestService.settings = settings(
    max_examples=8, stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
