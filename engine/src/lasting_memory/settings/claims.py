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
    return not _PEOPLES_OWN.isdisjoint(re.split("[./:]", path.casefold()))


def is_scope(text: str) -> bool:
    return "openid" in text.split() and text.isascii() and text.isprintable()


def is_providers(path: str) -> bool:
    return not is_peoples_own(path)


def names_person(path: str) -> bool:
    return path not in _OF_THE_TOKEN and not is_peoples_own(path)
