"""Which addresses a setting may name."""

import ipaddress
import re
from urllib.parse import parse_qs, urlsplit

# A host with its port, as a Content Security Policy may name it.
_HOST = re.compile(r"([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?")


def is_loopback(name: str) -> bool:
    """Whether a host name or IP address (without brackets or port) is a loopback one."""
    try:
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def is_https(address: str) -> bool:
    """Whether this is an https:// address, or an http:// one of this machine."""
    url = urlsplit(address)
    if not url.hostname:
        return False
    return url.scheme == "https" or (url.scheme == "http" and is_loopback(url.hostname))


def origin_of(address: str) -> str | None:
    """The origin of an address that a browser may call; None for any other."""
    try:
        url = urlsplit(address)
    except ValueError:
        return None
    if not _HOST.fullmatch(url.netloc) or not is_https(address):
        return None
    return f"{url.scheme}://{url.netloc.lower()}"


def is_address(text: str) -> bool:
    """Whether a client may call this address: https://, or http:// of this machine."""
    return origin_of(text) is not None


def is_postgres(address: str) -> bool:
    """Whether this is the address of a Postgres database, with its host."""
    url = urlsplit(address)
    if url.scheme not in {"postgres", "postgresql"}:
        return False
    # After a second @ Postgres would take a piece of the password for the host.
    if "@" in url.netloc.partition("@")[2]:
        return False
    return bool(url.hostname) or "host" in parse_qs(url.query)
