"""What every write and deletion must pass: checks of a fork's own."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from lasting_memory.deployment.source import Source
from lasting_memory.people.identity import Author
from lasting_memory.settings import SettingsError


@dataclass(frozen=True, slots=True)
class Change:
    """A write or a deletion that a check judges.

    Attributes:
        path: the file, as the agent sees it, such as /memories/preferences.md.
        before: its text when the change is judged, of a draft of consolidation the draft's; None:
            there is no file.
        after: its new text; None: it is deleted.
        author: who writes.
        source: who vouches for the lines and fields that it adds; of several the one that counts
            least. None: it adds none.

    Of a file that is no text, `before` and `after` are base64.
    """

    path: str
    before: str | None
    after: str | None
    author: Author
    source: Source | None = None


# Takes a `Change`; or a file's path, its new text (None: it is deleted) and who writes it. Raises
# `RefusedWrite`, whose message says what to do instead. It may be called more than once for a
# write, and in several threads.
Check = Callable[[Change], None] | Callable[[str, str | None, Author], None]


def judge_of(check: Check) -> Callable[[Change], None]:
    """A check as a function of a `Change`.

    By its signature: one that can take three arguments is given path, content and author, unless
    all but its first have a default, and that is no `path`.
    """
    if not callable(check) or inspect.isclass(check) or _is_asynchronous(check):
        raise SettingsError(
            f"checks has {check!r:.80}; use a plain function of one Change, or of path, content and author."
        )
    takes_three = takes(check, 3)
    if not takes_three and not takes(check, 1):
        raise SettingsError(
            f"checks has {check!r:.80}, which takes neither one Change nor path, content and author; "
            "give it one parameter, or these three."
        )
    if takes_three and not _needs_one(check):
        of_three = cast("Callable[[str, str | None, Author], None]", check)
        return lambda change: _judged(check, of_three(change.path, change.after, change.author))
    of_change = cast("Callable[[Change], None]", check)
    return lambda change: _judged(check, of_change(change))


def _is_asynchronous(check: Check) -> bool:
    """Whether a check is a coroutine function, or an object that is called as one."""
    call = inspect.getattr_static(type(check), "__call__", None)
    return inspect.iscoroutinefunction(check) or inspect.iscoroutinefunction(call)


def _needs_one(check: Check) -> bool:
    """Whether a check has one parameter without a default, which is no `path`."""
    needed = list[str]()
    for parameter in inspect.signature(check).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            return False
        is_keyword = parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD)
        if parameter.default is parameter.empty and not is_keyword:
            needed.append(parameter.name)
    return len(needed) == 1 and needed[0] != "path"


def _judged(check: Check, result: object) -> None:
    """Raises `SettingsError` where a check gave an awaitable in place of its verdict: what nobody
    waits for would let every write pass.
    """
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise SettingsError(f"checks has {check!r:.80}, which answers later; use a plain function.")


def takes(function: Callable[..., object], arguments: int) -> bool:
    """Whether a function can be called with so many arguments by position."""
    try:
        inspect.signature(function).bind(*range(arguments))
    except (TypeError, ValueError):  # ValueError: Python knows no signature of it
        return False
    return True
