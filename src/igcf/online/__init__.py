"""The online phase: beliefs, scoring, policies, sessions; never torch."""

from igcf.online.answers import Contribution, Explanation, Recommendation
from igcf.online.belief import Belief
from igcf.online.engine import ScoringEngine
from igcf.online.environment import Environment, Learner, ModelLearner, Shown, replay
from igcf.online.evidence import LoggedBelief, belief_from_logged
from igcf.online.learning import learned, prior_belief
from igcf.online.new_items.trials import Exposure
from igcf.online.policies import POLICIES, Greedy, InfoUcb, Policy, Thompson, Ucb, named_policy, parameter
from igcf.online.recommender import Recommender, SimilarItem
from igcf.online.rules import Rules
from igcf.online.selection import top_k
from igcf.online.session import Session

__all__ = [
    "POLICIES",
    "Belief",
    "Contribution",
    "Environment",
    "Explanation",
    "Exposure",
    "Greedy",
    "InfoUcb",
    "Learner",
    "LoggedBelief",
    "ModelLearner",
    "Policy",
    "Recommendation",
    "Recommender",
    "Rules",
    "ScoringEngine",
    "Session",
    "Shown",
    "SimilarItem",
    "Thompson",
    "Ucb",
    "belief_from_logged",
    "learned",
    "named_policy",
    "parameter",
    "prior_belief",
    "replay",
    "top_k",
]
