"""The artifact that pretraining writes and the online phase reads; never torch."""

from igcf.model.channel import Channel, Term
from igcf.model.model import Model
from igcf.model.reward import Reward

__all__ = ["Channel", "Model", "Reward", "Term"]
