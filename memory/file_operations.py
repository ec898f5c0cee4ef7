"""File operations within bounds: changes of a file, patterns of names, and the files of a thread."""

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from deepagents.backends import CompositeBackend, StateBackend
from deepagents.backends.protocol import (
    DeleteResult,
    EditResult,
    FileData,
    FileUploadResponse,
    GlobResult,
    GrepResult,
    LsResult,
    ReadResult,
    WriteResult,
)
from deepagents.backends.utils import file_data_to_string, perform_string_replacement

from memory.journal import Change
from memory.validation import RefusedWriteError, check_path, check_text
from settings import MAX_FILE_BYTES, MAX_INPUT_BYTES

# UTF-8 bytes of all files in one thread's state.
MAX_SCRATCH_BYTES = 4_194_304


def replaced(path: str, before: FileData | None, old: str, new: str, *, replace_all: bool) -> tuple[str, int]:
    """The text of a file after an `edit`, and the number of replacements. Raises `RefusedWriteError`."""
    if before is None:
        raise RefusedWriteError(f"File '{path}' not found")
    if before["encoding"] == "base64":
        raise RefusedWriteError("Cannot edit binary files with text replacements.")
    check_replacement(path, before["content"], old, new, replace_all=replace_all)
    result = perform_string_replacement(before["content"], old, new, replace_all)
    if isinstance(result, str):
        raise RefusedWriteError(result.removeprefix("Error: "))
    return result


def check_replacement(path: str, content: str, old: str, new: str, *, replace_all: bool) -> None:
    """Raise `RefusedWriteError` for a replacement beyond `MAX_FILE_BYTES`: it could turn 256 KiB into gigabytes."""
    times = content.count(old) if old and replace_all else 1
    size = len(content) + times * (len(new) - len(old))
    if size > max(MAX_FILE_BYTES, len(content)):
        raise RefusedWriteError(
            f"{path} was not written: {size:,} characters, and a file may have {MAX_FILE_BYTES:,} bytes; split it by topic."
        )


def upload_change(content: bytes) -> Change:
    try:
        file = FileData(content=content.decode(), encoding="utf-8")
    except UnicodeDecodeError:
        file = FileData(content=base64.standard_b64encode(content).decode("ascii"), encoding="base64")
    return lambda _: file


def text_error(*texts: str | None, check: Callable[[Any], None] = check_text) -> str | None:
    """The reason why a check refuses one of the texts, or None."""
    try:
        for text in texts:
            check(text)
    except RefusedWriteError as error:
        return f"Error: {error}"
    return None


# deepagents tries a pattern as a regular expression on every path. Each `**` multiplies the time by the path's depth, and the
# whole process waits: so patterns are bounded.
MAX_PATTERN_CHARS = 200
# `**` and groups of alternatives such as {md,txt}, together; alternatives beyond the first of each group.
MAX_MULTIPLIERS, MAX_COMMAS = 2, 20


def pattern_error(pattern: str, *texts: str | None) -> str | None:
    """The reason to refuse a pattern of names, or the texts given with it; None if all are usable."""
    if len(pattern) > MAX_PATTERN_CHARS:
        return f"The pattern has {len(pattern):,} characters of {MAX_PATTERN_CHARS}; use a shorter one, or ls."
    if pattern.count("**") + pattern.count("{") > MAX_MULTIPLIERS or pattern.count(",") > MAX_COMMAS or ".." in pattern:
        return f"The pattern {pattern!r} is too complex; use at most {MAX_MULTIPLIERS} of ** and {{...}} together, and no '..'."
    return text_error(pattern, *texts)


class BoundedFiles(CompositeBackend):
    """`CompositeBackend` that refuses too complex patterns, and texts that some store cannot look up. Graphs call it
    asynchronously only.
    """

    async def als(self, path: str) -> LsResult:
        error = text_error(path)
        return LsResult(error=error) if error else await super().als(path)

    async def aread(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        error = text_error(file_path)
        return ReadResult(error=error) if error else await super().aread(file_path, offset, limit)

    async def aglob(self, pattern: str, path: str | None = None) -> GlobResult:
        error = pattern_error(pattern, path)
        return GlobResult(error=error) if error else await super().aglob(pattern, path)

    async def agrep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> GrepResult:
        error = pattern_error(glob or "", pattern, path)
        return GrepResult(error=error) if error else await super().agrep(pattern, path, glob, max_count=max_count)


# deepagents' folders for messages and tool results that are too long for the prompt.
_OFFLOADED = ("/conversation_history/", "/large_tool_results/")


class ThreadFiles(StateBackend):
    """Files of this thread alone. It refuses other spellings of a path, such as `//policies/x`.

    Args:
        routes: folders of other backends. A client's input may carry files of any path; the agent does not see those under
            these folders, nor those with a path that it could not write.
    """

    def __init__(self, routes: Sequence[str]) -> None:
        super().__init__()
        self._routes = tuple(routes)

    def _read_files(self) -> dict[str, Any]:
        files = super()._read_files()
        return {path: files[path] for path in files if not path.startswith(self._routes) and _spelling_error(path) is None}

    def _send_files_update(self, update: dict[str, Any]) -> None:
        """Every write ends here. Raises `RefusedWriteError` if a file, or all of them together, would grow too large."""
        before = {path: scratch_size(file) for path, file in super()._read_files().items()}
        after = before | {path: scratch_size(file) for path, file in update.items() if file is not None}
        if (total := _total(after)) > max(MAX_SCRATCH_BYTES, _total(before)):
            raise RefusedWriteError(
                f"This conversation's files would have {total:,} bytes of {MAX_SCRATCH_BYTES:,}; delete some."
            )
        for path in update:
            most = MAX_INPUT_BYTES if path.startswith(_OFFLOADED) else MAX_FILE_BYTES
            if (size := after.get(path, 0)) > max(most, before.get(path, 0)):
                raise RefusedWriteError(f"{path} was not written: {size:,} bytes, and a file may have {most:,}; split it.")
        super()._send_files_update(update)

    def write(self, file_path: str, content: str) -> WriteResult:
        try:
            check_path(file_path)
            return super().write(file_path, content)
        except RefusedWriteError as error:
            return WriteResult(error=f"Error: {error}")

    def edit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> EditResult:
        try:
            check_path(file_path)
            if file := self._read_files().get(file_path):
                check_replacement(file_path, file_data_to_string(file), old_string, new_string, replace_all=replace_all)
            return super().edit(file_path, old_string, new_string, replace_all)
        except RefusedWriteError as error:
            return EditResult(error=f"Error: {error}")

    def delete(self, file_path: str) -> DeleteResult:
        error = _spelling_error(file_path)
        return DeleteResult(error=error) if error else super().delete(file_path)

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        return [self._uploaded(path, content) for path, content in files]

    def _uploaded(self, path: str, content: bytes) -> FileUploadResponse:
        """One file at a time, so that what is refused of one refuses no other."""
        if _spelling_error(path):
            return FileUploadResponse(path=path, error="invalid_path")
        try:
            return super().upload_files([(path, content)])[0]
        except RefusedWriteError as error:
            return FileUploadResponse(path=path, error=str(error))


def scratch_size(file: object) -> int:
    """UTF-8 bytes of a file in thread state, which may be any value of a client's."""
    content = file.get("content", "") if isinstance(file, Mapping) else file
    return len((content if isinstance(content, str) else repr(content)).encode(errors="replace"))


def _total(sizes: Mapping[str, int]) -> int:
    return sum(len(path) + size for path, size in sizes.items())


def _spelling_error(path: str) -> str | None:
    return text_error(path, check=check_path)
