"""Two servers on one store against a simple model in memory: any sequence of calls leaves all with the same beliefs."""

import json
import shutil
import tempfile
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
from igcf.model import Model
from igcf.online import Recommender, Session
from igcf.service.context import ServiceContext
from igcf.service.http.application import create_app
from igcf.service.serving.model_swap import follow, learn_ignored
from igcf.service.settings import ServiceSettings
from igcf.service.store.tables import recommendations
from igcf.training.content import fit_content
from tests.service.conftest import small_model
from tests.service.plain_service import PlainUser, Reaction
from tests.toys import attributed, contextual

NEW = "new"
"""An item that no model was trained with."""
NAMES, OLD_ITEMS = ("ann", "bob", "visitor"), tuple(f"item-{n}" for n in range(5))
USERS, ITEMS = st.sampled_from(NAMES), st.sampled_from([*OLD_ITEMS, NEW])
EVENTS, VALUES = st.sampled_from([f"e{n}" for n in range(8)]), st.sampled_from([1.0, 4.0, 5.0])


def _model(seed: int) -> Model:
    model = contextual(attributed(small_model(12, 3, seed=seed)))
    return model.changed(content=fit_content(model))


MODELS = {"first": _model(0), "second": _model(1)}
ATTRIBUTES: list[dict[str, Any]] = [{}, {"gender": "f"}, {"country": ["de", "fr"], "income": 10}, {"gender": "x"}]
CONTEXTS: list[dict[str, Any] | None] = [None, {"device": "phone"}, {"device": "desk", "time": "2026-11-15T10:00:00Z"}]
SERVERS = st.integers(0, 1)
SHARES = st.sampled_from([0.0, 0.3, 0.5, 1.0])
LONG_AGO = st.sampled_from([None, 1.6e9, 1.6e9 + 1])
"""When a logged reaction happened."""


def _own(user: str, event: str) -> str:
    """Name an event of a user; a visitor's ids differ from those of the user whom the visitor becomes."""
    return f"visitor-{event}" if user == "visitor" else event


class Service(RuleBasedStateMachine):
    """What was acknowledged, kept as plain lists, beside two real servers on one SQLite file."""

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        for name in MODELS:
            MODELS[name].save(self.folder / name)
        self.served, self.turn = "first", 0
        self.layout: Layout | None = None
        """Who is in which arm of the experiment that runs; its arms are named after their models."""
        self.n_experiments = 0
        self.users: dict[str, PlainUser] = {}
        self.deleted: list[str] = []
        self.titles: dict[str, str] = {}
        self.gone: set[str] = set()
        """Items that are hidden or retired."""
        self.merged_into: str | None = None
        self.now = 1.7e9
        self.time = patch("time.time", lambda: self.now)
        self.time.start()
        self.open()

    def open(self) -> None:
        store = ServiceSettings(store=str(self.folder / "s.db"), models=str(self.folder), no_reaction_after="1h")
        self.contexts = [ServiceContext.open(self.folder / self.served, store) for _ in range(2)]
        for context in self.contexts:
            context.experiments.follow()
        self.clients = [TestClient(create_app(context)) for context in self.contexts]

    def user(self, name: str) -> PlainUser:
        return self.users.get(name, PlainUser())

    def tell(self, name: str, told: Reaction) -> str:
        """What a server must say to a reaction, which the plain user then has, too."""
        if told.evidence != "logged" and told.item == NEW and NEW not in self.titles:
            return "unknown"
        return self.users.setdefault(name, PlainUser()).react(told, self.now)

    def model_of(self, user: str) -> Model:
        place = point(f"test-{self.n_experiments}", user)
        return MODELS[self.served if self.layout is None else self.layout.arm(place)]

    def expected(self, name: str) -> Session:
        """A session of the library with the same reactions to what its model was trained with."""
        user = self.user(name)
        found = [each for each in user.in_force() if each.item != NEW]
        shown = [each for each in found if each.evidence == "shown"]
        contexts = {each.item: each.context for each in shown if each.context is not None}
        history, logged = (
            [(each.item, each.value) for each in found if each.evidence == kind] for kind in ("shown", "logged")
        )
        recommender = Recommender(self.model_of(name))
        return recommender.session(history, logged=logged, attributes=user.attributes, contexts=contexts)

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
        event = _own(user, event)
        body: dict[str, Any] = {"item": item, "event_id": event, "context": context}
        body |= {"value": value} if kind is None else {"kind": kind}
        evidence = "skip" if kind == "skip" else "shown"
        told = self.tell(user, Reaction(event, item, value if kind is None else None, evidence, context))
        answer = self.clients[server].post(f"/v1/users/{user}/feedback", json=body)
        assert answer.status_code == {"unknown": 404, "conflict": 409}.get(told, 200), answer.text
        if answer.status_code == 200:
            assert answer.json()["duplicate"] is (told == "duplicate")

    @rule(server=SERVERS, entries=st.lists(st.tuples(USERS, ITEMS, EVENTS, VALUES), min_size=1, max_size=4))
    def react_in_a_batch(self, server: int, entries: list[tuple[str, str, str, float]]) -> None:
        """One entry is about an item that does not exist."""
        entries = [(user, item, _own(user, event), value) for user, item, event, value in entries]
        bodies = [{"user": user, "item": item, "event_id": event, "value": v} for user, item, event, v in entries]
        bodies.insert(1, bodies[0] | {"item": "nothing", "event_id": "bad"})
        told = [self.tell(user, Reaction(event, item, value)) for user, item, event, value in entries]
        answer = self.clients[server].post("/v1/feedback", json={"feedback": bodies}).json()["results"]
        found = [
            {"UnknownItemError": "unknown", "EventConflictError": "conflict"}[each["error"]]
            if "error" in each
            else "duplicate" if each["duplicate"] else "stored"
            for each in answer
        ]  # fmt: skip
        assert found == [told[0], "unknown", *told[1:]]

    @rule(
        server=SERVERS, user=USERS, entries=st.lists(st.tuples(ITEMS, EVENTS, VALUES, LONG_AGO), min_size=1, max_size=3)
    )
    def import_history(self, server: int, user: str, entries: list[tuple[str, str, float, float | None]]) -> None:
        names = ("item", "event_id", "value", "time")
        entries = [(item, _own(user, event), value, when) for item, event, value, when in entries]
        body = {"reactions": [dict(zip(names, entry, strict=True)) for entry in entries]}
        told = [self.tell(user, Reaction(event, item, value, "logged", None, t)) for item, event, value, t in entries]
        answer = self.clients[server].post(f"/v1/users/{user}/history", json=body).json()
        assert (answer["stored"], answer["duplicates"]) == (told.count("stored"), told.count("duplicate"))
        assert len(answer["conflicts"]) == told.count("conflict")

    @rule(server=SERVERS, user=USERS, given=st.sampled_from(ATTRIBUTES))
    def set_attributes(self, server: int, user: str, given: dict[str, Any]) -> None:
        answer = self.clients[server].put(f"/v1/users/{user}/attributes", json={"attributes": given})
        assert answer.status_code == 200, answer.text
        assert answer.json()["ignored"] == (
            ["gender: 'x' is unknown or was too rare in training"] if "x" in given.values() else []
        )
        if given != self.user(user).attributes:
            self.users.setdefault(user, PlainUser()).describe(given, self.now)

    @precondition(lambda self: any(user.log for user in self.users.values()))
    @rule(server=SERVERS, place=st.integers(0, 20))
    def undo(self, server: int, place: int) -> None:
        known = [(name, each.event) for name, user in self.users.items() for each in user.log]
        name, event = [*known, (known[0][0], "never-sent")][place % (len(known) + 1)]
        is_known = (name, event) in known
        answer = self.clients[server].delete(f"/v1/users/{name}/feedback/{event}")
        assert answer.status_code == (200 if is_known else 404)
        if is_known:
            self.users[name].undo(event, self.now)

    @precondition(lambda self: self.users)
    @rule(server=SERVERS, place=st.integers(0, 2))
    def delete(self, server: int, place: int) -> None:
        name = [*self.users][place % len(self.users)]
        self.clients[server].delete(f"/v1/users/{name}").raise_for_status()
        del self.users[name]
        self.deleted.append(name)
        if name in ("visitor", self.merged_into):
            self.merged_into = None

    @precondition(lambda self: self.deleted)
    @rule(server=SERVERS, item=st.sampled_from(OLD_ITEMS), given=st.sampled_from(ATTRIBUTES))
    def come_back_after_a_deletion_and_be_deleted_again(self, server: int, item: str, given: dict[str, Any]) -> None:
        name = self.deleted[-1]
        self.set_attributes(server, name, given)
        self.react(1 - server, name, item, "e0", 5.0, None, None)
        self.the_service_knows_what_was_acknowledged()
        self.delete(server, [*self.users].index(name))

    @precondition(lambda self: "visitor" in self.users and self.users["visitor"].log)
    @rule(
        server=SERVERS,
        name=st.sampled_from(["ann", "bob"]),
        own=st.sampled_from(ATTRIBUTES),
        visitors=st.sampled_from(ATTRIBUTES),
    )
    def merge(self, server: int, name: str, own: dict[str, Any], visitors: dict[str, Any]) -> None:
        self.set_attributes(server, name, own)
        self.set_attributes(server, "visitor", visitors)
        mine, visitor = self.user(name), self.users["visitor"]
        if {each.event for each in mine.log} & {each.event for each in visitor.log}:
            return  # one event id for two reactions: which counts is a test of its own
        answer = self.clients[server].post(f"/v1/users/{name}/merge", json={"from": "visitor"})
        if self.merged_into not in (None, name):
            assert answer.status_code == 409, answer.text
            return
        assert answer.status_code == 200, answer.text
        self.merged_into = name
        mine.take_over(visitor, self.now)
        del self.users["visitor"]
        if mine.log or mine.attributes:
            self.users[name] = mine

    def after_a_change_of_items(self) -> None:
        """Look as the background threads do within a second."""
        for context in self.contexts:
            context.items.look()

    @rule(server=SERVERS, item=ITEMS, title=st.sampled_from(["one", "two"]), hidden=st.booleans())
    def describe(self, server: int, item: str, title: str, hidden: bool) -> None:
        described = {"id": item, "title": title, "hidden": hidden, "categories": ["even"]}
        answer = self.clients[server].post("/v1/items", json={"items": [described]})
        assert answer.status_code == 200, answer.text
        self.titles[item] = title
        (self.gone.add if hidden else self.gone.discard)(item)
        self.after_a_change_of_items()

    @rule(server=SERVERS, item=ITEMS)
    def retire(self, server: int, item: str) -> None:
        is_known = item != NEW or NEW in self.titles
        assert self.clients[server].delete(f"/v1/items/{item}").status_code == (200 if is_known else 404)
        if is_known:
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
        self.now += 3_601
        for answer in (each for each in answers if each.due <= self.now):
            items = list(dict.fromkeys(each["item"] for each in json.loads(answer.items)))
            user = self.user(answer.user_id)
            user.ignore(items, answer.recommendation_id, answer.time, answer.due, self.now)
            if user.log:
                self.users[answer.user_id] = user
        for _ in range(1 + len(answers) // 200):
            learn_ignored(self.contexts[server])

    @rule(seconds=st.sampled_from([5, 600]))
    def the_clock_is_set_back(self, seconds: int) -> None:
        self.now -= seconds

    @rule()
    def restart(self) -> None:
        for context in self.contexts:
            context.close()
        self.open()

    def recommend(self, client: TestClient, name: str) -> None:
        answer = client.post(f"/v1/users/{name}/recommendations", json={"k": 3, "fewer": True}).json()
        assert ("arm" in answer) is (self.layout is not None)
        shown, reactions = answer["items"], [each for each in self.user(name).in_force() if each.evidence != "skip"]
        assert not ({each.item for each in reactions} | self.gone) & {each["item"] for each in shown}
        assert all(each["title"] == self.titles[each["item"]] for each in shown if each["item"] in self.titles)
        if NEW not in {each.item for each in reactions}:
            means, _ = self.expected(name).moments()
            known = [each for each in shown if each["item"] != NEW]
            rows = [self.model_of(name).item_row(each["item"]) for each in known]
            np.testing.assert_allclose([each["mean"] for each in known], means[rows], atol=1e-5)

    @invariant()
    def the_service_knows_what_was_acknowledged(self) -> None:
        self.turn, self.now = self.turn + 1, self.now + 1.0
        client = self.clients[self.turn % 2]
        assert {each["user"] for each in client.get("/v1/users").json()["users"]} == set(self.users)
        for name in NAMES:
            found = client.get(f"/v1/users/{name}", params={"cov": True}).json()
            user = self.user(name)
            told = [(each.event, each.item, each.value, each.evidence) for each in user.in_force()]
            assert [(e["event_id"], e["item"], e["value"], e["evidence"]) for e in found["history"]] == told
            assert found["attributes"] == user.attributes
            if NEW not in {each.item for each in user.in_force() if each.evidence != "skip"}:
                belief = self.expected(name).belief
                np.testing.assert_allclose(found["belief"]["mean"], belief.mean, atol=1e-8)
                np.testing.assert_allclose(found["belief"]["cov"], belief.cov, atol=1e-8)
            for each in self.clients:
                self.recommend(each, name)
        self.all_servers_know_the_same_of_the_new_item()

    def all_servers_know_the_same_of_the_new_item(self) -> None:
        for context in self.contexts:
            context.items_from_log.look(context.current_model.served)
        if NEW in self.titles:
            both = [client.get(f"/v1/items/{NEW}").json()["new"] for client in self.clients]
            voices = [each for user in self.users.values() for each in user.in_force() if each.item == NEW]
            assert both[0]["reactions"] == sum(each.evidence == "shown" for each in voices)
            np.testing.assert_allclose(both[0]["expected"], both[1]["expected"], atol=1e-8)

    def teardown(self) -> None:
        self.time.stop()
        for context in self.contexts:
            context.close()
        shutil.rmtree(self.folder, ignore_errors=True)


TestService = Service.TestCase
TestService.settings = settings(
    max_examples=15, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
