"""A real server process, a real browser, and visitors who complain about every error that the page makes."""

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uvicorn
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from igcf.data import synthetic_catalogue
from igcf.lab.baselines.factors import principal_components
from igcf.model import Model, Reward
from igcf.service.context import ServiceContext
from igcf.service.http.application import create_app
from igcf.service.server import bound_socket
from igcf.service.settings import ServiceSettings

CHROMIUM = "/usr/bin/chromium"
ARGS = (
    "--no-sandbox --disable-gpu --disable-background-networking --disable-component-update --disable-sync "
    "--no-first-run"
)
STARS = Reward("satisfied", threshold=4.0, low=1.0, high=5.0)
PATIENCE_MS = 60_000
"""How long a test waits for what must happen: long, since only a failure ever waits so long."""
ADMIN_KEY, CLIENT_KEY = "admin-key-for-tests-0", "client-key-for-tests-0"


@cache
def film_model() -> Model:
    """The embedded catalogue, smaller, with the components of its log as vectors: no training, yet it learns."""
    log = synthetic_catalogue(n_users=600, n_items=400, seed=3)
    satisfied = log.matrix((log.values >= 4).astype(np.float64))
    mean, loadings = principal_components(satisfied, 16, rng=np.random.default_rng(0))
    return Model(
        item_vectors=np.column_stack([mean, loadings]),
        item_ids=log.item_ids,
        prior_mean=np.eye(17)[0],
        prior_cov=np.diag(np.r_[0.0, np.ones(16)]),
        noise_var=0.04,
        reward=STARS,
        titles=log.titles,
        categories=log.categories,
        metadata={"data": {"name": "synthetic", "users": 600, "items": 400, "reactions": len(log.values)}},
    )


def hostile_model(n_items: int = 30) -> Model:
    """Ids, titles and categories that would do harm if they were taken as markup."""
    rng = np.random.default_rng(1)
    harm = '<img src=x onerror="window.harmed=1"><script>window.harmed=2</script><b>&amp;</b>'
    return Model(
        item_vectors=rng.normal(size=(n_items, 6)) / 2,
        prior_mean=rng.normal(size=6) * 0.4,
        prior_cov=np.eye(6),
        noise_var=0.2,
        item_ids=[f"<i>{i}</i>/?#%&\"'" for i in range(n_items)],
        titles=[f"{harm} {i}" for i in range(n_items)],
        categories=[[f"<u>{'odd' if i % 2 else 'even'}</u>"] for i in range(n_items)],
        reward=STARS,
        metadata={"note": harm},
    )


def large_model() -> Model:
    """As many items and dimensions as ML-1M."""
    rng = np.random.default_rng(2)
    return Model(
        item_vectors=rng.normal(size=(3706, 64)) / 8,
        prior_mean=rng.normal(size=64) / 8,
        prior_cov=np.eye(64),
        noise_var=0.2,
        item_ids=[str(i) for i in range(3706)],
        titles=[f"A Film of Some Length, {i} ({1920 + i % 80})" for i in range(3706)],
        categories=[[("Drama", "Comedy", "Horror")[i % 3]] for i in range(3706)],
        reward=STARS,
    )


@dataclass
class Server:
    """`igcf serve` in a process of its own, which can go away and come back at the same address."""

    folder: Path
    store: Path
    options: tuple[str, ...] = ()
    port: int = 0
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> "Server":
        if not self.port:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                self.port = probe.getsockname()[1]
        command = [sys.executable, "-m", "igcf", "serve", str(self.folder), "--port", str(self.port), "--json"]
        command += ["--store", str(self.store), "--log-level", "error", *self.options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | {"OMP_NUM_THREADS": "1"})
        assert self.process.stdout is not None
        assert self.process.stdout.readline(), "the server did not start"
        self.process.stdout.close()
        return self

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(20)
            self.process = None

    def call(self, method: str, path: str, body: object = None, key: str = "") -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)

    def history(self, user: str) -> list[tuple[str, float | None]]:
        return [(event["item"], event["value"]) for event in self.call("GET", f"/v1/users/{user}")["history"]]

    def bets(self, user: str) -> list[dict[str, Any]]:
        """The ten items expected to please most, in the order of the page: the likeliest first."""
        top = self.call("GET", f"/page/users/{user}/beliefs?top=10")["top"]
        return sorted(top, key=lambda bet: -bet["chance"])

    def rows_about(self, user: str) -> list[str]:
        """The tables of the store that mention a user anywhere."""
        with sqlite3.connect(self.store) as store:
            tables = [name for (name,) in store.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            rows = [(table, row) for table in tables for row in store.execute(f'SELECT * FROM "{table}"')]
        store.close()
        return [table for table, row in rows if any(user in str(cell) for cell in row)]


@dataclass
class NearServer(Server):
    """The same application in a thread of this process: there at once, for models that one test needs."""

    app: "uvicorn.Server | None" = None
    thread: threading.Thread | None = None

    def start(self) -> "NearServer":
        context = ServiceContext.open(self.folder, ServiceSettings(store=str(self.store)))
        bound = bound_socket("127.0.0.1", self.port)
        self.port = bound.getsockname()[1]
        self.app = uvicorn.Server(uvicorn.Config(create_app(context), log_level="error"))
        self.thread = threading.Thread(target=self.app.run, kwargs={"sockets": [bound]}, daemon=True)
        self.thread.start()
        return self

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self.app is not None and self.thread is not None:
            self.app.should_exit = True
            self.thread.join(20)
            self.app = self.thread = None


Serve = Callable[..., Server]
IDLE = """() => window.unanswered === 0"""
COUNT_UNANSWERED = """
window.unanswered = 0;
const fetchAsBefore = window.fetch;
window.fetch = async (...asked) => {
  window.unanswered += 1;
  const done = () => setTimeout(() => { window.unanswered -= 1; });  // after whatever follows from the answer
  try {
    const answer = await fetchAsBefore(...asked);
    const content = await answer.text();
    answer.text = async () => content;  // it is there: what follows from it comes before `done`
    answer.json = async () => JSON.parse(content);
    return answer;
  } finally {
    done();
  }
};
"""
"""Counts what the page has asked and is not answered yet, so that tests wait for that and for no clock."""
READY = """() => !document.querySelector("#like").disabled
    && (document.querySelector("#start").hidden || document.querySelector("#start-grid button"))"""
"""The first card can be reacted to, and the first screen, where there is one, knows its items."""


@pytest.fixture(scope="package")  # its event loop runs in this thread: tests elsewhere could run none of their own
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGS.split())
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serve]:
    """Starts servers on models; all are stopped at the end."""
    servers: list[Server] = []

    def starter(model: Model, *options: str) -> Server:
        home = tmp_path_factory.mktemp("server")
        model.save(home / "model")
        servers.append(Server(home / "model", home / "store.db", options).start())
        return servers[-1]

    yield starter
    for server in servers:
        server.stop()


@pytest.fixture(scope="session")
def serve_here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serve]:
    """Starts servers within this process, which is quicker; they cannot be killed."""
    servers: list[Server] = []

    def starter(model: Model) -> Server:
        home = tmp_path_factory.mktemp("server")
        model.save(home / "model")
        servers.append(NearServer(home / "model", home / "store.db").start())
        return servers[-1]

    yield starter
    for server in servers:
        server.stop()


@pytest.fixture(scope="session")
def server(serve: Serve) -> Server:
    """One for all, since every test brings its own user."""
    return serve(film_model())


@dataclass
class Visitor:
    """Somebody in front of the page."""

    page: Page
    server: Server
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    @property
    def context(self) -> BrowserContext:
        return self.page.context

    @property
    def user(self) -> str:
        return str(self.page.evaluate("localStorage.getItem('igcf.user')"))

    @property
    def item(self) -> str:
        return str(self.page.locator(".card:not(.leave)").get_attribute("data-item"))

    def open(self, path: str = "/") -> "Visitor":
        self.page.goto(self.server.url + path)
        if path.startswith("/dashboard"):
            return self
        self.page.wait_for_function(READY)
        if self.page.locator("#start:visible").count():
            self.page.click("#start-cards")
        self.page.wait_for_selector("#like:enabled")
        self.page.wait_for_selector("#bets li")
        return self

    def lab(self) -> "Visitor":
        """Open the drawer, if it is closed."""
        if self.page.locator("#lab").is_hidden():
            self.page.click("#lab-toggle")
        return self

    def after(self, act: Callable[[], object]) -> str:
        """Do something that ends in another card; returns the item that was on the stage before."""
        before = self.item
        act()
        self.page.wait_for_function(
            "before => { const card = document.querySelector('.card:not(.leave)');"
            " return card && card.dataset.item !== undefined && card.dataset.item !== before; }",
            arg=before,
        )
        return before

    def press(self, key: str) -> str:
        return self.after(lambda: self.page.keyboard.press(key))

    def likes(self, *tastes: str) -> bool:
        names = self.page.locator(".card:not(.leave) li").all_text_contents()
        return not set(tastes).isdisjoint(names)

    def settled(self) -> "Visitor":
        """Wait until nothing is asked of the server any more: the panels then show the newest reaction."""
        self.page.wait_for_function(IDLE)
        return self

    def text(self, selector: str) -> str:
        return self.page.locator(selector).inner_text()

    def waiting(self) -> int:
        names = "Object.keys(localStorage).filter(name => name.startsWith('igcf.out.')).length"
        return int(self.page.evaluate(names))


Visit = Callable[..., Visitor]


@pytest.fixture
def visit(browser: Browser, server: Server) -> Iterator[Visit]:
    """Opens the page as a new visitor; at the end, nobody may have seen an error of the page."""
    visitors: list[Visitor] = []

    def opener(at: Server = server, *, path: str | None = "/", **options: Any) -> Visitor:
        context = browser.new_context(**({"viewport": {"width": 1280, "height": 800}} | options))
        context.set_default_timeout(PATIENCE_MS)
        context.add_init_script(COUNT_UNANSWERED)
        visitor = Visitor(context.new_page(), at)
        watch(visitor)
        visitors.append(visitor)
        return visitor if path is None else visitor.open(path)

    yield opener
    for visitor in visitors:
        visitor.context.close()
    assert [error for visitor in visitors for error in visitor.errors] == []


def watch(visitor: Visitor) -> None:
    def heard(kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            visitor.errors.append(text)

    visitor.page.on("console", lambda message: heard(message.type, message.text))
    visitor.page.on("pageerror", lambda error: heard("error", str(error)))
    visitor.page.on("request", lambda request: visitor.requests.append(request.url))
