"""Answers for many users at once, and one user made of two."""

from igcf.errors import ConfigError, IgcfError
from igcf.service.context import ServiceContext
from igcf.service.errors import RequestCancelledError, problem
from igcf.service.lanes import budget_of_request
from igcf.service.models.requests import BatchRequest, RecommendationRequest
from igcf.service.models.responses import BatchResponse, BatchResult, MergeReceipt
from igcf.service.serving.recommending import answer_rules, check_limits, recommend, resolve_policy


def recommend_to_many(context: ServiceContext, ask: BatchRequest) -> BatchResponse:
    """Answer `POST /v1/recommendations`; what fails for one user is told in their place."""
    if len(set(ask.users)) < len(ask.users):
        twice = next(user for user in ask.users if ask.users.count(user) > 1)
        raise ConfigError(f"user {twice!r} is named twice; expected each user once")
    own = RecommendationRequest.model_validate(ask.model_dump(exclude={"users"}, exclude_unset=True))
    check_limits(context.settings, own)
    if context.items.is_stale:
        context.items.look()
    served = context.current_model.served
    resolve_policy(context.settings, served.policy, own.policy, own.nu)  # a mistake of all is told once
    rules = answer_rules(context.rules, own)
    if rules is not None:
        rules.compiled(served.catalogue)
    versions = context.store.versions(ask.users) if context.store.database.is_postgres else {}
    results, budget = [], budget_of_request.get()
    for user in ask.users:
        try:
            budget.check()
            results.append(BatchResult(user=user, answer=recommend(context, user, own, versions.get(user))))
        except RequestCancelledError:
            raise
        except IgcfError as error:
            told = problem(error)
            results.append(BatchResult(user=user, error=told["error"], message=told["message"]))
    return BatchResponse(results=results)


def merge(context: ServiceContext, user_id: str, visitor: str) -> MergeReceipt:
    """Answer `POST /v1/users/{user}/merge`."""
    if visitor == user_id:
        raise ConfigError(f"user {user_id!r} cannot be merged into itself; name the visitor in 'from'")
    context.audit.flush()
    merged = context.store.merge(visitor, user_id, context.current_model.served.model_id)
    context.users.forget(visitor)
    return MergeReceipt(user=user_id, **vars(merged))
