"""What people do with threads: they find, create, change and delete their own.

A handler's filter has the metadata of the caller's threads, which names their owner; operators see
all threads, so there is none for them (None).
"""

from collections.abc import Sequence
from dataclasses import asdict

from langgraph_sdk import Auth
from langgraph_sdk.auth.types import ThreadsCreate, ThreadsUpdate

from lasting_memory import platform
from lasting_memory.auth import run_requests
from lasting_memory.auth.approvals import Approvals
from lasting_memory.auth.callers import Callers
from lasting_memory.auth.continued_threads import continued_thread, note_pause
from lasting_memory.auth.current_request import current_request
from lasting_memory.auth.deletion import end_run, end_threads
from lasting_memory.auth.handler_values import ThreadDeletion
from lasting_memory.auth.share import THREAD_IN_REQUESTS, share_of
from lasting_memory.auth.temporary_threads import TemporaryThreads
from lasting_memory.deployment import Deployment
from lasting_memory.people.caller import Caller
from lasting_memory.people.identity import Actor, User

AuthContext = Auth.types.AuthContext


class OwnThreads:
    """The handlers of threads."""

    def __init__(
        self,
        deployment: Deployment,
        callers: Callers,
        approvals: Approvals,
        temporary_threads: TemporaryThreads,
    ) -> None:
        self._deployment = deployment
        self._callers = callers
        self._approvals = approvals
        self._temporary_threads = temporary_threads

    async def use(self, ctx: AuthContext, value: object) -> dict[str, str] | None:
        """People read, find and delete their own threads: those with this metadata.

        Operators see all of them.
        """
        caller = self._callers.caller(ctx.user)
        return _filter_of(caller)

    async def create(self, ctx: AuthContext, value: ThreadsCreate) -> dict[str, str] | None:
        """A new thread belongs to the person of the token.

        The client's metadata cannot change that: it is rebuilt, in place. Also deletes the person's
        expired temporary threads.
        """
        caller = self._callers.caller(ctx.user)
        owner = caller.actor
        if not caller.is_operator:
            share = share_of(owner, self._deployment.limits)
            share.charge(THREAD_IN_REQUESTS)
        if value.get("metadata") is None:  # a copy: the platform copies the owner, too
            value["metadata"] = {}
        metadata = value["metadata"]
        run_requests.rebuild_thread_metadata(metadata, self._deployment.agents, new=True)
        await self._temporary_threads.delete_expired(owner)
        metadata.update(asdict(owner))
        return _filter_of(caller)

    async def update(self, ctx: AuthContext, value: ThreadsUpdate) -> dict[str, str] | None:
        """An update never changes the owner.

        Only operators write state where approvals depend on it.
        """
        if "action" in value:
            pass  # the update cancels runs: `metadata` says which
        elif "metadata" in value:
            metadata = value["metadata"]
            run_requests.rebuild_thread_metadata(metadata, self._deployment.agents, new=False)
        else:
            # A state update or supersteps, of which the platform shows only the thread's id.
            thread_id = value.get("thread_id")
            await self._check_state_update(ctx.user, thread_id)
        return await self.use(ctx, value)

    async def _check_state_update(self, user: User, thread_id: object) -> None:
        """Raise `HTTPException` if this user may not write a thread's state, and note a pause."""
        if not self._callers.is_operator(user):
            self._approvals.check_state_write()
        thread = await continued_thread(thread_id)
        if thread is None:
            return
        metadata = thread["metadata"] or {}
        caller = self._callers.owner(user)
        owner_id = metadata.get("user_id", caller.user_id)
        org_id = metadata.get("org_id", caller.org_id)
        await note_pause(self._deployment, Actor(owner_id, org_id), thread)

    async def delete(self, ctx: AuthContext, value: ThreadDeletion) -> dict[str, str] | None:
        """People delete their own threads, and runs of these.

        The runs are stopped first, and write nothing afterwards.
        """
        auth_filter = await self.use(ctx, value)
        thread_id = value.get("thread_id")
        run_id = value.get("run_id")
        if run_id is not None:  # the thread stays
            await _end_run_once(str(thread_id), str(run_id), auth_filter)
            return auth_filter
        ids: Sequence[object] = value.get("thread_ids") or [thread_id]
        thread_ids = {str(thread_id) for thread_id in ids}
        request = current_request()
        if request is not None:  # of many threads the platform asks for all, and then for each
            thread_ids -= request.stopped_ids
        if thread_ids:
            await platform.as_nobody(end_threads(thread_ids, auth_filter))
        return auth_filter


def _filter_of(caller: Caller) -> dict[str, str] | None:
    """The filter of a caller's threads: people see their own, operators all of them (None)."""
    if caller.is_operator:
        return None
    return asdict(caller.actor)


async def _end_run_once(thread_id: str, run_id: str, owner: dict[str, str] | None) -> None:
    """Stop a run that a request deletes, if this request has not stopped it yet.

    With an `owner` only a run of the owner's thread is stopped.
    """
    request = current_request()
    if request is None or run_id in request.stopped_ids:
        return
    await platform.as_nobody(end_run(thread_id, run_id, owner))
    request.stopped_ids.add(run_id)
