"""Authorization for every route of the platform.

Custom auth on this platform fails open: it allows a resource or action without a handler. So one
handler denies everything to everybody except operators, and each further one is for an action that
a deployment may open to people. `tokens.py` verifies tokens, `run_requests.py` decides what of a
request reaches a run, `people/identity.py` decides whom a run acts as; the handlers stamp the
evidence where clients cannot write.
"""

import logging
from collections.abc import Callable, Collection, Coroutine, Mapping, MutableMapping
from dataclasses import asdict
from functools import cached_property
from time import monotonic
from typing import Any

from langgraph_sdk import Auth, get_client
from langgraph_sdk.errors import NotFoundError
from langgraph_sdk.schema import Thread

from lasting_memory import platform
from lasting_memory.agent.checks import approved_calls, has_approvals
from lasting_memory.auth import interrupts, run_requests
from lasting_memory.auth.admission import THREAD_IN_REQUESTS, check_run, of_request, share_of
from lasting_memory.auth.run_requests import GROUP_CLAIMS, GROUP_CLAIMS_EXPIRE_AT, OWNER_KEYS
from lasting_memory.auth.thread_messages import check_messages
from lasting_memory.auth.tokens import Tokens
from lasting_memory.controls import (
    HELD_WHILE_PAUSED,
    TEMPORARY,
    controls,
    delete_temporary,
    is_imported,
    is_temporary,
    keep_out,
    note_deleted,
    note_deleted_run,
    slices,
    stop_run,
    stop_runs,
)
from lasting_memory.deployment import Change, Deployment
from lasting_memory.people import identity, namespaces
from lasting_memory.people.caller import Caller
from lasting_memory.people.identity import (
    Actor,
    Author,
    Context,
    IdentityError,
    User,
    acting,
    check_person,
    claim,
)
from lasting_memory.settings import CONSOLIDATION_GRAPH, SettingsError
from lasting_memory.stored_files import text_of
from lasting_memory.validation import RefusedWrite, check_change, check_policy, check_text

# With this key in `config.configurable`, langgraph fails a run that answers an interrupt which is
# not pending. Without it the run ignores the answer and continues. With any other key than ids of
# interrupts it takes a whole resume as one answer to any.
STRICT_RESUME = "__pregel_strict_resume"
# Where in a thread's history a run begins.
_CHECKPOINT = ("checkpoint_id", "checkpoint_ns", "checkpoint_map")

_CONSOLIDATION = identity.assistant_of(CONSOLIDATION_GRAPH)
_REPEATED = (
    "Operators approve calls of tools here: only they may have calls made that were begun before; send input, or go back to "
    "before the model's answer."
)

# Seconds between two lines of the log about a failure that lasts.
_NOTED_SECONDS = 60

logger = logging.getLogger("auth")
HTTPException = Auth.exceptions.HTTPException
AuthContext = Auth.types.AuthContext

Handler = Callable[..., Coroutine[Any, Any, Any]]
# What is done in a person's name for their runs: finding the thread and those that are busy, and
# marking it during a pause.
_FOR_RUNS = {"threads:read", "threads:search", "threads:update"}


def build_auth(deployment: Deployment, *, open_to_people: Collection[str]) -> Auth:
    """What `auth.path` in langgraph.json names: who signs in, and who may do what.

    `open_to_people` has the actions that people may do, such as "threads:create", each on what is
    theirs. All others are for operators alone. Raises `SettingsError` for an action that no rule
    keeps apart for people.
    """
    auth, handlers = Auth(), _Handlers(deployment)
    rules = handlers.rules()
    for name in sorted(
        {*open_to_people} - rules.keys()
    ):  # of crons, and for changes of assistants, there is no owner
        raise SettingsError(
            f"open_to_people has {name!r}, which has no rule for people; use one of {', '.join(rules)}."
        )
    if "threads:create_run" in open_to_people and (lacks := sorted(_FOR_RUNS - {*open_to_people})):
        raise SettingsError(
            f"open_to_people has 'threads:create_run' without {lacks[0]!r}, which runs need; add it."
        )
    auth.authenticate(handlers.authenticate)
    auth.on(handlers.for_operators(handlers.allow))
    for name, handler in rules.items():
        resource, action = name.split(":")
        register = getattr(getattr(auth.on, resource), action)
        register(handler if name in open_to_people else handlers.for_operators(handler))
    auth.on.crons.create(handlers.for_operators(handlers.stamp_cron))
    auth.on.crons.update(handlers.for_operators(handlers.stamp_cron))
    return auth


class _Handlers:
    """What each action does and allows; a handler returns the filter of what the caller sees, or
    False to refuse.
    """

    def __init__(self, deployment: Deployment) -> None:
        self._deployment, self._settings = deployment, deployment.settings
        self._tokens = Tokens(deployment.settings, deployment.claims)
        self._failures, self._noted_at = 0, float("-inf")

    def rules(self) -> dict[str, Handler]:
        """The handler of each action that can be opened to people."""
        return {
            **dict.fromkeys(("assistants:read", "assistants:search"), self.allow),
            **dict.fromkeys(("threads:read", "threads:search"), self.use_own_threads),
            "threads:delete": self.delete_threads,
            "threads:create": self.create_thread,
            "threads:update": self.update_thread,
            "threads:create_run": self.create_run,
            **{
                f"store:{action}": self.use_store
                for action in ("get", "search", "list_namespaces", "put", "delete")
            },
        }

    def for_operators(self, handler: Handler) -> Handler:
        """The same handler, for an action that is not open to people."""

        async def handle(ctx: AuthContext, value: Any) -> Any:
            return await handler(ctx, value) if self._is_operator(ctx.user) else False

        return handle

    async def authenticate(self, authorization: str | None) -> dict[str, Any]:
        """The user behind a request, once admitted."""
        user = await self._tokens.user(authorization)
        if (
            user["identity"] not in self._settings.operators
            and identity.OPERATE not in user["permissions"]
        ):
            await share_of(
                Actor(user["identity"], user["org_id"]), self._deployment.limits
            ).request()
        return user

    def _caller(self, user: User, context: Mapping[str, Any] | None = None) -> Caller:
        """Who acts in a request, or in a run with this context. Raises `HTTPException` 403 if that
        is nobody.

        One request asks several handlers: it is worked out once, where no context names somebody.
        """
        named = Context((context or {}).get("user_id"), (context or {}).get("org_id"))
        request = of_request.get() if named == Context() else None
        if request and request.caller and request.caller.user is user:
            return request.caller
        try:
            caller = Caller.of_request(user, named, self._settings)
        except IdentityError as error:
            raise HTTPException(403, str(error)) from None
        if request:
            request.caller = caller
        return caller

    def _is_operator(self, user: User) -> bool:
        return self._caller(user).is_operator

    def _owner(self, user: User, context: Mapping[str, Any] | None = None) -> Actor:
        """The owner of this user's new threads, and of a run with this context. Raises
        `HTTPException` 403 if there is none.
        """
        return self._caller(user, context).actor

    async def allow(self, ctx: AuthContext, value: Any) -> None:
        """Everybody may read assistants and talk to them, and operators do what no other handler is
        for.
        """

    async def create_thread(self, ctx: AuthContext, value: Any) -> dict[str, str] | None:
        """A new thread belongs to the person of the token. The client's metadata cannot change
        that.
        """
        if not self._is_operator(ctx.user):
            share_of(self._owner(ctx.user), self._deployment.limits).charge(THREAD_IN_REQUESTS)
        if value.get("metadata") is None:  # a copy: the platform copies the owner, too
            value["metadata"] = {}
        run_requests.rebuild_thread_metadata(value["metadata"], self._deployment.agents, new=True)
        await self._delete_temporary(ctx.user)
        value["metadata"].update(asdict(self._owner(ctx.user)))
        return await self.use_own_threads(ctx, value)

    async def use_own_threads(self, ctx: AuthContext, value: Any) -> dict[str, str] | None:
        """People read, find and delete their own threads: those with this metadata. Operators see
        all of them.
        """
        return None if self._is_operator(ctx.user) else asdict(self._owner(ctx.user))

    async def delete_threads(self, ctx: AuthContext, value: Any) -> dict[str, str] | None:
        """People delete their own threads, and runs of these. The runs are stopped first, and write
        nothing afterwards.
        """
        owner, request = await self.use_own_threads(ctx, value), of_request.get()
        if (run_id := value.get("run_id")) is not None:  # the thread stays
            if request is not None and str(run_id) not in request.stopped:
                await platform.as_nobody(_end_run(str(value["thread_id"]), str(run_id), owner))
                request.stopped.add(str(run_id))
            return owner
        thread_ids = {
            str(thread_id) for thread_id in value.get("thread_ids") or [value.get("thread_id")]
        }
        if request is not None:  # of many threads the platform asks for all, and then for each
            thread_ids -= request.stopped
        if thread_ids:
            await platform.as_nobody(_end_threads(thread_ids, owner))
        return owner

    async def update_thread(self, ctx: AuthContext, value: Any) -> dict[str, str] | None:
        """An update never changes the owner. Only operators write state where approvals depend on
        it.
        """
        if (
            "metadata" in value and "action" not in value
        ):  # with an action it cancels runs: `metadata` says which
            run_requests.rebuild_thread_metadata(
                value["metadata"], self._deployment.agents, new=False
            )
        elif (
            "action" not in value
        ):  # a state update or supersteps, of which the platform shows only the thread's id
            self._check_state_write(ctx.user)
            if thread := await _thread_of(value.get("thread_id")):
                _check_continues(thread)
                metadata = {**asdict(self._owner(ctx.user)), **(thread["metadata"] or {})}
                await self._note_pause(Actor(metadata["user_id"], metadata["org_id"]), thread)
        return await self.use_own_threads(ctx, value)

    async def create_run(self, ctx: AuthContext, value: Any) -> dict[str, str] | None:
        """A run on one's own thread or a new one. Stamps the owner, and on an operator's run the
        person that it acts as.

        Every way to start or resume a run arrives here: runs, streams, batches, stateless ones,
        event-stream commands, MCP, A2A and crons.
        """
        kwargs, operator = value["kwargs"], self._is_operator(ctx.user)
        command, told = (
            kwargs.get("command") or {},
            (value["metadata"], (kwargs.get("config") or {}).get("metadata")),
        )
        resumes = command.get("resume") is not None
        asks_temporary = any(
            isinstance(metadata, Mapping) and metadata.get(TEMPORARY) is True for metadata in told
        )
        if any(command.get(name) is not None for name in ("update", "goto")):
            self._check_state_write(ctx.user)
        run_requests.rebuild_run(value, operator=operator)
        await platform.in_thread(run_requests.rebuild_state, kwargs)
        run_requests.stamp_messages(kwargs)
        if str(value["assistant_id"]) == _CONSOLIDATION:
            kwargs["durability"] = (
                # Earlier checkpoints would keep what it read, also of conversations that are
                # deleted
                "exit"
            )
        # A run decides whether its new thread is temporary. An existing thread keeps what it is.
        thread = await _thread_of(value["thread_id"])
        _check_continues(thread)
        if is_temporary(thread) if thread else asks_temporary:
            value["metadata"][TEMPORARY] = True
        if not operator:
            await self._check_continuation(ctx.user, thread, kwargs, resumes=resumes)
        if thread is None:
            await self._delete_temporary(ctx.user)
        if operator:
            owner = await self._act_as(ctx.user, thread, kwargs)
        else:
            owner = self._owner(ctx.user, kwargs["context"])
            await check_messages(thread, kwargs)
            await check_run(owner, value, self._deployment)
        value["metadata"].update(asdict(owner))
        if self._deployment.claims:  # for an operator who resumes it
            acts = kwargs["config"]["configurable"]["langgraph_auth_user"] if operator else ctx.user
            membership = identity.membership_of(acts)
            value["metadata"][GROUP_CLAIMS] = {**membership.claims}
            value["metadata"][GROUP_CLAIMS_EXPIRE_AT] = membership.expires_at
        if await self._note_pause(owner, thread):
            value["metadata"][HELD_WHILE_PAUSED] = True  # also of the thread that the run creates
        return None if operator else asdict(owner)

    async def _check_continuation(
        self, user: User, thread: Thread | None, kwargs: MutableMapping[str, Any], *, resumes: bool
    ) -> None:
        """Raise `HTTPException` where a person's run would answer what is not theirs, or make an
        approved call once more.
        """
        if resumes:
            await self._check_answers(user, thread, kwargs)
        goes_on = resumes or kwargs.get("input") is None
        if thread and goes_on and self._has_approvals:
            await self._check_repeated(thread, kwargs)

    async def _check_answers(
        self, user: User, thread: Thread | None, kwargs: MutableMapping[str, Any]
    ) -> None:
        """Rebuild a person's answers to what waits in their thread: each by the id of its
        interrupt.

        The run takes these ids or fails: whatever happens meanwhile, it answers what was looked at
        here.
        """
        if thread is None:
            self._check_state_write(user)
            raise HTTPException(
                404, "There is no such thread of yours in which something waits for an answer."
            )
        configurable = kwargs["config"].setdefault("configurable", {})
        checkpoint_id, waiting = await interrupts.pending(str(thread["thread_id"]))
        if configurable.get("checkpoint_id") not in (None, checkpoint_id) or configurable.get(
            "checkpoint_ns"
        ):
            raise HTTPException(
                409,
                "The thread has gone on since this checkpoint; answer what waits in its latest state.",
            )
        for name in _CHECKPOINT:
            configurable.pop(name, None)
        resume = kwargs["command"]["resume"]
        kwargs["command"]["resume"] = await platform.in_thread(
            interrupts.checked_answers, resume, waiting
        )
        configurable[STRICT_RESUME] = True

    async def _check_repeated(self, thread: Thread, kwargs: Mapping[str, Any]) -> None:
        """Where operators approve calls, a person's run makes none that was approved and begun
        before: it may be done.

        Such a call is at an earlier checkpoint, or at the latest of a run that was stopped, or that
        was copied meanwhile.
        """
        configurable = kwargs["config"].setdefault("configurable", {})
        if configurable.get("checkpoint_ns") or any(
            configurable.get("checkpoint_map") or {}
        ):  # inside of a subagent
            raise HTTPException(403, _REPEATED)
        calls, is_latest = await platform.calls_to_make(
            str(thread["thread_id"]), configurable.get("checkpoint_id")
        )
        if calls and (self._approved_calls is None or calls & self._approved_calls):
            raise HTTPException(403, _REPEATED)
        if is_latest:  # it goes on there without the name, too
            for name in _CHECKPOINT:
                configurable.pop(name, None)

    async def _act_as(self, user: User, thread: Thread | None, kwargs: Mapping[str, Any]) -> Actor:
        """Stamp an operator's run with the operator's claims, and with the owner of a thread that
        it continues. Returns the person that it acts as.

        An approval names the pending interrupts that it answers, so it is for the write that the
        operator saw: an interrupt's id comes from its checkpoint, and another write has another
        one.
        """
        resume = (kwargs.get("command") or {}).get("resume")
        config, context, metadata = (
            kwargs["config"],
            kwargs["context"],
            (thread["metadata"] or {}) if thread else {},
        )
        is_owned = all(isinstance(metadata.get(key), str) for key in OWNER_KEYS)
        if resume is not None and not is_owned:
            raise HTTPException(404, "There is no such thread with an owner to resume it for.")
        if resume is not None and self._has_approvals:
            if (
                not isinstance(resume, Mapping)
                or not resume
                or not all(interrupts.INTERRUPT_ID.fullmatch(key) for key in resume)
            ):
                how = '{"resume": {"<id>": {"decisions": [...]}}}'
                raise HTTPException(
                    422,
                    f"Operators approve writes here: a resume names the interrupts it answers: {how}.",
                )
            config.setdefault("configurable", {})[STRICT_RESUME] = True
        if is_owned and (
            resume is not None or kwargs.get("input") is None
        ):  # without input a stopped or failed run goes on
            owner = {key: metadata[key] for key in OWNER_KEYS}
            # The claims with which the run began that this one continues.
            last = (
                await get_client().runs.list(thread["thread_id"], limit=1)
                if thread and self._deployment.claims
                else []
            )
            began_with = (last[0]["metadata"] or {}) if last else {}
            groups = {
                "claims": began_with.get(GROUP_CLAIMS) or {},
                "expires_at": began_with.get(GROUP_CLAIMS_EXPIRE_AT, 0),
            }
            self._stamp(config, user, thread_owner={**owner, **groups}, **self._proved(user))
            return Actor(**owner)
        resumed = claim(user, "thread_owner")
        if resumed and all(context[key] == resumed[key] for key in OWNER_KEYS):
            # The engine plans a consolidation for the owner, in a run that the operator resumed:
            # that may outlive the token.
            self._stamp(config, user, thread_owner=resumed, **self._proved(user))
        else:
            self._stamp(config, user, **self._proved(user))
        try:
            actor = acting(user, Context(context["user_id"], context["org_id"]), self._settings)
            check_person(actor)
        except IdentityError as error:
            raise HTTPException(400, f"The context names nobody that could be: {error}") from None
        return actor

    def _stamp(self, config: MutableMapping[str, Any], user: User, **more: Any) -> None:
        """Put an operator's claims into a run's config. A StudioUser comes there as a plain user:
        the permission says operator.

        Only there: with `langgraph_auth_permissions` beside them, every firing of a cron with a
        context fails.
        """
        permissions = sorted({*(claim(user, "permissions") or ()), identity.OPERATE})
        claims = {
            "identity": user.identity,
            "org_id": self._settings.fallback_org,
            "permissions": permissions,
            **more,
        }
        config.setdefault("configurable", {})["langgraph_auth_user"] = claims

    def _proved(self, user: User) -> dict[str, Any]:
        """What holds for an operator's run within the lifetime of the operator's token: groups, and
        the permission to operate.

        The firings of a cron are not stamped with it: they have no groups, and operate until the
        cron is deleted.
        """
        proved: dict[str, Any] = {}
        if groups := claim(
            user, "claims"
        ):  # the operator's own, also in a run that it resumed for somebody
            proved["claims"] = {**groups}
        if (expires_at := claim(user, "expires_at")) is not None:
            proved["expires_at"] = expires_at
        return proved

    async def _delete_temporary(self, user: User) -> None:
        """Delete the person's expired temporary conversations. A failure is for the log, and does
        not concern the request.
        """
        try:
            await delete_temporary(
                get_client(), self._deployment.limits.temporary_hours, self._owner(user)
            )
        except Exception as error:  # noqa: BLE001  # whatever it is, the next conversation or the sweep tries again
            self._note_failure(error)

    def _note_failure(self, error: Exception) -> None:
        """Log that expired temporary conversations stay, once a minute at most."""
        self._failures += 1
        if monotonic() - self._noted_at < _NOTED_SECONDS:
            return
        what = "Expired temporary conversations were not deleted; they stay until the next try"
        logger.warning(
            "%s. Failures since this was last said: %d. %r",
            what,
            self._failures,
            error,
            exc_info=error,
        )
        self._failures, self._noted_at = 0, monotonic()

    async def _note_pause(self, owner: Actor, thread: Thread | None) -> bool:
        """Whether the person's memory is paused. Then marks the thread: consolidation skips what
        was said during the pause.
        """
        paused = (await controls(await platform.store(), owner, self._deployment)).paused
        if paused and thread:
            await keep_out(thread["thread_id"], thread["metadata"])
        return paused

    @cached_property
    def _has_approvals(self) -> bool:
        """Whether an operator approves calls of tools somewhere. A graph that is made anew for each
        run cannot be looked at.
        """
        if self._deployment.has_approvals:
            return True
        graphs = [platform.loaded_graph(name) for name in self._deployment.agents]
        return any(has_approvals(graph) for graph in graphs if graph is not None)

    @cached_property
    def _approved_calls(self) -> frozenset[str] | None:
        """Names of the tools whose calls, or calls in whose subagents, operators approve; None: any
        may be one.
        """
        graphs = [platform.loaded_graph(name) for name in self._deployment.agents]
        if None in graphs:
            return None
        return frozenset({"", "task"}).union(
            *(approved_calls(graph) for graph in graphs if graph is not None)
        )

    def _check_state_write(self, user: User) -> None:
        """Where operators approve writes, nobody else may change the state that an operator
        approves.
        """
        if self._has_approvals and not self._is_operator(user):
            raise HTTPException(
                403,
                "Operators approve writes here: only they may go to a node or write a thread's state.",
            )

    async def stamp_cron(self, ctx: AuthContext, value: Any) -> None:
        """A firing of an operator's cron knows only its creator's identity, so the creator's claims
        are stamped into it.
        """
        payload = value.get("payload")
        if ctx.action == "create" or (
            payload and payload.get("config") is not None
        ):  # an update with a config replaces it
            payload["config"] = payload.get("config") or {}
            run_requests.rebuild_config(payload["config"], operator=True)
            self._stamp(payload["config"], ctx.user)

    async def use_store(self, ctx: AuthContext, value: Any) -> None:
        """People read their own memory and their organization's policies. The agent or an operator
        writes them; with the permission `policies:write` people also write the policies of their
        own organization, and the log says so.
        """
        namespace = tuple(value.get("namespace") or ())
        try:
            check_text([part for name, part in value.items() if name != "value"])
            if self._is_operator(ctx.user):
                if ctx.action == "put" and (noted := namespaces.noted(namespace)):
                    await (await platform.store()).aput(*noted, {}, index=False)
                return
            actor = self._owner(ctx.user)
            if ctx.action in {"put", "delete"} and namespace == namespaces.policies(actor.org_id):
                if not identity.may_write_policies(ctx.user, self._settings):
                    raise HTTPException(
                        403, f"Changing policies takes the permission {identity.WRITE_POLICIES}."
                    )
                check_policy(value["key"], value.get("value"))
                await self._check_policy_change(actor, namespace, value)
                if ctx.action == "put":
                    policy = {"content": value["value"]["content"], "encoding": "utf-8"}
                    value.update(value=policy, index=False, ttl=None)
                # A warning, so that no usual log level hides it.
                logger.warning(
                    "AUDIT policies.%s org=%r by=%r key=%r",
                    ctx.action,
                    actor.org_id,
                    actor.user_id,
                    value["key"],
                )
                return
        except RefusedWrite as error:
            raise HTTPException(422, str(error)) from None
        reads = ctx.action in {"get", "search", "list_namespaces"}
        if not reads or not self._deployment.may_read(
            namespace, actor, identity.claims_of(ctx.user)
        ):
            raise HTTPException(
                403,
                "You may read your own memory and your organization's policies here, nothing else.",
            )
        if any(
            isinstance(wanted, Mapping | list) for wanted in (value.get("filter") or {}).values()
        ):
            raise HTTPException(
                422, "A filter takes texts, numbers and booleans."
            )  # "$gt" and others fail for some values

    async def _check_policy_change(
        self, actor: Actor, namespace: namespaces.Namespace, value: Mapping[str, Any]
    ) -> None:
        """Raise `RefusedWrite` if a check of the deployment refuses what a person makes of a
        policy.
        """
        item = await (await platform.store()).aget(namespace, value["key"])
        after = (value.get("value") or {}).get("content")
        before = text_of(item) if item else None
        change = Change(f"/policies{value['key']}", before, after, Author("person", actor.user_id))
        await platform.in_thread(check_change, self._deployment, change)


def _check_continues(thread: Thread | None) -> None:
    """Raise `HTTPException` 409 for a conversation that is history alone."""
    if thread is not None and is_imported(thread):
        raise HTTPException(
            409, "This conversation was imported: it is there to read; start a new one."
        )


async def _end_threads(thread_ids: set[str], owner: dict[str, str] | None) -> None:
    """Stop the runs of an owner's threads, or of anybody's, before these are deleted; not where
    another's is among them.

    Outside of a request a run deletes its own thread, and is at its end.
    """
    client, store, request = get_client(), await platform.store(), of_request.get()
    found = list[Thread]()
    for some in slices(thread_ids):
        found += await client.threads.search(
            ids=some, metadata=owner, limit=len(some), select=["thread_id", "metadata"]
        )
    if owner is not None and len(found) < len(thread_ids):  # the platform refuses it
        return
    await note_deleted(store, found)
    if request is not None:
        await stop_runs(client, [thread["thread_id"] for thread in found])
        await note_deleted(store, found)  # also for a run that began meanwhile
        request.stopped |= thread_ids


async def _end_run(thread_id: str, run_id: str, owner: dict[str, str] | None) -> None:
    """Stop a run of an owner's thread, or of anybody's, before a request deletes it; not a run of
    another's.

    A request that rolls runs back deletes those that have not begun: they are cancelled here, and
    there is nothing to wait for.
    """
    client = get_client()
    found = await client.threads.search(
        ids=[thread_id], metadata=owner, limit=1, select=["thread_id", "metadata"]
    )
    if not found:  # the platform refuses it
        return
    try:
        await client.runs.get(thread_id, run_id)
    except NotFoundError:  # as above
        return
    await note_deleted_run(await platform.store(), found[0], run_id)
    await stop_run(client, thread_id, run_id)


async def _thread_of(thread_id: object) -> Thread | None:
    """The thread, or None if it does not exist or the caller may not see it."""
    if not thread_id:
        return None
    # A search, because `get` of a thread that a run is about to create logs a warning, and reads
    # the whole conversation.
    found = await get_client().threads.search(
        ids=[str(thread_id)], limit=1, select=["thread_id", "metadata"]
    )
    return found[0] if found else None
