"""What users' reactions say about the items that were added to a model; saved with it (docs/maths.md, New items)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from igcf.arrays import AnyFloatArray, FloatArray
from igcf.errors import ModelError

PREFIX = "evidence_"
"""How the names of the arrays of this evidence begin in a model folder."""


@dataclass(frozen=True, eq=False)
class UserEvidence:
    """What one user's reaction says about an item: all that the item's posterior needs of it."""

    user: FloatArray
    """Mean of the user's vector before the reaction, (d,)."""
    spreads: FloatArray
    """Variance of z that is due to the uncertainty about the user, (channels, classes)."""
    rewards: FloatArray
    """Reward of the reaction in each channel, (channels,); NaN where it says nothing."""
    weight: float = 1.0
    """Weight of the reaction beside others, in (0, 1]."""
    is_success: bool = True


@dataclass(frozen=True, eq=False)
class SettledItem:
    """The final posterior of an item that is learned no further: a mixture over classes of items."""

    shares: FloatArray
    """Probability of each class, (classes,)."""
    means: tuple[AnyFloatArray, ...]
    """Mean of the item's vector in each class, (classes, width) per channel."""


@dataclass(frozen=True, eq=False)
class ItemEvidence:
    """Evidence about one item: one contribution per user, or the final posterior once the item is settled."""

    contributions: Mapping[int, UserEvidence] = field(default_factory=dict)
    """By the number drawn for the user, in order of arrival."""
    settled: SettledItem | None = None


def evidence_arrays(evidence: Sequence[ItemEvidence]) -> dict[str, npt.NDArray[Any]]:
    """Return the evidence of all added items as arrays, by their names in a model folder."""
    pairs = [pair for each in evidence for pair in each.contributions.items()]
    settled = [(place, each.settled) for place, each in enumerate(evidence) if each.settled is not None]
    arrays: dict[str, npt.NDArray[Any]] = {"counts": np.array([len(each.contributions) for each in evidence])}
    if pairs:
        arrays["numbers"] = np.array([number for number, _ in pairs], dtype=np.uint64)
        for name in ("user", "spreads", "rewards", "weight", "is_success"):
            arrays[name] = np.array([getattr(each, name) for _, each in pairs])
    if settled:
        arrays["settled"] = np.array([place for place, _ in settled])
        arrays["shares"] = np.array([each.shares for _, each in settled])
        for channel in range(len(settled[0][1].means)):
            arrays[f"means_{channel}"] = np.array([each.means[channel] for _, each in settled])
    return {f"{PREFIX}{name}": np.ascontiguousarray(array) for name, array in arrays.items()}


def evidence_from_arrays(arrays: Mapping[str, npt.NDArray[Any]], n_channels: int) -> tuple[ItemEvidence, ...]:
    """Build the evidence from the arrays of a model folder; an empty tuple where there are none."""
    own = {name.removeprefix(PREFIX): array for name, array in arrays.items() if name.startswith(PREFIX)}
    if "counts" not in own:
        return ()
    ends = np.cumsum(own["counts"])
    if len(ends) and ends[-1] != len(own.get("numbers", ())):
        raise ModelError(f"the evidence about added items has {len(own.get('numbers', ()))} entries, not {ends[-1]}")
    columns = [own[name] for name in ("user", "spreads", "rewards", "weight", "is_success")] if "numbers" in own else []
    if not all(np.isfinite(column).all() for column in columns[:2]):
        raise ModelError("the evidence about added items holds NaN or infinite numbers; restore the model")
    settled = {int(place): index for index, place in enumerate(own.get("settled", ()))}
    found = []
    for place, (end, count) in enumerate(zip(ends.tolist(), own["counts"].tolist(), strict=True)):
        contributions = {
            int(own["numbers"][i]): UserEvidence(
                columns[0][i], columns[1][i], columns[2][i], float(columns[3][i]), bool(columns[4][i])
            )
            for i in range(end - count, end)
        }
        final = None
        if place in settled:
            index = settled[place]
            final = SettledItem(
                own["shares"][index], tuple(own[f"means_{channel}"][index] for channel in range(n_channels))
            )
        found.append(ItemEvidence(contributions, final))
    return tuple(found)
