"""What people and operators run, and as whom: each run's request is checked, rebuilt and stamped.

A run's request is rebuilt from lists of what it may have (`run_requests.py`, `state_input.py`). The
stamp is the run's metadata: its owner, the claims of groups with which it begins, and marks.
"""

from collections.abc import Mapping
from dataclasses import asdict

from langgraph_sdk import Auth
from langgraph_sdk.schema import Thread

from lasting_memory import platform
from lasting_memory.auth import message_marks, run_requests, state_input
from lasting_memory.auth.admission import check_run
from lasting_memory.auth.approvals import Approvals
from lasting_memory.auth.callers import Callers
from lasting_memory.auth.continuation import check_continuation
from lasting_memory.auth.continued_threads import continued_thread, note_pause
from lasting_memory.auth.handler_values import RunRequest, configurable_of
from lasting_memory.auth.operator_runs import OperatorRuns
from lasting_memory.auth.run_requests import GROUP_CLAIMS, GROUP_CLAIMS_EXPIRE_AT
from lasting_memory.auth.temporary_threads import TemporaryThreads
from lasting_memory.auth.thread_messages import check_messages
from lasting_memory.conversations.marks import HELD_WHILE_PAUSED, TEMPORARY, is_temporary
from lasting_memory.deployment import Deployment
from lasting_memory.memory.own_offers import note_groups
from lasting_memory.people import identity
from lasting_memory.people.identity import Actor, User
from lasting_memory.settings import CONSOLIDATION_GRAPH

_CONSOLIDATION = identity.assistant_of(CONSOLIDATION_GRAPH)

AuthContext = Auth.types.AuthContext


class RunCreation:
    """The handler of runs that are to be created."""

    def __init__(
        self,
        deployment: Deployment,
        callers: Callers,
        approvals: Approvals,
        operator_runs: OperatorRuns,
        temporary_threads: TemporaryThreads,
    ) -> None:
        self._deployment = deployment
        self._callers = callers
        self._approvals = approvals
        self._operator_runs = operator_runs
        self._temporary_threads = temporary_threads

    async def create(self, ctx: AuthContext, value: RunRequest) -> dict[str, str] | None:
        """A run on one's own thread or a new one.

        Stamps the owner, and on an operator's run the person that it acts as. Every way to start or
        resume a run arrives here: runs, streams, batches, stateless ones, event-stream commands,
        MCP, A2A and crons. Returns the filter of the threads that the run may be on; None, for any,
        to an operator.
        """
        user = ctx.user
        kwargs = value["kwargs"]
        is_operator = self._callers.is_operator(user)
        # What the request says, before it is rebuilt.
        command = kwargs.get("command") or {}
        resumes = command.get("resume") is not None
        asks_temporary = _asks_temporary(value)
        if not is_operator and _writes_state(command):
            self._approvals.check_state_write()
        await _rebuild_run(value, is_operator=is_operator)
        thread = await continued_thread(value["thread_id"])
        _mark_temporary(value, thread, asks_temporary=asks_temporary)
        if not is_operator:
            await check_continuation(self._approvals, thread, kwargs, resumes=resumes)
        if thread is None:
            thread_owner = self._callers.owner(user)
            await self._temporary_threads.delete_expired(thread_owner)
        if is_operator:
            owner = await self._operator_runs.act_as(user, thread, kwargs)
            if owner.user_id != user.identity:
                message_marks.mark_spoken_for(kwargs)
        else:
            owner = self._callers.owner(user, kwargs.get("context"))
            await self._note_groups(user, owner)
            await check_messages(thread, kwargs)
            await check_run(owner, value, self._deployment)
        metadata = value["metadata"]
        metadata.update(asdict(owner))
        self._stamp_groups(user, value, is_operator=is_operator)
        is_paused = await note_pause(self._deployment, owner, thread)
        if is_paused:
            metadata[HELD_WHILE_PAUSED] = True  # also of the thread that the run creates
        if is_operator:
            return None
        return asdict(owner)

    async def _note_groups(self, user: User, owner: Actor) -> None:
        """Withdraw what a person offers to groups that they have left, by the claims of this token."""
        if self._deployment.has_offers:
            store = await platform.store()
            await note_groups(store, owner, self._deployment, user)

    def _stamp_groups(self, user: User, value: RunRequest, *, is_operator: bool) -> None:
        """Stamp a run with the claims of groups with which it begins.

        An operator who resumes it goes on with these.
        """
        if not self._deployment.claims:
            return
        run_user: User | Mapping[str, object] = user
        if is_operator:
            configurable = configurable_of(value["kwargs"]["config"])
            stamped_user = configurable["langgraph_auth_user"]
            if isinstance(stamped_user, Mapping):
                run_user = stamped_user
        membership = identity.membership_of(run_user)
        metadata = value["metadata"]
        metadata[GROUP_CLAIMS] = {**membership.claims}
        metadata[GROUP_CLAIMS_EXPIRE_AT] = membership.expires_at


async def _rebuild_run(value: RunRequest, *, is_operator: bool) -> None:
    """Rebuild a run's request, and stamp its messages. Raises `HTTPException` 422 or 403."""
    kwargs = value["kwargs"]
    run_requests.rebuild_run(value, operator=is_operator)
    await platform.in_thread(state_input.rebuild_state, kwargs)
    message_marks.stamp_messages(kwargs)
    if str(value["assistant_id"]) == _CONSOLIDATION:
        # Earlier checkpoints would keep what it read, also of conversations that are deleted.
        kwargs["durability"] = "exit"


def _writes_state(command: Mapping[str, object]) -> bool:
    """Whether a run's command changes its thread's state beside answers: an update, or a jump."""
    if command.get("update") is not None:
        return True
    return command.get("goto") is not None


def _mark_temporary(value: RunRequest, thread: Thread | None, *, asks_temporary: bool) -> None:
    """Mark a run on a temporary thread.

    A run decides whether its new thread is temporary. An existing thread keeps what it is.
    """
    is_on_temporary = asks_temporary
    if thread:
        is_on_temporary = is_temporary(thread)
    if is_on_temporary:
        value["metadata"][TEMPORARY] = True


def _asks_temporary(value: RunRequest) -> bool:
    """Whether the metadata of a run's request, or of its config, asks for a temporary thread."""
    if _says_temporary(value["metadata"]):
        return True
    config = value["kwargs"].get("config") or {}
    return _says_temporary(config.get("metadata"))


def _says_temporary(metadata: object) -> bool:
    """Whether metadata, as a client sends it, marks a thread as temporary."""
    if not isinstance(metadata, Mapping):
        return False
    return metadata.get(TEMPORARY) is True
