"""Requests over loopback with the standard library, and what becomes of them in the ledger."""

import http.client
import json
import socket
from dataclasses import dataclass
from typing import Any

from tools.torture.ledger import Ledger, Reaction

TIMEOUT_S = 30.0


class Lost(Exception):  # noqa: N818 - no error: breaking connections is what is done here
    """No answer came: whether the request was carried out is not known."""


@dataclass(frozen=True)
class Reply:
    """A status and a body."""

    status: int
    body: Any

    def said(self) -> str:
        """Shorten the reply for a message."""
        return f"{self.status} {json.dumps(self.body)[:200]}"


def call(port: int, method: str, path: str, body: object = None, *, timeout: float = TIMEOUT_S) -> Reply:
    """Send one request over a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        content = None if body is None else json.dumps(body)
        connection.request(method, path, content, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        return Reply(answer.status, json.loads(text) if text[:1] in (b"{", b"[") else text.decode())
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise Lost(f"{method} {path}: {type(error).__name__}: {error}") from error
    finally:
        connection.close()


def send_and_leave(port: int, path: str, body: object, *, after_s: float) -> None:
    """Send one request and close the connection after a while, whatever has come by then."""
    content = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(content)}"
    )
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=max(after_s, 0.001)) as connection:
            connection.sendall(head.encode() + b"\r\n\r\n" + content)
            connection.recv(1)
    except OSError:
        pass  # the answer may or may not have been on its way


def react(ledger: Ledger, port: int, reaction: Reaction) -> Reply | None:
    """Send a reaction of any kind by the route for one; None where no answer came."""
    if reaction.evidence == "logged":
        return add_history(ledger, port, [reaction])
    reply = _counted(ledger, port, "POST", f"/v1/users/{reaction.user}/feedback", reaction.body())
    if reply is not None and reply.status == 200:
        ledger.acknowledge(reaction, reply.body)
    return reply


def add_history(ledger: Ledger, port: int, reactions: list[Reaction]) -> Reply | None:
    """Send logged reactions of one user."""
    body = {"reactions": [reaction.body() for reaction in reactions]}
    reply = _counted(ledger, port, "POST", f"/v1/users/{reactions[0].user}/history", body)
    if reply is not None and reply.status == 200:
        for reaction in reactions:
            ledger.acknowledge(reaction, {})
    return reply


def react_batch(ledger: Ledger, port: int, reactions: list[Reaction]) -> Reply | None:
    """Send reactions of several users at once; each is acknowledged or refused by itself."""
    body = {"feedback": [reaction.body() | {"user": reaction.user} for reaction in reactions]}
    reply = _counted(ledger, port, "POST", "/v1/feedback", body)
    if reply is not None and reply.status == 200:
        for reaction, receipt in zip(reactions, reply.body["results"], strict=True):
            if receipt.get("error") is None:
                ledger.acknowledge(reaction, receipt)
    return reply


def take_back(ledger: Ledger, port: int, reaction: Reaction) -> Reply | None:
    """Retract a reaction; asked again, the answer is the same, and 404 where the user has been deleted."""
    reaction.is_taken_back = None
    reply = _counted(ledger, port, "DELETE", f"/v1/users/{reaction.user}/feedback/{reaction.event_id}")
    if reply is not None and (reply.status == 200 or (reaction.user in ledger.deleted and reply.status == 404)):
        reaction.is_taken_back = True
    return reply


def delete_user(ledger: Ledger, port: int, user: str) -> Reply | None:
    """Have a user deleted."""
    ledger.deleted.setdefault(user, False)
    reply = _counted(ledger, port, "DELETE", f"/v1/users/{user}")
    if reply is not None and reply.status == 200:
        ledger.deleted[user] = True
    return reply


def recommend(ledger: Ledger, port: int, user: str, k: int = 5) -> Reply | None:
    """Ask for items."""
    return _counted(ledger, port, "POST", f"/v1/users/{user}/recommendations", {"k": k})


def _counted(ledger: Ledger, port: int, method: str, path: str, body: object = None) -> Reply | None:
    try:
        reply = call(port, method, path, body)
    except Lost:
        ledger.count(is_lost=True)
        return None
    ledger.count(is_lost=reply.status >= 500)
    if reply.status not in ledger.allowed:
        ledger.complain(f"{method} {path} was answered {reply.said()}")
    return reply
