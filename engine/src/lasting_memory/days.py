"""Days are the person's: the time zone of their profile says when one begins, and UTC where they
named none.

A message carries the time at which it was said (`SAID_AT`), which the server stamps when it comes in.
What a client puts there is replaced. The functions below take days of a time zone.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
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
    """What the text of a profile, which is JSON, calls its time zone, even if there is no such zone.

    Returns "" where it names none, cannot be read, or is None.
    """
    try:
        fields = json.loads(profile or "{}")
    except (ValueError, RecursionError):
        return ""
    if not isinstance(fields, Mapping):
        return ""
    name = fields.get("timezone")
    return name if isinstance(name, str) else ""


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
    """The present day in a time zone."""
    local_time = now().astimezone(zone)
    return local_time.date()


def day_of(at: str, zone: ZoneInfo) -> str:
    """The day of an ISO time in a time zone, as YYYY-MM-DD; "" for what is no time."""
    try:
        local_time = _moment(at).astimezone(zone)
    except (ValueError, OverflowError):
        return ""
    return local_time.date().isoformat()


def local_days(seconds: Sequence[int], zone: ZoneInfo) -> list[date]:
    """The days in a time zone of times, which are in seconds since 1970."""
    days = list[date]()
    for at in seconds:
        local_time = datetime.fromtimestamp(at, zone)
        days.append(local_time.date())
    return days


def said_at(message: Mapping[str, object]) -> str:
    """The time with which a message is stamped, in ISO format, UTC.

    Returns "" for a message without one, and for a time in the future, which a document that was
    imported may have.
    """
    additional = message.get("additional_kwargs")
    if not isinstance(additional, Mapping):
        return ""
    stamp = additional.get(SAID_AT)
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
    """The time of an ISO text, UTC where it names no zone. Raises `ValueError` for what is no time."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        return moment.replace(tzinfo=UTC)
    return moment


def stamped(message: object, at: str) -> object:
    """A message of a request, stamped with the time `at` at which it was said, in ISO format, UTC.

    A text, and a pair of a role and a content, become messages. What cannot be read as a message,
    and the removal of one, is returned as it is.
    """
    stamp = {SAID_AT: at}
    if isinstance(message, str):
        return {"role": "user", "content": message, "additional_kwargs": stamp}
    if isinstance(message, list | tuple) and _is_role_and_content(message):
        role, content = message
        return {"role": role, "content": content, "additional_kwargs": stamp}
    if not isinstance(message, Mapping):
        return message
    is_removal = message.get("type") == "remove"
    has_type = "type" in message and not is_removal
    if "role" not in message and not has_type:
        return message
    additional = message.get("additional_kwargs")
    if isinstance(additional, Mapping):
        stamp = {**additional, SAID_AT: at}
    return {**message, "additional_kwargs": stamp}


def _is_role_and_content(values: Sequence[object]) -> bool:
    """Whether these values are a pair that begins with a text, as a message may be written."""
    if len(values) != 2:  # noqa: PLR2004
        return False
    return isinstance(values[0], str)
