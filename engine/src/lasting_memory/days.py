"""Days are the person's: the time zone of their profile says when one begins, and UTC where they
named none.

A message carries the time at which it was said (`SAID_AT`), which the server stamps at the door.
What a client puts there is replaced.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

# The key of a message's `additional_kwargs` with the time at which it was said, in ISO format, UTC.
SAID_AT = "said_at"
# Of who named no time zone.
WORLDS = ZoneInfo("UTC")
# How far another server's clock may be ahead.
_AHEAD = timedelta(minutes=5)


def is_zone(name: str) -> bool:
    """Whether this names a time zone, as IANA does. Blocks the first time, as `zones`."""
    return name in zones()


@lru_cache(maxsize=1)
def zones() -> frozenset[str]:
    """The names of all time zones. Blocks the first time, when it reads them."""
    return frozenset(available_timezones())


def timezone_in(profile: str | None) -> str:
    """What the text of a profile calls its time zone; "" for nothing, and where there is no
    profile.
    """
    with suppress(ValueError, RecursionError):
        fields = json.loads(profile or "{}")
        if not isinstance(fields, Mapping):
            return ""
        name = fields.get("timezone")
        return name if isinstance(name, str) else ""
    return ""


def zone_of(profile: str | None) -> ZoneInfo:
    """The time zone that the text of a profile names; UTC where it names none. Blocks: it reads the
    zone's file.
    """
    name = timezone_in(profile)
    if is_zone(name):
        return ZoneInfo(name)
    return WORLDS


def now() -> datetime:
    """The present time, in UTC."""
    return datetime.now(UTC)


def today(zone: ZoneInfo) -> date:
    """The present day there."""
    there = now().astimezone(zone)
    return there.date()


def day_of(at: str, zone: ZoneInfo) -> str:
    """The day of a time stamp there, as YYYY-MM-DD; "" for what is no time."""
    try:
        return _moment(at).astimezone(zone).date().isoformat()
    except (ValueError, OverflowError):
        return ""


def local_days(seconds: Sequence[int], zone: ZoneInfo) -> list[date]:
    """The days there of times, in seconds since 1970."""
    days = list[date]()
    for at in seconds:
        there = datetime.fromtimestamp(at, zone)
        days.append(there.date())
    return days


def said_at(message: Mapping[str, Any]) -> str:
    """The time with which a message is stamped, in ISO format, UTC; "" for none, and for one that
    is in the future, which a document that was imported may have.
    """
    about = message.get("additional_kwargs")
    stamp = about.get(SAID_AT) if isinstance(about, Mapping) else None
    if not isinstance(stamp, str):
        return ""
    try:
        moment = _moment(stamp).astimezone(UTC)
    except (ValueError, OverflowError):
        return ""
    latest = datetime.now(UTC) + _AHEAD
    if moment > latest:
        return ""
    return moment.isoformat(timespec="seconds")


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        return moment.replace(tzinfo=UTC)
    return moment


def stamped(message: object, at: str) -> object:
    """A message of a request with the time at which it was said. What cannot be read as one is left
    as it is.
    """
    said = {SAID_AT: at}
    if isinstance(message, str):
        return {"role": "user", "content": message, "additional_kwargs": said}
    if isinstance(message, list | tuple) and len(message) == 2 and isinstance(message[0], str):  # noqa: PLR2004  # role, content
        role, content = message
        return {"role": role, "content": content, "additional_kwargs": said}
    if not isinstance(message, Mapping):
        return message
    is_removal = message.get("type") == "remove"
    if "role" not in message and ("type" not in message or is_removal):
        return message
    about = message.get("additional_kwargs")
    if isinstance(about, Mapping):
        said = {**about, SAID_AT: at}
    return {**message, "additional_kwargs": said}
