"""Who is signed in, for aegra and for this library.

aegra keeps threads and runs apart by one text, the identity of its user. So its user's identity is
the label of a person in an organization, and the user that `auth.py` made is a field beside it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Protocol, TypedDict

# The field of aegra's user that has the user of `auth.py`; None for a call as nobody.
_SIGNED_IN: Final = "signed_in"


class AegraUser(Protocol):
    """What is read of aegra's user, of a request or a run (`aegra_api.models.auth.User`)."""

    @property
    def identity(self) -> str: ...

    @property
    def permissions(self) -> Sequence[str]: ...


class UserFields(TypedDict):
    """The fields of which aegra's user is made."""

    identity: str
    display_name: str
    permissions: list[str]
    signed_in: dict[str, object] | None


class UnreadableUserError(RuntimeError):
    """A user of aegra's that `auth.py` has not made: nobody knows who that is."""


class SignedInUser:
    """The user that `auth.py` made, as langgraph-api gives it: attributes, `in` and `[]`.

    `label` is the identity by which aegra keeps threads and runs apart: whose they are.
    """

    def __init__(self, claims: Mapping[str, object], label: str) -> None:
        self._claims = claims
        self.label = label

    @property
    def identity(self) -> str:
        return str(self._claims["identity"])

    @property
    def is_authenticated(self) -> bool:
        return True

    @property
    def display_name(self) -> str:
        return str(self._claims.get("display_name") or self.identity)

    @property
    def permissions(self) -> Sequence[str]:
        return _permissions_of(self._claims)

    def __getattr__(self, name: str) -> object:
        claims = self.__dict__.get("_claims", {})
        if name in claims:
            return claims[name]
        raise AttributeError(f"The signed-in user has no {name!r}.")

    def __getitem__(self, name: str) -> object:
        return self._claims[name]

    def __contains__(self, name: object) -> bool:
        return name in self._claims

    def __iter__(self) -> Iterator[str]:
        return iter(self._claims)

    def items(self) -> Iterable[tuple[str, object]]:
        """The claims, by their names."""
        return self._claims.items()

    def to_dict(self) -> UserFields:
        """The fields of aegra's own user."""
        return fields_of(self._claims, self.label)


def _permissions_of(claims: Mapping[str, object]) -> list[str]:
    """The permissions that claims have; none where they name none."""
    permissions = claims.get("permissions")
    if not isinstance(permissions, Iterable):
        return []
    return [*permissions]


def fields_of(claims: Mapping[str, object] | None, label: str) -> UserFields:
    """The fields of aegra's user with this label, whom `auth.py` knows by these claims.

    Without claims it is nobody: a call from inside of the server that no person makes.
    """
    permissions = list[str]()
    signed_in = None
    if claims is not None:
        permissions = _permissions_of(claims)
        signed_in = dict(claims)
    return {
        "identity": label,
        "display_name": label,
        "permissions": permissions,
        _SIGNED_IN: signed_in,
    }


def is_nobody(user: object) -> bool:
    """Whether this user of aegra's is a call from inside of the server as nobody.

    What another program makes of an identity alone, such as a cron's, is not: it has no such field.
    """
    return getattr(user, _SIGNED_IN, "") is None


def user_of(user: AegraUser) -> SignedInUser:
    """The user that `auth.py` made, of aegra's user.

    Raises `UnreadableUserError` for another. Nothing falls back to a shared person.
    """
    if isinstance(user, SignedInUser):
        return user
    claims = getattr(user, _SIGNED_IN, None)
    if not isinstance(claims, Mapping) or not claims.get("identity"):
        raise UnreadableUserError(
            f"aegra names a user that auth.py has not made ({type(user).__name__}); "
            "runs of aegra's crons have such a one, and no memory that they may use."
        )
    return SignedInUser(claims, user.identity)


# The label of a person, by identity and organization; `handlers.adapt` puts it here.
LabelOf = Callable[[str, str], str]
_label_of: list[LabelOf] = []


def set_label_of(label: LabelOf) -> None:
    """Have `label_of` give this label."""
    _label_of[:] = [label]


def label_of(user_id: str, org_id: str) -> str:
    """The label of a person in an organization: theirs alone."""
    return _label_of[0](user_id, org_id)


def label_in(metadata: Mapping[str, object]) -> str | None:
    """The label of the person whom a thread's or a run's metadata names; None if it names nobody."""
    user_id = metadata.get("user_id")
    org_id = metadata.get("org_id")
    if isinstance(user_id, str) and isinstance(org_id, str):
        return label_of(user_id, org_id)
    return None


# As whom in-process clients act in this task; None for nobody.
_acting_user: ContextVar[SignedInUser | None] = ContextVar("acting", default=None)


def acting_user() -> SignedInUser | None:
    """As whom in-process clients act now; None for nobody."""
    return _acting_user.get()


@contextmanager
def acting(user: SignedInUser | None) -> Iterator[None]:
    """Within this context, in-process clients act as this user; as nobody if it is None."""
    token = _acting_user.set(user)
    try:
        yield
    finally:
        _acting_user.reset(token)
