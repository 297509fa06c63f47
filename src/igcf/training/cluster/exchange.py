"""The one exchange of a training step: from a worker's columns of all nodes to its users and all items, and back."""

from typing import Any

import torch
from torch import Tensor

from igcf.training.cluster.group import Group
from igcf.training.cluster.layout import Layout


def rows_of_columns(nodes: Tensor, layout: Layout, group: Group | None) -> tuple[Tensor, Tensor]:
    """Return this worker's users and all items in all dimensions from everybody's columns, with gradient."""
    if group is None:
        users, items = torch.split(nodes, [layout.n_users, layout.n_items])
    else:
        users, items = _Rows.apply(nodes, layout, group)  # type: ignore[no-untyped-call]
    return users, items


class _Rows(torch.autograd.Function):
    """Exchange in which every rank swaps blocks with one other at a time: at most one block is in memory."""

    @staticmethod
    def forward(ctx: Any, nodes: Tensor, layout: Layout, group: Group) -> tuple[Tensor, Tensor]:
        ctx.layout, ctx.group = layout, group
        n_users = len(layout.users(group.rank))
        rows = nodes.new_empty(layout.n_rows(group.rank), layout.dim)
        mine = layout.columns(group.rank)
        rows[:, mine.start : mine.stop] = _block(nodes, layout, group.rank)
        for shift in range(1, group.size):
            to, source = (group.rank + shift) % group.size, (group.rank - shift) % group.size
            columns = layout.columns(source)
            block = nodes.new_empty(len(rows), len(columns))
            group.swap(_block(nodes, layout, to), to, block, source)
            rows[:, columns.start : columns.stop] = block
        if not n_users:  # nobody to score: the items are not sent
            return rows, nodes.new_zeros(layout.n_items, layout.dim)
        return rows[:n_users], rows[n_users:]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        """Collect gradients: a user's comes from one rank, an item's is the sum over all of them."""
        layout, group = ctx.layout, ctx.group
        if not layout.users(group.rank):
            grads = (grads[0], grads[1][:0])
        mine = layout.columns(group.rank)
        result = grads[0].new_zeros(layout.n_users + layout.n_items, len(mine))
        _add(result, torch.cat([side[:, mine.start : mine.stop] for side in grads]), layout, group.rank)
        for shift in range(1, group.size):
            to, source = (group.rank + shift) % group.size, (group.rank - shift) % group.size
            columns = layout.columns(to)
            message = torch.cat([side[:, columns.start : columns.stop] for side in grads])
            block = result.new_empty(layout.n_rows(source), len(mine))
            group.swap(message, to, block, source)
            _add(result, block, layout, source)
        return result, None, None


def _block(nodes: Tensor, layout: Layout, rank: int) -> Tensor:
    """Return the rows that a rank needs."""
    users = layout.users(rank)
    if not users:
        return nodes[:0]
    return torch.cat([nodes[users.start : users.stop], nodes[layout.n_users :]])


def _add(nodes: Tensor, block: Tensor, layout: Layout, rank: int) -> None:
    """Put the rows of a rank back to their places."""
    users = layout.users(rank)
    if users:
        nodes[users.start : users.stop] = block[: len(users)]
        nodes[layout.n_users :] += block[len(users) :]
