"""Answers about the model in service."""

from igcf.online.policies import POLICIES, Policy
from igcf.service.models.model_responses import ModelInfo, PolicyInfo, RewardInfo
from igcf.service.serving.current_model import CurrentModel
from igcf.service.serving.recommending import resolve_policy
from igcf.service.settings import ServiceSettings

LIMITS = ("max_k", "max_nu", "max_list", "max_batch", "max_body", "max_items")


def model_info(current_model: CurrentModel, settings: ServiceSettings) -> ModelInfo:
    """Answer `GET /v1/model`."""
    served = current_model.served
    reward = served.model.reward
    return ModelInfo(
        model=served.model_id,
        items=served.model.n_items,
        dim=served.model.dim,
        reward=RewardInfo(
            kind=reward.kind,
            threshold=reward.threshold,
            low=reward.low,
            high=reward.high,
            implicit=reward.is_implicit,
        ),
        satisfied=served.satisfied,
        kinds=served.model.kinds,
        objective=served.model.objective,
        policy=resolve_policy(settings, served.policy, None, None)[0],
        policies=[_described(kind) for kind in POLICIES.values()],
        forgetting=settings.forgetting,
        limits={name: getattr(settings, name) for name in LIMITS},
        metadata=served.model.metadata,
        generation=current_model.generation,
    )


def _described(kind: type[Policy]) -> PolicyInfo:
    text = (kind.__doc__ or "").partition("\n")[0]
    parameters = {each.name: each.default for each in kind.parameters()}
    return PolicyInfo(name=kind.name, label=kind.label, description=text, parameters=parameters)
