"""What people and operators may do with the platform's store API."""

import logging
from collections.abc import Mapping

from langgraph_sdk import Auth

from lasting_memory import platform
from lasting_memory.auth.handler_values import StoreRequest
from lasting_memory.deployment import Change, Deployment
from lasting_memory.memory.stored_files import text_of
from lasting_memory.memory.validation import check_change, check_policy
from lasting_memory.people import identity, namespaces
from lasting_memory.people.caller import Caller
from lasting_memory.people.identity import Actor, Author
from lasting_memory.people.namespaces import Namespace
from lasting_memory.plain_text import plain

logger = logging.getLogger("auth")
HTTPException = Auth.exceptions.HTTPException
AuthContext = Auth.types.AuthContext


async def check_store_access(
    deployment: Deployment, ctx: AuthContext, value: StoreRequest, caller: Caller
) -> None:
    """Return if this caller may do `ctx.action` with the item or namespace in `value`.

    People read their own memory and their organization's policies. The agent or an operator writes
    them. With the permission `policies:write` people also write the policies of their own
    organization, and the log says so; `value` then has the policy's text and nothing else. Raises
    `HTTPException` 403 or 422, and `RefusedWrite` for a policy that no prompt could show, or that a
    check of the deployment refuses.
    """
    namespace = tuple(value.get("namespace") or ())
    if caller.is_operator:
        if ctx.action == "put":
            await _note_assistant(namespace)
        return
    is_own_policies = namespace == namespaces.policies(caller.actor.org_id)
    if ctx.action in {"put", "delete"} and is_own_policies:
        await _check_policy_write(deployment, ctx, value, caller.actor)
        return
    _check_read(deployment, ctx, value, caller)


async def _note_assistant(namespace: Namespace) -> None:
    """Note that a person has memory with the assistant of this namespace, if it is such a one."""
    item = namespaces.noted(namespace)
    if item:
        store = await platform.store()
        await store.aput(*item, {}, index=False)


async def _check_policy_write(
    deployment: Deployment, ctx: AuthContext, value: StoreRequest, actor: Actor
) -> None:
    """Return if a person may put or delete this policy of their organization, and log it.

    Of a put, `value` then has the policy's text and nothing else. Raises `HTTPException` 403 without
    the permission, `RefusedWrite` for a policy that no prompt could show, or that a check of the
    deployment refuses.
    """
    if not identity.may_write_policies(ctx.user, deployment.settings):
        raise HTTPException(
            403, f"Changing policies takes the permission {identity.WRITE_POLICIES}."
        )
    key = value["key"]
    policy = _with_plain_text(value.get("value"))
    check_policy(key, policy)
    await _check_policy_change(deployment, actor, key, policy)
    if ctx.action == "put" and policy is not None:
        stored_policy = {"content": policy["content"], "encoding": "utf-8"}
        value["value"] = stored_policy
        value["index"] = False
        value["ttl"] = None
    # A warning, so that no usual log level hides it.
    logger.warning(
        "AUDIT policies.%s org=%r by=%r key=%r", ctx.action, actor.org_id, actor.user_id, key
    )


def _with_plain_text(policy: Mapping[str, object] | None) -> Mapping[str, object] | None:
    """A policy with its text as files keep it; what has no text is left as it is."""
    if policy is None:
        return None
    content = policy.get("content")
    if not isinstance(content, str):
        return policy
    return {**policy, "content": plain(content)}


async def _check_policy_change(
    deployment: Deployment, actor: Actor, key: str, policy: Mapping[str, object] | None
) -> None:
    """Raise `RefusedWrite` if a check of the deployment refuses this policy.

    `policy` is the new value under `key`; None deletes it.
    """
    store = await platform.store()
    namespace = namespaces.policies(actor.org_id)
    item = await store.aget(namespace, key)
    old_text = None
    if item:
        old_text = text_of(item)
    new_text = None
    if policy:
        content = policy.get("content")
        if isinstance(content, str):  # as `check_policy` wants it
            new_text = content
    author = Author("person", actor.user_id)
    change = Change(f"/policies{key}", old_text, new_text, author)
    await platform.in_thread(check_change, deployment, change)


def _check_read(
    deployment: Deployment, ctx: AuthContext, value: StoreRequest, caller: Caller
) -> None:
    """Raise `HTTPException` for all but a person's reading of what is theirs to read."""
    namespace = tuple(value.get("namespace") or ())
    is_read = ctx.action in {"get", "search", "list_namespaces"}
    if not is_read or not deployment.may_read(namespace, caller.actor, caller.claims):
        raise HTTPException(
            403,
            "You may read your own memory and your organization's policies here, nothing else.",
        )
    filters = value.get("filter") or {}
    for filter_value in filters.values():
        if isinstance(filter_value, Mapping | list):
            # "$gt" and others fail for some values.
            raise HTTPException(422, "A filter takes texts, numbers and booleans.")
