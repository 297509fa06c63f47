"""Connections between the workers of a job (gloo), with a count of what is sent."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor
from torch.distributed import PrefixStore, ProcessGroupGloo, Store, Work  # type: ignore[attr-defined]

from igcf.arrays import FloatArray
from igcf.errors import WorkerLostError
from igcf.training.cluster.layout import Layout

SILENCE = timedelta(minutes=30)
"""Time after which a worker that is alive but silent is given up; a dead one is noticed at once."""


class Group:
    """Connections between the ranks 0 .. size - 1 of a job, seen from one of them."""

    def __init__(self, store: Store, rank: int, size: int, *, host: str | None = None) -> None:
        self.rank, self.size = rank, size
        self.sent = 0
        """Number of bytes that this rank has sent so far."""
        gloo: Any = ProcessGroupGloo  # its type stubs are incomplete
        with _lost_if_broken():
            if host is None:  # torch finds the address, or takes it from GLOO_SOCKET_IFNAME
                self._gloo = gloo(PrefixStore("gloo", store), rank, size, SILENCE)
            else:
                options = gloo._Options()
                options._devices = [gloo.create_device(hostname=host)]
                options._timeout = SILENCE
                self._gloo = gloo(PrefixStore("gloo", store), rank, size, options)

    def send(self, message: Tensor, to: int) -> None:
        """Send a tensor; an empty one is not sent."""
        with _lost_if_broken():
            self._wait(self._sending(message, to))

    def receive(self, into: Tensor, source: int) -> Tensor:
        """Fill a tensor with what a rank sends."""
        with _lost_if_broken():
            self._wait(self._receiving(into, source))
        return into

    def swap(self, message: Tensor, to: int, into: Tensor, source: int) -> None:
        """Send and receive at the same time."""
        with _lost_if_broken():
            self._wait(self._sending(message, to), self._receiving(into, source))

    def total(self, numbers: FloatArray) -> FloatArray:
        """Return the sum over all ranks, at every rank."""
        result = torch.from_numpy(numbers.copy())
        with _lost_if_broken():
            self._wait(self._gloo.allreduce([result]))
        self.sent += result.nbytes
        return result.numpy()

    def _sending(self, message: Tensor, to: int) -> Work | None:
        self.sent += message.nbytes
        return self._gloo.send([message.contiguous()], to, 0) if message.numel() else None

    def _receiving(self, into: Tensor, source: int) -> Work | None:
        return self._gloo.recv([into], source, 0) if into.numel() else None

    @staticmethod
    def _wait(*works: Work | None) -> None:
        for work in works:
            if work is not None:
                work.wait()


@contextmanager
def _lost_if_broken() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise WorkerLostError(f"the connection to another worker broke ({str(error).splitlines()[0]})") from error


def gather_columns(block: Tensor, layout: Layout, group: Group | None) -> Tensor | None:
    """Return the columns of all ranks side by side, at rank 0; None at the others."""
    if group is None:
        return block
    if group.rank > 0:
        group.send(block, 0)
        return None
    whole = block.new_empty(len(block), layout.dim)
    for rank in range(group.size):
        columns = layout.columns(rank)
        part = block if rank == 0 else group.receive(block.new_empty(len(block), len(columns)), rank)
        whole[:, columns.start : columns.stop] = part
    return whole


def scatter_columns(whole: Tensor | None, into: Tensor, layout: Layout, group: Group | None) -> None:
    """Send every rank its columns of what rank 0 holds."""
    if group is not None and group.rank > 0:
        into.copy_(group.receive(torch.empty(into.shape), 0))
        return
    assert whole is not None  # noqa: S101
    for rank in range(1, layout.n_ranks):
        assert group is not None  # noqa: S101
        columns = layout.columns(rank)
        group.send(whole[:, columns.start : columns.stop], rank)
    mine = layout.columns(0)
    into.copy_(whole[:, mine.start : mine.stop])
