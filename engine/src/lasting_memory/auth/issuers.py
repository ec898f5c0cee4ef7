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
    name = _SCHEME_AND_HOST.sub(lambda found: found[0].lower(), name, count=1)
    tenant = _ENTRA.fullmatch(name)
    return f"https://login.microsoftonline.com/{tenant[1]}/v2.0" if tenant else name


class Issuers:
    """The issuers whose tokens are believed, by the spellings that `AUTH_ISSUER` lists."""

    def __init__(self, spellings: Sequence[str]) -> None:
        # A slash at the end is left out as often as not.
        self._issuers = dict[str, str]()
        for spelling in spellings:
            self._issuers[spelling.removesuffix("/")] = issuer_of(spelling)
        self._are_several = len(set(self._issuers.values())) > 1

    def find(self, spelling: str) -> str | None:
        """The issuer that a token names by this spelling; None if its tokens are not believed."""
        return self._issuers.get(spelling.removesuffix("/"))

    def identity(self, issuer: str, name: str) -> str:
        """A person's identity: the name that the issuer gives them.

        With several issuers, the issuer stands before it. A name is unique with one issuer alone:
        the `alice` of another is somebody else.
        """
        return f"{issuer}|{name}" if self._are_several else name
