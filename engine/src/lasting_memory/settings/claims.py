"""Which claims and scopes of a token a setting may name."""

import re

# Objects in which providers keep what people write about themselves (Supabase and Auth0, Clerk).
_PEOPLES_OWN = frozenset({"user_metadata", "raw_user_meta_data", "unsafe_metadata"})
# What to use in place of a claim that people write themselves.
PROVIDERS_CLAIM = (
    "a claim that only you or your provider writes, e.g. app_metadata.org_id: people write "
    "user_metadata themselves"
)
# Claims of the token itself (RFC 7519, OpenID Connect): the same for everybody, or another one each
# time.
_OF_THE_TOKEN = frozenset(
    {
        "aud",
        "azp",
        "client_id",
        "exp",
        "iat",
        "iss",
        "jti",
        "nbf",
        "nonce",
        "scope",
        "scp",
        "sid",
        "tid",
    }
)


def is_peoples_own(path: str) -> bool:
    """Whether people write the claim at this path themselves, as far as its name tells.

    Such a claim proves nothing.
    """
    names = re.split("[./:]", path.casefold())
    return any(name in _PEOPLES_OWN for name in names)


def is_scope(text: str) -> bool:
    """Whether a text lists scopes, `openid` among them, as a request can carry it."""
    if not text.isascii() or not text.isprintable():
        return False
    return "openid" in text.split()


def is_providers(path: str) -> bool:
    """Whether only the provider writes the claim at this path, as far as its name tells."""
    return not is_peoples_own(path)


def names_person(path: str) -> bool:
    """Whether the claim at this path may name a person: it is neither the token's nor self-written."""
    if path in _OF_THE_TOKEN:
        return False
    return not is_peoples_own(path)
