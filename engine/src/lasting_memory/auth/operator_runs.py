"""Runs of operators: the person that each acts as, and the claims that are stamped into it."""

from collections.abc import Collection, Mapping, MutableMapping

from langgraph_sdk import Auth
from langgraph_sdk.schema import Thread

from lasting_memory.auth.approvals import Approvals
from lasting_memory.auth.handler_values import RunKwargs, configurable_of, named_person
from lasting_memory.auth.interrupts import INTERRUPT_ID, STRICT_RESUME
from lasting_memory.auth.run_requests import GROUP_CLAIMS, GROUP_CLAIMS_EXPIRE_AT, OWNER_KEYS
from lasting_memory.deployment import Deployment
from lasting_memory.people.identity import (
    OPERATE,
    Actor,
    IdentityError,
    User,
    acting,
    check_person,
    claim,
)
from lasting_memory.platform import get_client

HTTPException = Auth.exceptions.HTTPException


class OperatorRuns:
    """Stamps operators' claims into their runs, and into those of their crons."""

    def __init__(self, deployment: Deployment, approvals: Approvals) -> None:
        self._deployment = deployment
        self._settings = deployment.settings
        self._approvals = approvals

    async def act_as(self, user: User, thread: Thread | None, kwargs: RunKwargs) -> Actor:
        """Stamp an operator's run, and return the person that it acts as.

        The stamp has the operator's claims, and the owner of a thread that the run continues.

        An approval names the pending interrupts that it answers, so it is for the write that the
        operator saw: an interrupt's id comes from its checkpoint, and another write has another
        one.
        """
        config = kwargs["config"]
        command = kwargs.get("command") or {}
        resume = command.get("resume")
        owner = _owner_of(thread)
        if resume is not None:
            if owner is None:
                raise HTTPException(404, "There is no such thread with an owner to resume it for.")
            if self._approvals.exist:
                _check_names_interrupts(resume)
                configurable = configurable_of(config)
                configurable[STRICT_RESUME] = True
        # Without input a stopped or failed run goes on.
        is_continuation = resume is not None or kwargs.get("input") is None
        if thread is not None and owner is not None and is_continuation:
            groups = await self._groups_of_last_run(thread)
            operator_claims = _claims_of_token(user)
            self.stamp(config, user, thread_owner={**owner, **groups}, **operator_claims)
            return Actor(**owner)
        return self._act_as_named(user, kwargs)

    async def _groups_of_last_run(self, thread: Thread) -> dict[str, object]:
        """The claims of groups with which the run began that is continued, and when they expire."""
        last_run_metadata: Mapping[str, object] = {}
        if self._deployment.claims:
            runs = await get_client().runs.list(thread["thread_id"], limit=1)
            if runs:
                last_run_metadata = runs[0]["metadata"] or {}
        return {
            "claims": last_run_metadata.get(GROUP_CLAIMS) or {},
            "expires_at": last_run_metadata.get(GROUP_CLAIMS_EXPIRE_AT, 0),
        }

    def _act_as_named(self, user: User, kwargs: RunKwargs) -> Actor:
        """Stamp an operator's run for the person whom its context names, or for the operator."""
        config = kwargs["config"]
        person = named_person(kwargs.get("context") or {})
        operator_claims = _claims_of_token(user)
        resumed_owner = claim(user, "thread_owner")
        names_resumed_owner = False
        if isinstance(resumed_owner, Mapping) and resumed_owner:
            names_resumed_owner = person == named_person(resumed_owner)
        if names_resumed_owner:
            # The engine plans a consolidation for the owner, in a run that the operator resumed:
            # that may outlive the token.
            operator_claims["thread_owner"] = resumed_owner
        self.stamp(config, user, **operator_claims)
        try:
            actor = acting(user, person, self._settings)
            check_person(actor)
        except IdentityError as error:
            raise HTTPException(400, f"The context names nobody that could be: {error}") from None
        return actor

    def stamp(self, config: MutableMapping[str, object], user: User, **more_claims: object) -> None:
        """Put an operator's claims, and more of them, into the config of a run or a cron.

        A `StudioUser` comes into the run as a plain user: the permission says operator. The claims
        are there alone: with `langgraph_auth_permissions` beside them, every firing of a cron with
        a context fails.
        """
        permissions = {OPERATE}
        own_permissions = claim(user, "permissions")
        if isinstance(own_permissions, Collection):
            permissions.update(own_permissions)
        configurable = configurable_of(config)
        configurable["langgraph_auth_user"] = {
            "identity": user.identity,
            "org_id": self._settings.fallback_org,
            "permissions": sorted(permissions),
            **more_claims,
        }


def _owner_of(thread: Thread | None) -> dict[str, str] | None:
    """The owner that a thread's metadata names; None if there is none."""
    if thread is None:
        return None
    owner = dict[str, str]()
    metadata: Mapping[str, object] = thread["metadata"] or {}
    for key in OWNER_KEYS:
        value = metadata.get(key)
        if not isinstance(value, str):
            return None
        owner[key] = value
    return owner


def _check_names_interrupts(resume: object) -> None:
    """Raise `HTTPException` 422 unless `resume` has answers by the ids of interrupts, and nothing else."""
    names_interrupts = False
    if isinstance(resume, Mapping) and resume:
        names_interrupts = all(INTERRUPT_ID.fullmatch(key) for key in resume)
    if not names_interrupts:
        form = '{"resume": {"<id>": {"decisions": [...]}}}'
        raise HTTPException(
            422,
            f"Operators approve writes here: a resume names the interrupts it answers: {form}.",
        )


def _claims_of_token(user: User) -> dict[str, object]:
    """What the operator's token proves: the claims of their own groups, and when these expire.

    They are the operator's own also in a run that is resumed for somebody. The firings of a cron
    are not stamped with it: they have no groups, and operate until the cron is deleted.
    """
    proved_claims = dict[str, object]()
    groups = claim(user, "claims")
    if isinstance(groups, Mapping) and groups:
        proved_claims["claims"] = {**groups}
    expires_at = claim(user, "expires_at")
    if expires_at is not None:
        proved_claims["expires_at"] = expires_at
    return proved_claims
