"""The inner loops of the online phase in NumPy, as one backend."""

from igcf.model.neighbours import scattered
from igcf.online.backend import (
    numpy_absence,
    numpy_beliefs,
    numpy_chance,
    numpy_classes,
    numpy_histories,
    numpy_items,
    numpy_selection,
)


class NumpyBackend:
    """Everything that the engine needs computed, in NumPy: the interface of all backends and what they fall back to."""

    name = "numpy"
    update_beliefs = staticmethod(numpy_beliefs.update_beliefs)
    update_belief = staticmethod(numpy_beliefs.update_belief)
    read_pairs = staticmethod(numpy_histories.read_pairs)
    learn = staticmethod(numpy_histories.learn)
    learn_in_turn = staticmethod(numpy_histories.learn_in_turn)
    chances_of_logits = staticmethod(numpy_chance.chances_of_logits)
    chances_of_probabilities = staticmethod(numpy_chance.chances_of_probabilities)
    chances_of_values = staticmethod(numpy_chance.chances_of_values)
    counted_class = staticmethod(numpy_classes.counted_class)
    counted_classes = staticmethod(numpy_classes.counted_classes)
    observe_and_rescore = staticmethod(numpy_items.observe_and_rescore)
    rescore_users = staticmethod(numpy_items.rescore_users)
    variances_of = staticmethod(numpy_items.variances_of)
    moments_at = staticmethod(numpy_items.moments_at)
    multiply = staticmethod(numpy_items.multiply)
    add_information = staticmethod(numpy_items.add_information)
    scattered = staticmethod(scattered)
    find_mode = staticmethod(numpy_absence.find_mode)
    expected_rewards = staticmethod(numpy_items.expected_rewards)
    reward_variances = staticmethod(numpy_items.reward_variances)
    select_users = staticmethod(numpy_selection.select_users)
    count_above = staticmethod(numpy_selection.count_above)
