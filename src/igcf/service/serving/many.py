"""Answers for many users at once, and one user made of two."""

from igcf.errors import ConfigError, IgcfError
from igcf.service.context import ServiceContext
from igcf.service.errors import problem
from igcf.service.models.requests import BatchRequest, RecommendationRequest
from igcf.service.models.responses import BatchResponse, BatchResult, MergeReceipt
from igcf.service.serving.recommending import answer_rules, check_limits, recommend, resolve_policy
from igcf.service.store.merging import merge_users
from igcf.service.store.merging_across import merge_across


def recommend_to_many(context: ServiceContext, ask: BatchRequest) -> BatchResponse:
    """Answer `POST /v1/recommendations`; what fails for one user is told in their place."""
    if len(set(ask.users)) < len(ask.users):
        twice = next(user for user in ask.users if ask.users.count(user) > 1)
        raise ConfigError(f"user {twice!r} is named twice; expected each user once")
    own = RecommendationRequest.model_validate(ask.model_dump(exclude={"users"}, exclude_unset=True))
    check_limits(context.settings, own)
    if context.items.is_stale:
        context.items.refresh()
    served = context.current_model.served
    resolve_policy(context.settings, served.policy, own.policy, own.nu)  # a mistake of all is told once
    rules = answer_rules(context.rules, own)
    if rules is not None:
        rules.compiled(served.catalogue)
    versions = context.store.versions(ask.users) if context.store.parts[0].database.is_postgres else {}
    results = []
    for user in ask.users:
        try:
            results.append(BatchResult(user=user, answer=recommend(context, user, own, versions.get(user))))
        except IgcfError as error:
            told = problem(error)
            results.append(BatchResult(user=user, error=told["error"], message=told["message"]))
    return BatchResponse(results=results)


def merge(context: ServiceContext, user_id: str, visitor: str) -> MergeReceipt:
    """Answer `POST /v1/users/{user}/merge`."""
    if visitor == user_id:
        raise ConfigError(f"user {user_id!r} cannot be merged into itself; name the visitor in 'from'")
    context.audit.flush(visitor)
    source, target = context.store.of(visitor).database, context.store.of(user_id).database
    merged = (
        merge_users(target, visitor, user_id) if source is target else merge_across(source, target, visitor, user_id)
    )
    if context.audit.folder is not None:
        context.audit.folder.rename_user(visitor, user_id)
    context.users.forget(visitor)
    return MergeReceipt(user=user_id, **vars(merged))
