"""The blocks of a user's vector that are learned apart from each other, as a scoring engine goes through them."""

from dataclasses import dataclass, field

import numpy as np

from igcf.model import Channel, Model
from igcf.online.backend.types import Arrays, Block

MOST_VALUES = 100
"""Values of reactions whose rewards are kept; logs have a few, or any number."""


@dataclass(frozen=True, eq=False)
class ScoredBlock:
    """A block of the user's vector: the channels whose vectors live in it, and which of them are scored."""

    channels: tuple[Channel, ...]
    numbers: tuple[int, ...]
    """Numbers of these channels in the model."""
    arrays: Block
    _rewards: dict[float, tuple[float, ...]] = field(default_factory=dict)

    def rewards_of(self, value: float) -> tuple[float, ...]:
        """The reward of a reaction in each channel; NaN reveals nothing. Those of a few values are kept."""
        found = self._rewards.get(value)
        if found is None:
            if len(self._rewards) == MOST_VALUES:
                self._rewards.clear()
            found = self._rewards[value] = tuple([channel.reward.of_one(value) for channel in self.channels])
        return found


def scored_blocks(model: Model, items: Arrays) -> tuple[ScoredBlock, ...]:
    """Build the blocks of a model; `items` are the vectors of its scored channels in the precision of the engine."""
    found = []
    for span, numbers in model.blocks:
        channels = tuple(model.channels[number] for number in numbers)
        places = tuple(place for place, number in enumerate(model.scored) if number in numbers)
        arrays = Block(
            span.start,
            tuple(channel.vectors for channel in channels),
            tuple(channel.noise_var for channel in channels),
            np.array([channel.link == "logit" for channel in channels]),
            tuple(items[place] for place in places),
            places,
        )
        found.append(ScoredBlock(channels, numbers, arrays))
    return tuple(found)
