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
        check_of_three = cast("Callable[[str, str | None, Author], object]", check)

        def judge_path(change: Change) -> None:
            result = check_of_three(change.path, change.after, change.author)
            _refuse_awaitable(check, result)

        return judge_path
    check_of_one = cast("Callable[[Change], object]", check)

    def judge_change(change: Change) -> None:
        result = check_of_one(change)
        _refuse_awaitable(check, result)

    return judge_change


def _is_asynchronous(check: Check) -> bool:
    """Whether a check is a coroutine function, or an object that is called as one."""
    call = inspect.getattr_static(type(check), "__call__", None)
    return inspect.iscoroutinefunction(check) or inspect.iscoroutinefunction(call)


def _needs_one(check: Check) -> bool:
    """Whether a check has exactly one parameter without a default, which is no `path`."""
    required_names = list[str]()
    signature = inspect.signature(check)
    for parameter in signature.parameters.values():
        kind = parameter.kind
        if kind is parameter.VAR_POSITIONAL:
            return False
        is_keyword = kind in (parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD)
        has_default = parameter.default is not parameter.empty
        if not has_default and not is_keyword:
            required_names.append(parameter.name)
    return len(required_names) == 1 and required_names[0] != "path"


def _refuse_awaitable(check: Check, result: object) -> None:
    """Raises `SettingsError` where a check returned an awaitable. Nobody awaits it, so it would let
    every write pass.
    """
    if not inspect.isawaitable(result):
        return
    if inspect.iscoroutine(result):
        result.close()  # or Python would warn that it was never awaited
    raise SettingsError(f"checks has {check!r:.80}, which answers later; use a plain function.")


def takes(function: Callable[..., object], arguments: int) -> bool:
    """Whether a function can be called with so many arguments by position."""
    values = range(arguments)
    try:
        inspect.signature(function).bind(*values)
    except (TypeError, ValueError):  # ValueError: Python knows no signature of it
        return False
    return True
