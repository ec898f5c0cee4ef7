"""Authorization for every route of the platform.

Custom auth on this platform fails open: it allows a resource or action without a handler. So one
handler denies everything to everybody except operators, and each further one is for an action that
a deployment may open to people. `callers.py` says who is calling, `own_threads.py` and
`run_creation.py` have the handlers of threads and runs; the others are here. They stamp the evidence
of who owns a thread or a run where clients cannot write.

A handler gets who asks (`ctx`) and what is asked (`value`), which it may change in place. It returns
a filter: the metadata that a thread must have for the caller to see it. An operator may do
everything, and act for a person; an owner is the person whose thread or run it is.
"""

from collections.abc import Callable, Collection, Coroutine, Mapping

from langgraph_sdk import Auth
from langgraph_sdk.auth.types import HandlerResult

from lasting_memory import platform
from lasting_memory.auth import run_requests
from lasting_memory.auth.approvals import Approvals
from lasting_memory.auth.callers import Callers
from lasting_memory.auth.handler_values import CronChange, StoreRequest
from lasting_memory.auth.operator_runs import OperatorRuns
from lasting_memory.auth.own_threads import OwnThreads
from lasting_memory.auth.run_creation import RunCreation
from lasting_memory.auth.store_access import check_store_access
from lasting_memory.auth.temporary_threads import TemporaryThreads
from lasting_memory.deployment import Deployment
from lasting_memory.memory.validation import RefusedWrite, check_text
from lasting_memory.people import namespaces
from lasting_memory.people.identity import Actor
from lasting_memory.settings import SettingsError

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
    auth.authenticate(handlers.callers.authenticate)
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
    missing_actions = sorted(_FOR_RUNS - actions)
    if missing_actions and "threads:create_run" in actions:
        raise SettingsError(
            f"open_to_people has 'threads:create_run' without {missing_actions[0]!r}, which runs need; add it."
        )


class _Handlers:
    """What each action does and allows.

    A handler returns the filter of what the caller sees, None for everything, or False to refuse.
    """

    def __init__(self, deployment: Deployment) -> None:
        self.callers = Callers(deployment)
        self._deployment = deployment
        approvals = Approvals(deployment)
        temporary_threads = TemporaryThreads(deployment.limits.temporary_hours)
        self._operator_runs = OperatorRuns(deployment, approvals)
        self._threads = OwnThreads(deployment, self.callers, approvals, temporary_threads)
        self._runs = RunCreation(
            deployment, self.callers, approvals, self._operator_runs, temporary_threads
        )

    def rules(self) -> dict[str, Handler]:
        """The handler of each action that can be opened to people."""
        return {
            "assistants:read": self.allow,
            "assistants:search": self.allow,
            "threads:read": self._threads.use,
            "threads:search": self._threads.use,
            "threads:delete": self._threads.delete,
            "threads:create": self._threads.create,
            "threads:update": self._threads.update,
            "threads:create_run": self._runs.create,
            "store:get": self.use_store,
            "store:search": self.use_store,
            "store:list_namespaces": self.use_store,
            "store:put": self.use_store,
            "store:delete": self.use_store,
        }

    def for_operators(self, handler: Handler) -> Handler:
        """The same handler, for an action that is not open to people."""

        async def handle(ctx: AuthContext, value: object) -> HandlerResult:
            if not self.callers.is_operator(ctx.user):
                return False
            return await handler(ctx, value)

        return handle

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

    async def use_store(self, ctx: AuthContext, value: StoreRequest) -> None:
        """People and operators use the store API as `check_store_access` allows it.

        Raises `HTTPException` 422 for text that may not be stored.
        """
        try:
            # What is stored is checked when it is written.
            addresses = [part for name, part in value.items() if name != "value"]
            check_text(addresses)
            caller = self.callers.caller(ctx.user)
            await check_store_access(self._deployment, ctx, value, caller)
        except RefusedWrite as error:
            raise HTTPException(422, str(error)) from None
