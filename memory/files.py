"""The agent's filesystem: which path belongs to whom, who may write it, and what may be written.

Every rule is enforced where the file is, in the backend: a path's spelling, a custom tool, a forged tool call or a jump in
the graph all end there. The `permissions` given to deepagents say the same once more, earlier and with a nicer message.
"""

from __future__ import annotations

import base64
import functools
import posixpath
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

from deepagents import FilesystemPermission
from deepagents.backends import CompositeBackend, StateBackend, StoreBackend
from deepagents.backends.protocol import (
    BackendProtocol,
    DeleteResult,
    EditResult,
    FileData,
    FileDownloadResponse,
    FileUploadResponse,
    WriteResult,
)
from langchain.agents.middleware import InterruptOnConfig
from langgraph.runtime import Runtime, get_runtime
from langgraph.store.base import GetOp, Item

from memory import scopes
from settings import MAX_FILE_BYTES, MAX_PATH_BYTES, Settings, SharedWrites

Gate = Callable[[], str | None]
Args = ParamSpec("Args")
Result = TypeVar("Result", WriteResult, EditResult, DeleteResult)


class RefusedWriteError(ValueError):
    """A write that is not allowed or not valid. The message goes to the model and says what to do instead."""


def check_path(path: str) -> None:
    """Refuse a path within a route that is not one file's one spelling.

    Raises:
        RefusedWriteError: the root, a relative path, `//`, `.` or `..`, or longer than `MAX_PATH_BYTES`.
    """
    if path == "/" or not path.startswith("/") or path.startswith("//") or posixpath.normpath(path) != path:
        raise RefusedWriteError(f"'{path}' does not name a file; use one plain path such as /memories/preferences.md.")
    if len(path.encode(errors="replace")) > MAX_PATH_BYTES:
        raise RefusedWriteError(
            f"The path '{path[:40]}...' is longer than {MAX_PATH_BYTES} bytes; choose a shorter one."
        )


def check_content(path: str, content: str) -> None:
    """Refuse content that some store could not hold, or that is too large to be memory.

    Raises:
        RefusedWriteError: not UTF-8, a NUL character (Postgres cannot keep one), or more than `MAX_FILE_BYTES`.
    """
    try:
        size = len(content.encode())
    except UnicodeEncodeError:
        raise RefusedWriteError(f"'{path}' was not written: its text is not valid Unicode.") from None
    if "\x00" in content:
        raise RefusedWriteError(f"'{path}' was not written: its text holds a NUL character; remove it.")
    if size > MAX_FILE_BYTES:
        raise RefusedWriteError(
            f"'{path}' was not written: {size:,} bytes, and a file may have {MAX_FILE_BYTES:,}; split it by topic."
        )


def _checked(method: Callable[Concatenate[Any, str, Args], Result], failed: Callable[..., Result]) -> Any:
    """A backend's method behind the gate; a refusal, or a stored value that is no file, is its error result."""

    @functools.wraps(method)
    def checked(self: ScopedFiles, file_path: str, *args: Args.args, **kwargs: Args.kwargs) -> Result:
        try:
            self.check(file_path)
            return method(self, file_path, *args, **kwargs)
        except ValueError as error:
            return failed(error=f"Error: {error}")

    return checked


def _achecked(method: Callable[Concatenate[Any, str, Args], Awaitable[Result]], failed: Callable[..., Result]) -> Any:
    """`_checked` for asynchronous methods."""

    @functools.wraps(method)
    async def checked(self: ScopedFiles, file_path: str, *args: Args.args, **kwargs: Args.kwargs) -> Result:
        try:
            self.check(file_path)
            return await method(self, file_path, *args, **kwargs)
        except ValueError as error:
            return failed(error=f"Error: {error}")

    return checked


class ScopedFiles(StoreBackend):
    """Files of one route in the store, with deepagents' own results, behind a gate.

    Args:
        namespace: as for `StoreBackend`; raises `IdentityError` where nobody is known.
        gate: asked before every write; answers why it is refused, or None.
    """

    def __init__(self, *, namespace: Callable[[Runtime[Any]], scopes.Namespace], gate: Gate) -> None:
        super().__init__(namespace=namespace)
        self._gate = gate

    def check(self, path: str) -> None:
        """Raise `RefusedWriteError` where this path may not be written."""
        if reason := self._gate():
            raise RefusedWriteError(f"Permission denied for '{path}': {reason}")
        check_path(path)

    def _convert_store_item_to_file_data(self, store_item: Item) -> FileData:
        return stored_file(store_item)

    def _convert_file_data_to_store_value(self, file_data: FileData) -> dict[str, Any]:
        # The last step before every put, whichever operation made the new content.
        check_content("the file", file_data["content"])
        return super()._convert_file_data_to_store_value(file_data)

    write = _checked(StoreBackend.write, WriteResult)
    awrite = _achecked(StoreBackend.awrite, WriteResult)
    edit = _checked(StoreBackend.edit, EditResult)
    aedit = _achecked(StoreBackend.aedit, EditResult)
    delete = _checked(StoreBackend.delete, DeleteResult)
    adelete = _achecked(StoreBackend.adelete, DeleteResult)

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        return [self._upload(path, content) for path, content in files]

    def _upload(self, path: str, content: bytes) -> FileUploadResponse:
        try:
            self.check(path)
            return super().upload_files([(path, content)])[0]
        except ValueError as error:
            return FileUploadResponse(path=path, error="permission_denied" if self._gate() else str(error))

    async def adownload_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """All files in one batch; a value that is not a file is that file's error, not everyone's."""
        namespace = self._get_namespace()
        items = await self._get_store().abatch([GetOp(namespace, path) for path in paths])
        return [self._downloaded(path, item) for path, item in zip(paths, items, strict=True)]

    def _downloaded(self, path: str, item: object) -> FileDownloadResponse:
        if not isinstance(item, Item):
            return FileDownloadResponse(path=path, error="file_not_found")
        try:
            return FileDownloadResponse(path=path, content=file_bytes(self._convert_store_item_to_file_data(item)))
        except ValueError as error:
            return FileDownloadResponse(path=path, error=str(error))


class ThreadFiles(StateBackend):
    """Files of this thread alone. Refuses other spellings of a path: `//policies/x` is no way around `/policies/x`."""

    def write(self, file_path: str, content: str) -> WriteResult:
        error = _spelling_error(file_path)
        return WriteResult(error=error) if error else super().write(file_path, content)

    def edit(
        self, file_path: str, old_string: str, new_string: str, replace_all: bool = False
    ) -> EditResult:  # the protocol's signature
        error = _spelling_error(file_path)
        return EditResult(error=error) if error else super().edit(file_path, old_string, new_string, replace_all)

    def delete(self, file_path: str) -> DeleteResult:
        error = _spelling_error(file_path)
        return DeleteResult(error=error) if error else super().delete(file_path)

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        errors = [FileUploadResponse(path=path, error="invalid_path") for path, _ in files if _spelling_error(path)]
        return errors or super().upload_files(files)


def _spelling_error(path: str) -> str | None:
    try:
        check_path(path)
    except RefusedWriteError as error:
        return f"Error: {error}"
    return None


def stored_file(item: Item) -> FileData:
    """A store item as a file. Other code may put anything into a namespace; that must not break what lists or shows the rest.

    Raises:
        ValueError: the value is not file data.
    """
    content, encoding = item.value.get("content"), item.value.get("encoding", "utf-8")
    if isinstance(content, list) and all(isinstance(line, str) for line in content):
        content = "\n".join(content)  # how deepagents stored files before 0.5
    if not isinstance(content, str) or encoding not in {"utf-8", "base64"}:
        raise ValueError(f"'{item.key}' holds a value that is not a file; delete it or write another path.")
    file = FileData(content=content, encoding=encoding)
    for stamp in ("created_at", "modified_at"):
        if isinstance(item.value.get(stamp), str):
            file[stamp] = item.value[stamp]
    return file


def file_bytes(file: FileData) -> bytes:
    """The content of a file as bytes.

    Raises:
        ValueError: it says it is base64 and is not.
    """
    return (
        base64.b64decode(file["content"], validate=True) if file["encoding"] == "base64" else file["content"].encode()
    )


def memory_writes(settings: Settings, *, consolidating: bool) -> SharedWrites:
    """How a graph may write `/memories/`: `allow`, `deny`, or `interrupt` where it is shared and an operator approves."""
    if settings.memory_scope == "assistant":
        # Private conversations must not flow into shared memory.
        return "deny" if consolidating else settings.shared_writes
    return "deny" if settings.memory_writes == "background" and not consolidating else "allow"


def skill_writes(settings: Settings, *, consolidating: bool) -> SharedWrites:
    """How a graph may write `/skills/`. Consolidation reads what people said, so it never may."""
    return "deny" if consolidating else settings.shared_writes


def build_gate(writes: SharedWrites, settings: Settings) -> Gate:
    """The check a route's backend makes before each write."""

    def approved() -> str | None:
        # A write that waits for approval goes on in the run the operator resumed it with. Nothing that a client does to
        # its own run (a forged tool call, a jump to the tools node, a resume value of its own) makes it an operator's.
        user = scopes.run_user(get_runtime())
        if user is not None and scopes.is_operator(user, settings):
            return None
        return "an operator has to approve writing here."

    gates: dict[SharedWrites, Gate] = {
        "allow": lambda: None,
        "deny": lambda: "it is read-only here.",
        "interrupt": approved,
    }
    return gates[writes]


def build_routes(settings: Settings, *, consolidating: bool = False) -> dict[str, BackendProtocol]:
    """The three routes into the store, for `agent` or for `consolidation_agent`."""

    def memories(runtime: Runtime[Any]) -> scopes.Namespace:
        return scopes.memories(scopes.current_actor(settings, runtime), scopes.current_assistant(runtime), settings)

    def skills(runtime: Runtime[Any]) -> scopes.Namespace:
        return scopes.skills(scopes.current_assistant(runtime))

    def policies(runtime: Runtime[Any]) -> scopes.Namespace:
        return scopes.policies(scopes.current_actor(settings, runtime).org_id)

    def gate(writes: SharedWrites) -> Gate:
        return build_gate(writes, settings)

    return {
        "/memories/": ScopedFiles(namespace=memories, gate=gate(memory_writes(settings, consolidating=consolidating))),
        "/skills/": ScopedFiles(namespace=skills, gate=gate(skill_writes(settings, consolidating=consolidating))),
        "/policies/": ScopedFiles(namespace=policies, gate=gate("deny")),
    }


def build_backend(settings: Settings, *, consolidating: bool = False) -> CompositeBackend:
    """The filesystem of `agent`, or of `consolidation_agent`."""
    return CompositeBackend(default=ThreadFiles(), routes=build_routes(settings, consolidating=consolidating))


def build_permissions(settings: Settings, *, consolidating: bool = False) -> list[FilesystemPermission]:
    """The same rules for deepagents' file tools: denied early, or paused for an operator."""
    routes: Sequence[tuple[str, SharedWrites]] = (
        ("/policies", "deny"),
        ("/skills", skill_writes(settings, consolidating=consolidating)),
        ("/memories", memory_writes(settings, consolidating=consolidating)),
    )
    return [
        FilesystemPermission(operations=["write"], paths=[route, f"{route}/**"], mode=mode)
        for route, mode in routes
        if mode != "allow"
    ]


def interrupted_tools(settings: Settings) -> dict[str, bool | InterruptOnConfig]:
    """Memory tools of ours that pause for an operator, because what they write is shared."""
    if memory_writes(settings, consolidating=False) != "interrupt":
        return {}
    return {
        name: InterruptOnConfig(allowed_decisions=["approve", "reject"]) for name in ("append_memory", "save_profile")
    }
