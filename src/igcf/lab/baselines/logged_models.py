"""Models that start from a logged history, many users in lock-step."""

from collections.abc import Sequence

from igcf.lab.baselines.logged import Logged
from igcf.online import ModelLearner
from igcf.online.evidence import belief_from_logged


class LoggedModelLearner(ModelLearner):
    """Learner of a model that can be told what a log holds of its users."""

    def know(self, logged: Sequence[Logged]) -> None:
        """Start each user from the belief that the whole record leads to, in which absence counts."""
        for user, each in enumerate(logged):
            if len(each.rows):
                belief, offset = belief_from_logged(self.model, each.rows, each.values)
                self.engine.set_belief(belief, user, offset=offset)
