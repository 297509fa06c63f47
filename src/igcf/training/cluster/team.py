"""Orders from rank 0 to the workers of a training: it calls a method of `Shard`, and all run it at the same time."""

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch.distributed import Store  # type: ignore[attr-defined]

from igcf.config import GraphConfig, field_types
from igcf.errors import IgcfError, WorkerLostError
from igcf.graph import Propagation
from igcf.training.cluster.group import Group
from igcf.training.cluster.layout import Layout
from igcf.training.variational.shard import Shard
from igcf.training.variational.training_pairs import TrainingPairs

PATIENCE = timedelta(days=365)
"""Workers wait for the next order while the first one validates; if it dies, their connection to it breaks."""
ORDERS = ("epoch", "remember", "vectors", "collect", "restore")


class Team:
    """Workers of a training as rank 0 sees them; without a group there is only this process."""

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
        """Share of this process."""
        assert self._shard is not None, "begin comes first"  # noqa: S101
        return self._shard

    def begin(self, training_pairs: TrainingPairs, config: GraphConfig) -> None:
        """Send every worker its share of a new training."""
        self._shard = None
        layout = Layout(config.dim, training_pairs.n_users, training_pairs.n_items, self.n_workers, self._coordinated)
        if self.group is not None:
            self._order("begin", config=config.as_dict(), n_workers=self.n_workers, coordinated=self._coordinated)
            for rank in range(1, self.group.size):
                send_pairs(training_pairs.for_users(layout.users(rank)), self.group, rank)
        self._shard = Shard(training_pairs, config, layout=layout, group=self.group)

    def call(self, method: Callable[..., Any], mine: dict[str, Any] | None = None, /, **arguments: Any) -> Any:
        """Let all workers run a method of `Shard`, and return its result here; only here it also gets `mine`."""
        if self.group is not None:
            self._order(method.__name__, **arguments)
        return method(self.shard, **arguments, **(mine or {}))

    def stop(self) -> None:
        """Tell the workers that there is nothing more to do."""
        if self.group is not None:
            self._order("stop")

    def _order(self, name: str, /, **arguments: Any) -> None:
        assert self._store is not None  # noqa: S101
        try:
            self._store.set(_key(self._n_orders), json.dumps([name, arguments]))
        except RuntimeError as error:
            raise WorkerLostError(f"the workers' store is gone ({str(error).splitlines()[0]})") from error
        self._n_orders += 1


def worker_loop(group: Group, store: Store) -> None:
    """Run what rank 0 orders until it says stop; return early where the job broke, which rank 0 reports."""
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


def send_pairs(training_pairs: TrainingPairs, group: Group, rank: int) -> None:
    """Send a worker its pairs and the whole graph."""
    graph = training_pairs.propagation.adjacency
    arrays = {
        "user_idx": training_pairs.user_idx,
        "item_idx": training_pairs.item_idx,
        "targets": training_pairs.targets,
        "rows": np.arange(len(training_pairs.targets)) if training_pairs.rows is None else training_pairs.rows,
        "indptr": graph.indptr,
        "indices": graph.indices,
        "data": graph.data,
    }
    header = {
        "n_users": training_pairs.n_users,
        "n_items": training_pairs.n_items,
        "n_pairs": training_pairs.n_pairs,
        "fingerprint": training_pairs.fingerprint,
        "users": [training_pairs.users.start, training_pairs.users.stop],
        "weights": training_pairs.propagation.weights,
        "arrays": {name: [str(array.dtype), len(array)] for name, array in arrays.items()},
    }
    text = torch.frombuffer(bytearray(json.dumps(header).encode()), dtype=torch.uint8)
    group.send(torch.tensor([len(text)]), rank)
    group.send(text, rank)
    for array in arrays.values():
        group.send(torch.from_numpy(np.ascontiguousarray(array)), rank)


def receive_pairs(group: Group) -> TrainingPairs:
    """Receive what `send_pairs` sends."""
    length = int(group.receive(torch.empty(1, dtype=torch.int64), 0))
    header = json.loads(bytes(group.receive(torch.empty(length, dtype=torch.uint8), 0).numpy()))
    arrays = {
        name: group.receive(torch.from_numpy(np.empty(size, dtype=dtype)), 0).numpy()
        for name, (dtype, size) in header["arrays"].items()
    }
    n_nodes = header["n_users"] + header["n_items"]
    graph = sp.csr_array((arrays["data"], arrays["indices"], arrays["indptr"]), shape=(n_nodes, n_nodes))
    return TrainingPairs(
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
    training_pairs = receive_pairs(group)
    settings = GraphConfig(**{name: config[name] for name in field_types(GraphConfig)})
    layout = Layout(settings.dim, training_pairs.n_users, training_pairs.n_items, n_workers, coordinated)
    return Shard(training_pairs, settings, layout=layout, group=group)


def _key(number: int) -> str:
    return f"order/{number}"


def _exhaust(result: object) -> None:
    if isinstance(result, Iterator):
        for _ in result:
            pass
