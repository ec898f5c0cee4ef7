"""Issuers of tokens: which spellings name the same one, and who a person of one of several is."""

import re
from collections.abc import Sequence

# Microsoft's two versions of tokens name the same tenant in two ways.
_ENTRA = re.compile(
    r"https://(?:sts\.windows\.net|login\.microsoftonline\.com)/([0-9a-f-]+)(?:/v2\.0)?"
)
_SCHEME_AND_HOST = re.compile(r"https?://[^/]*", re.IGNORECASE)


def issuer_of(spelling: str) -> str:
    """The one name of the issuer that this spelling names.

    `accounts.google.com` and `https://accounts.google.com/` are one issuer, and so are the two
    names of an Entra tenant.
    """
    name = spelling.removesuffix("/")
    if "://" not in name:
        name = f"https://{name}"
    name = _SCHEME_AND_HOST.sub(_lowercase, name, count=1)
    entra = _ENTRA.fullmatch(name)
    if entra:
        tenant = entra[1]
        return f"https://login.microsoftonline.com/{tenant}/v2.0"
    return name


def _lowercase(match: re.Match[str]) -> str:
    """What matches, in small letters."""
    text = match[0]
    return text.lower()


class Issuers:
    """The issuers whose tokens are believed, by the spellings that `AUTH_ISSUER` lists."""

    def __init__(self, spellings: Sequence[str]) -> None:
        # A slash at the end is left out as often as not.
        self._issuers = dict[str, str]()
        for spelling in spellings:
            without_slash = spelling.removesuffix("/")
            self._issuers[without_slash] = issuer_of(spelling)
        different_issuers = set(self._issuers.values())
        self._are_several = len(different_issuers) > 1

    def find(self, spelling: str) -> str | None:
        """The issuer that a token names by this spelling; None if its tokens are not believed."""
        return self._issuers.get(spelling.removesuffix("/"))

    def identity(self, issuer: str, name: str) -> str:
        """A person's identity: the name that the issuer gives them.

        With several issuers, the issuer stands before it. A name is unique with one issuer alone:
        the `alice` of another is somebody else.
        """
        if not self._are_several:
            return name
        return f"{issuer}|{name}"
