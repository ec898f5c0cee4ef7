"""Authorization for every route of the platform.

Custom auth on this platform fails open: it allows a resource or action without a handler. So one
handler denies everything to everybody except operators, and each further one is for an action that
a deployment may open to people. `tokens.py` verifies tokens, `run_requests.py` and `state_input.py`
decide what of a request reaches a run, `people/identity.py` decides whom a run acts as; the
handlers stamp the evidence where clients cannot write.

A handler gets who asks (`ctx`) and what is asked (`value`), which it may change in place. It returns
a filter: the metadata that a thread must have for the caller to see it. An operator may do
everything, and act for a person; an owner is the person whose thread or run it is.
"""

from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import asdict

from langgraph_sdk import Auth
from langgraph_sdk.auth.types import HandlerResult, ThreadsCreate, ThreadsUpdate
from langgraph_sdk.schema import Thread

from lasting_memory import platform
from lasting_memory.auth import run_requests, state_input
from lasting_memory.auth.admission import check_run
from lasting_memory.auth.approvals import Approvals
from lasting_memory.auth.continuation import check_continuation
from lasting_memory.auth.current_request import current_request
from lasting_memory.auth.deletion import end_run, end_threads
from lasting_memory.auth.handler_values import (
    CronChange,
    RunRequest,
    StoreRequest,
    ThreadDeletion,
    configurable_of,
    named_person,
)
from lasting_memory.auth.operator_runs import OperatorRuns
from lasting_memory.auth.run_requests import GROUP_CLAIMS, GROUP_CLAIMS_EXPIRE_AT
from lasting_memory.auth.share import THREAD_IN_REQUESTS, share_of
from lasting_memory.auth.store_access import check_store_access
from lasting_memory.auth.temporary_threads import TemporaryThreads
from lasting_memory.auth.thread_messages import check_messages
from lasting_memory.auth.tokens import Tokens, TokenUser
from lasting_memory.conversations.marks import (
    HELD_WHILE_PAUSED,
    TEMPORARY,
    is_imported,
    is_temporary,
    keep_out,
)
from lasting_memory.deployment import Deployment
from lasting_memory.memory.controls import controls
from lasting_memory.memory.own_offers import note_groups
from lasting_memory.memory.validation import RefusedWrite, check_text
from lasting_memory.people import identity, namespaces
from lasting_memory.people.caller import Caller
from lasting_memory.people.identity import Actor, Context, IdentityError, User
from lasting_memory.platform import get_client
from lasting_memory.settings import CONSOLIDATION_GRAPH, SettingsError

_CONSOLIDATION = identity.assistant_of(CONSOLIDATION_GRAPH)

HTTPException = Auth.exceptions.HTTPException
AuthContext = Auth.types.AuthContext

Handler = Callable[..., Coroutine[object, object, HandlerResult]]
# What is done in a person's name for their runs: finding the thread and those that are busy, and
# marking it during a pause.
_FOR_RUNS = {"threads:read", "threads:search", "threads:update"}


def build_auth(deployment: Deployment, *, open_to_people: Collection[str]) -> Auth:
    """What `auth.path` in langgraph.json names: who signs in, and who may do what.

    `open_to_people` has the actions that people may do, such as "threads:create", each on what is
    theirs. All others are for operators alone. Raises `SettingsError` for an action that no rule
    keeps apart for people.
    """
    auth = Auth()
    handlers = _Handlers(deployment)
    rules = handlers.rules()
    _check_open_actions(open_to_people, rules)
    auth.authenticate(handlers.authenticate)
    auth.on(handlers.for_operators(handlers.allow))
    for name, handler in rules.items():
        resource_name, action = name.split(":")
        resource = getattr(auth.on, resource_name)
        register = getattr(resource, action)
        if name in open_to_people:
            register(handler)
        else:
            register(handlers.for_operators(handler))
    stamp_cron = handlers.for_operators(handlers.stamp_cron)
    auth.on.crons.create(stamp_cron)
    auth.on.crons.update(stamp_cron)
    platform.adapt_auth(auth, _label_of)
    return auth


def _label_of(user_id: str, org_id: str) -> str:
    """The label of a person in an organization."""
    return namespaces.person_label(Actor(user_id, org_id))


def _check_open_actions(open_to_people: Collection[str], rules: Mapping[str, Handler]) -> None:
    """Raise `SettingsError` for an action without a rule for people, or without one it needs.

    Crons, and changes of assistants, have no owner, so there is no rule for them.
    """
    actions = set(open_to_people)
    for name in sorted(actions - rules.keys()):
        raise SettingsError(
            f"open_to_people has {name!r}, which has no rule for people; use one of {', '.join(rules)}."
        )
    missing = sorted(_FOR_RUNS - actions)
    if missing and "threads:create_run" in actions:
        raise SettingsError(
            f"open_to_people has 'threads:create_run' without {missing[0]!r}, which runs need; add it."
        )


class _Handlers:
    """What each action does and allows.

    A handler returns the filter of what the caller sees, None for everything, or False to refuse.
    """

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._settings = deployment.settings
        self._tokens = Tokens(deployment.settings, deployment.claims)
        self._approvals = Approvals(deployment)
        self._operator_runs = OperatorRuns(deployment, self._approvals)
        self._temporary_threads = TemporaryThreads(deployment.limits.temporary_hours)

    def rules(self) -> dict[str, Handler]:
        """The handler of each action that can be opened to people."""
        return {
            "assistants:read": self.allow,
            "assistants:search": self.allow,
            "threads:read": self.use_own_threads,
            "threads:search": self.use_own_threads,
            "threads:delete": self.delete_threads,
            "threads:create": self.create_thread,
            "threads:update": self.update_thread,
            "threads:create_run": self.create_run,
            "store:get": self.use_store,
            "store:search": self.use_store,
            "store:list_namespaces": self.use_store,
            "store:put": self.use_store,
            "store:delete": self.use_store,
        }

    def for_operators(self, handler: Handler) -> Handler:
        """The same handler, for an action that is not open to people."""

        async def handle(ctx: AuthContext, value: object) -> HandlerResult:
            if not self._is_operator(ctx.user):
                return False
            return await handler(ctx, value)

        return handle

    # --- Who is calling

    async def authenticate(self, authorization: str | None) -> TokenUser:
        """The user behind a request, once admitted: a person's request waits for its turn.

        Raises `HTTPException` 401 without a valid token, and 429 where the person asks too much.
        """
        user = await self._tokens.user(authorization)
        user_id = user["identity"]
        is_named_operator = user_id in self._settings.operators
        if is_named_operator or identity.OPERATE in user["permissions"]:
            return user
        person = Actor(user_id, user["org_id"])
        share = share_of(person, self._deployment.limits)
        await share.request()
        return user

    def _caller(self, user: User, context: Mapping[str, object] | None = None) -> Caller:
        """Who acts in a request, or in a run with this context.

        One request asks several handlers: the caller is worked out once, where no context names
        somebody. Raises `HTTPException` 403 if that is nobody.
        """
        nobody_named = Context()
        person_named = nobody_named
        if context:
            person_named = named_person(context)
        request = None
        if person_named == nobody_named:
            request = current_request()
        if request and request.caller and request.caller.user is user:
            return request.caller
        try:
            caller = Caller.of_request(user, person_named, self._settings)
        except IdentityError as error:
            raise HTTPException(403, str(error)) from None
        if request:
            request.caller = caller
        return caller

    def _is_operator(self, user: User) -> bool:
        """Whether this user is an operator. Raises `HTTPException` 403 for nobody."""
        caller = self._caller(user)
        return caller.is_operator

    def _owner(self, user: User, context: Mapping[str, object] | None = None) -> Actor:
        """The owner of this user's new threads, and of a run with this context.

        Raises `HTTPException` 403 if there is none.
        """
        caller = self._caller(user, context)
        return caller.actor

    # --- Assistants, and what operators alone may do

    async def allow(self, ctx: AuthContext, value: object) -> None:
        """Allow the action.

        Everybody may read assistants and talk to them, and operators do what no other handler is
        for.
        """

    async def stamp_cron(self, ctx: AuthContext, value: CronChange) -> None:
        """Stamp an operator's cron with its creator's claims.

        Without them its firing knows only its creator's identity.
        """
        payload = value.get("payload")
        if payload is None:  # of an update: the platform makes that of a new cron
            return
        # An update without a config leaves the stamped one as it is.
        if ctx.action != "create" and payload.get("config") is None:
            return
        config = payload.get("config") or {}
        payload["config"] = config
        run_requests.rebuild_config(config, operator=True)
        self._operator_runs.stamp(config, ctx.user)

    # --- Threads

    async def use_own_threads(self, ctx: AuthContext, value: object) -> dict[str, str] | None:
        """People read, find and delete their own threads: those with this metadata.

        Operators see all of them.
        """
        caller = self._caller(ctx.user)
        return _filter_of(caller)

    async def create_thread(self, ctx: AuthContext, value: ThreadsCreate) -> dict[str, str] | None:
        """A new thread belongs to the person of the token.

        The client's metadata cannot change that: it is rebuilt, in place. Also deletes the person's
        expired temporary threads.
        """
        caller = self._caller(ctx.user)
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

    async def update_thread(self, ctx: AuthContext, value: ThreadsUpdate) -> dict[str, str] | None:
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
        return await self.use_own_threads(ctx, value)

    async def _check_state_update(self, user: User, thread_id: object) -> None:
        """Raise `HTTPException` if this user may not write a thread's state, and note a pause."""
        self._check_state_write(user)
        thread = await _find_thread(thread_id)
        if thread is None:
            return
        _check_continues(thread)
        metadata = thread["metadata"] or {}
        caller = self._owner(user)
        owner_id = metadata.get("user_id", caller.user_id)
        org_id = metadata.get("org_id", caller.org_id)
        await self._note_pause(Actor(owner_id, org_id), thread)

    async def delete_threads(
        self, ctx: AuthContext, value: ThreadDeletion
    ) -> dict[str, str] | None:
        """People delete their own threads, and runs of these.

        The runs are stopped first, and write nothing afterwards.
        """
        auth_filter = await self.use_own_threads(ctx, value)
        thread_id = value.get("thread_id")
        run_id = value.get("run_id")
        if run_id is not None:  # the thread stays
            await _end_run_once(str(thread_id), str(run_id), auth_filter)
            return auth_filter
        ids: Sequence[object] = value.get("thread_ids") or [thread_id]
        thread_ids = {str(each) for each in ids}
        request = current_request()
        if request is not None:  # of many threads the platform asks for all, and then for each
            thread_ids -= request.stopped
        if thread_ids:
            await platform.as_nobody(end_threads(thread_ids, auth_filter))
        return auth_filter

    # --- Runs

    async def create_run(self, ctx: AuthContext, value: RunRequest) -> dict[str, str] | None:
        """A run on one's own thread or a new one.

        Stamps the owner, and on an operator's run the person that it acts as. Every way to start or
        resume a run arrives here: runs, streams, batches, stateless ones, event-stream commands,
        MCP, A2A and crons.
        """
        user = ctx.user
        kwargs = value["kwargs"]
        is_operator = self._is_operator(user)
        # What the request says, before it is rebuilt.
        command = kwargs.get("command") or {}
        resumes = command.get("resume") is not None
        writes_state = command.get("update") is not None or command.get("goto") is not None
        temporary = _asks_temporary(value)
        if writes_state:
            self._check_state_write(user)
        await _rebuild_run(value, is_operator=is_operator)
        thread = await _find_thread(value["thread_id"])
        _check_continues(thread)
        # A run decides whether its new thread is temporary. An existing thread keeps what it is.
        if thread:
            temporary = is_temporary(thread)
        if temporary:
            value["metadata"][TEMPORARY] = True
        if not is_operator:
            await check_continuation(self._approvals, thread, kwargs, resumes=resumes)
        if thread is None:
            await self._temporary_threads.delete_expired(self._owner(user))
        if is_operator:
            owner = await self._operator_runs.act_as(user, thread, kwargs)
            if owner.user_id != user.identity:
                state_input.mark_spoken_for(kwargs)
        else:
            owner = self._owner(user, kwargs.get("context"))
            await self._note_groups(user, owner)
            await check_messages(thread, kwargs)
            await check_run(owner, value, self._deployment)
        metadata = value["metadata"]
        metadata.update(asdict(owner))
        self._stamp_groups(user, value, is_operator=is_operator)
        is_paused = await self._note_pause(owner, thread)
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

    async def _note_pause(self, owner: Actor, thread: Thread | None) -> bool:
        """Whether the person's memory is paused.

        Then marks the thread, so that consolidation skips what was said during the pause.
        """
        store = await platform.store()
        person_controls = await controls(store, owner, self._deployment)
        is_paused = person_controls.paused
        if is_paused and thread:
            await keep_out(thread["thread_id"], thread["metadata"])
        return is_paused

    def _check_state_write(self, user: User) -> None:
        """Raise `HTTPException` 403 if this user may not write the state of threads."""
        if not self._is_operator(user):
            self._approvals.check_state_write()

    # --- The store

    async def use_store(self, ctx: AuthContext, value: StoreRequest) -> None:
        """People and operators use the store API as `check_store_access` allows it.

        Raises `HTTPException` 422 for text that may not be stored.
        """
        try:
            # What is stored is checked when it is written.
            addresses = [part for name, part in value.items() if name != "value"]
            check_text(addresses)
            caller = self._caller(ctx.user)
            await check_store_access(self._deployment, ctx, value, caller)
        except RefusedWrite as error:
            raise HTTPException(422, str(error)) from None


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
    if request is None or run_id in request.stopped:
        return
    await platform.as_nobody(end_run(thread_id, run_id, owner))
    request.stopped.add(run_id)


async def _rebuild_run(value: RunRequest, *, is_operator: bool) -> None:
    """Rebuild a run's request (`run_requests.py`, `state_input.py`), and stamp its messages."""
    kwargs = value["kwargs"]
    run_requests.rebuild_run(value, operator=is_operator)
    await platform.in_thread(state_input.rebuild_state, kwargs)
    state_input.stamp_messages(kwargs)
    if str(value["assistant_id"]) == _CONSOLIDATION:
        # Earlier checkpoints would keep what it read, also of conversations that are deleted.
        kwargs["durability"] = "exit"


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


def _check_continues(thread: Thread | None) -> None:
    """Raise `HTTPException` 409 for a conversation that is history alone."""
    if thread is not None and is_imported(thread):
        raise HTTPException(
            409, "This conversation was imported: it is there to read; start a new one."
        )


async def _find_thread(thread_id: object) -> Thread | None:
    """The thread, or None if it does not exist or the caller may not see it."""
    if not thread_id:
        return None
    # A search, because `get` of a thread that a run is about to create logs a warning, and reads
    # the whole conversation.
    threads = await get_client().threads.search(
        ids=[str(thread_id)], limit=1, select=["thread_id", "metadata"]
    )
    if not threads:
        return None
    return threads[0]
