"""Who is calling: the user behind a request, and the person as whom they act.

An operator may act for a person, whom a run's context names. Everybody else acts as themselves.
"""

from collections.abc import Mapping

from langgraph_sdk import Auth

from lasting_memory.auth.current_request import current_request
from lasting_memory.auth.handler_values import named_person
from lasting_memory.auth.share import share_of
from lasting_memory.auth.tokens import Tokens, TokenUser
from lasting_memory.deployment import Deployment
from lasting_memory.people import identity
from lasting_memory.people.caller import Caller
from lasting_memory.people.identity import Actor, Context, IdentityError, User

HTTPException = Auth.exceptions.HTTPException


class Callers:
    """Signs callers in, and works out as whom they act."""

    def __init__(self, deployment: Deployment) -> None:
        self._limits = deployment.limits
        self._settings = deployment.settings
        self._tokens = Tokens(deployment.settings, deployment.claims)

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
        share = share_of(person, self._limits)
        await share.request()
        return user

    def caller(self, user: User, context: Mapping[str, object] | None = None) -> Caller:
        """Who acts in a request, or in a run with this context.

        One request asks several handlers: the caller is worked out once, where no context names
        somebody. Raises `HTTPException` 403 if that is nobody.
        """
        nobody = Context()
        person = nobody
        if context:
            person = named_person(context)
        request = None
        if person == nobody:
            request = current_request()
        if request and request.caller and request.caller.user is user:
            return request.caller
        try:
            caller = Caller.of_request(user, person, self._settings)
        except IdentityError as error:
            raise HTTPException(403, str(error)) from None
        if request:
            request.caller = caller
        return caller

    def is_operator(self, user: User) -> bool:
        """Whether this user is an operator. Raises `HTTPException` 403 for nobody."""
        caller = self.caller(user)
        return caller.is_operator

    def owner(self, user: User, context: Mapping[str, object] | None = None) -> Actor:
        """The owner of this user's new threads, and of a run with this context.

        Raises `HTTPException` 403 if there is none.
        """
        caller = self.caller(user, context)
        return caller.actor
