"""A job's workers as the first one sees them: it calls a method of `Shard`, and all run it at the same time."""

import json
from collections.abc import Callable, Iterator
from dataclasses import fields
from datetime import timedelta
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch.distributed import Store  # type: ignore[attr-defined]

from igcf.config import PretrainConfig
from igcf.errors import IgcfError, WorkerLostError
from igcf.graph import Propagation
from igcf.training.graph.shard import Shard
from igcf.training.graph.training_pairs import Problem
from igcf.training.sharded.group import Group
from igcf.training.sharded.layout import Layout

PATIENCE = timedelta(days=365)
"""Workers wait for the next order while the first one validates; if it dies, their connection to it breaks."""
ORDERS = ("epoch", "remember", "vectors", "collect", "restore")


class Team:
    """The workers of a job, seen from rank 0; without a group there is only this process."""

    def __init__(
        self, group: Group | None = None, store: Store | None = None, *, n_workers: int = 1, coordinated: bool = False
    ) -> None:
        self.group = group
        self.n_workers = n_workers
        self._store, self._coordinated = store, coordinated
        self._n_orders = 0
        self._shard: Shard | None = None

    @property
    def shard(self) -> Shard:
        """The share of this process."""
        assert self._shard is not None, "begin comes first"  # noqa: S101
        return self._shard

    def begin(self, problem: Problem, config: PretrainConfig) -> None:
        """Give every worker its share of a new training."""
        self._shard = None
        layout = Layout(config.dim, problem.n_users, problem.n_items, self.n_workers, self._coordinated)
        if self.group is not None:
            self._order("begin", config=config.as_dict(), n_workers=self.n_workers, coordinated=self._coordinated)
            for rank in range(1, self.group.size):
                send_problem(problem.of_users(layout.users(rank)), self.group, rank)
        self._shard = Shard(problem, config, layout=layout, group=self.group)

    def call(self, method: Callable[..., Any], mine: dict[str, Any] | None = None, /, **arguments: Any) -> Any:
        """Let all workers run a method of `Shard`; returns what it gives here. Only here it also gets `mine`."""
        if self.group is not None:
            self._order(method.__name__, **arguments)
        return method(self.shard, **arguments, **(mine or {}))

    def stop(self) -> None:
        """Send the workers home."""
        if self.group is not None:
            self._order("stop")

    def _order(self, name: str, /, **arguments: Any) -> None:
        assert self._store is not None  # noqa: S101
        try:
            self._store.set(_key(self._n_orders), json.dumps([name, arguments]))
        except RuntimeError as error:
            raise WorkerLostError(f"the workers' meeting point is gone ({str(error).splitlines()[0]})") from error
        self._n_orders += 1


def follow(group: Group, store: Store) -> None:
    """Do what rank 0 orders until it says stop; returns early where the job broke, which rank 0 reports."""
    shard: Shard | None = None
    number = 0
    while True:
        try:
            store.wait([_key(number)], PATIENCE)
            name, arguments = json.loads(store.get(_key(number)))
        except RuntimeError:
            return
        number += 1
        try:
            if name == "stop":
                return
            if name == "begin":
                shard = None
                shard = _received_shard(group, **arguments)
            elif name in ORDERS:
                _exhaust(getattr(shard, name)(**arguments))
        except WorkerLostError:
            return
        except IgcfError:  # a divergence, which all ranks see
            shard = None


def send_problem(problem: Problem, group: Group, rank: int) -> None:
    """A worker's pairs and the whole graph."""
    graph = problem.propagation.adjacency
    arrays = {
        "user_idx": problem.user_idx,
        "item_idx": problem.item_idx,
        "targets": problem.targets,
        "rows": np.arange(len(problem.targets)) if problem.rows is None else problem.rows,
        "indptr": graph.indptr,
        "indices": graph.indices,
        "data": graph.data,
    }
    header = {
        "n_users": problem.n_users,
        "n_items": problem.n_items,
        "n_pairs": problem.n_pairs,
        "fingerprint": problem.fingerprint,
        "users": [problem.users.start, problem.users.stop],
        "weights": problem.propagation.weights,
        "arrays": {name: [str(array.dtype), len(array)] for name, array in arrays.items()},
    }
    text = torch.frombuffer(bytearray(json.dumps(header).encode()), dtype=torch.uint8)
    group.send(torch.tensor([len(text)]), rank)
    group.send(text, rank)
    for array in arrays.values():
        group.send(torch.from_numpy(np.ascontiguousarray(array)), rank)


def received_problem(group: Group) -> Problem:
    """The other end of `send_problem`."""
    length = int(group.receive(torch.empty(1, dtype=torch.int64), 0))
    header = json.loads(bytes(group.receive(torch.empty(length, dtype=torch.uint8), 0).numpy()))
    arrays = {
        name: group.receive(torch.from_numpy(np.empty(size, dtype=dtype)), 0).numpy()
        for name, (dtype, size) in header["arrays"].items()
    }
    n_nodes = header["n_users"] + header["n_items"]
    graph = sp.csr_array((arrays["data"], arrays["indices"], arrays["indptr"]), shape=(n_nodes, n_nodes))
    return Problem(
        n_users=header["n_users"],
        n_items=header["n_items"],
        user_idx=arrays["user_idx"],
        item_idx=arrays["item_idx"],
        targets=arrays["targets"],
        propagation=Propagation(graph, tuple(header["weights"])),
        fingerprint=header["fingerprint"],
        users=range(*header["users"]),
        n_pairs=header["n_pairs"],
        rows=arrays["rows"],
    )


def _received_shard(group: Group, config: dict[str, Any], n_workers: int, coordinated: bool) -> Shard:
    problem = received_problem(group)
    weights = config["layer_weights"]
    known = {field.name: config[field.name] for field in fields(PretrainConfig)}
    settings = PretrainConfig(**known | {"layer_weights": None if weights is None else tuple(weights)})
    layout = Layout(settings.dim, problem.n_users, problem.n_items, n_workers, coordinated)
    return Shard(problem, settings, layout=layout, group=group)


def _key(number: int) -> str:
    return f"order/{number}"


def _exhaust(result: object) -> None:
    if isinstance(result, Iterator):
        for _ in result:
            pass
