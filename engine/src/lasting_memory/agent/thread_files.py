"""Files of one thread alone, in its state, where a client can put what it likes."""

from collections.abc import Mapping, Sequence
from typing import cast

from deepagents.backends import StateBackend, protocol
from deepagents.backends.protocol import FileData
from deepagents.backends.utils import file_data_to_string

from lasting_memory.agent.scoped_files import check_replacement
from lasting_memory.memory import validation
from lasting_memory.memory.validation import RefusedWrite
from lasting_memory.people.scopes import OFFLOADED
from lasting_memory.plain_text import plain, spelled_as_in

# UTF-8 bytes of all files in one thread's state.
MAX_SCRATCH_BYTES = 4_194_304


class ThreadFiles(StateBackend):
    """Files of this thread alone, each of bounded size. It refuses other spellings of a path, such
    as `//policies/x`.

    A client's input and state may carry files of any path, and anything in a file's place: the
    agent sees neither those under `routes`, the folders of other backends, nor what is no file.
    """

    def __init__(self, routes: Sequence[str]) -> None:
        super().__init__()
        self._routes = tuple(routes)

    def _read_files(self) -> dict[str, Mapping[str, object]]:
        """The files of the thread that the agent sees, by path, as deepagents keeps them."""
        files = super()._read_files()
        if not isinstance(files, Mapping):
            return {}
        visible_files = dict[str, Mapping[str, object]]()
        for path, file in files.items():
            if self._is_visible(path) and _is_file(file):
                visible_files[path] = _with_plain_text(file)
        return visible_files

    def _is_visible(self, path: str) -> bool:
        """Whether the agent may see a file at this path here."""
        is_of_other_backend = path.startswith(self._routes)
        if is_of_other_backend:
            return False
        return validation.is_plain(path)

    def _send_files_update(self, update: dict[str, object]) -> None:
        """Every write ends here. Raises `RefusedWrite` for a bad path, and for a file, or all, that
        grow too large.
        """
        sizes_before = dict[str, int]()
        for path, file in super()._read_files().items():
            sizes_before[path] = _size(file)
        sizes_after = dict(sizes_before)
        for path, file in update.items():
            if file is not None:
                sizes_after[path] = _size(file)
        total_before = _total(sizes_before)
        total = _total(sizes_after)
        # What a client's state has already may stay, however large.
        if total > max(MAX_SCRATCH_BYTES, total_before):
            raise RefusedWrite(
                f"This conversation's files would have {total:,} bytes of {MAX_SCRATCH_BYTES:,}; delete some."
            )
        for path in update:
            validation.check_path(path)
            max_size = validation.MAX_FILE_BYTES
            if path.startswith(OFFLOADED):
                max_size = validation.MAX_INPUT_BYTES
            size_before = sizes_before.get(path, 0)
            size = sizes_after.get(path, 0)
            if size > max(max_size, size_before):
                raise RefusedWrite(
                    f"{path} was not written: {size:,} bytes, and a file may have {max_size:,}; split it."
                )
        super()._send_files_update(update)

    def write(self, file_path: str, content: str) -> protocol.WriteResult:
        """Write a new file, as deepagents does. The result has an error if it was refused."""
        try:
            return super().write(file_path, plain(content))
        except RefusedWrite as error:
            return protocol.WriteResult(error=f"Error: {error}")

    def edit(
        self, file_path: str, old_string: str, new_string: str, replace_all: bool = False
    ) -> protocol.EditResult:
        """Replace a part of a file, as deepagents does. The result has an error if it was refused."""
        try:
            old_text = plain(old_string)
            new_text = plain(new_string)
            file = self._read_files().get(file_path)
            if file:
                content = file_data_to_string(cast("FileData", file))
                old_text = spelled_as_in(content, old_text)
                check_replacement(file_path, content, old_text, new_text, replace_all=replace_all)
            return super().edit(file_path, old_text, new_text, replace_all)
        except RefusedWrite as error:
            return protocol.EditResult(error=f"Error: {error}")


def _is_file(file: object) -> bool:
    """Whether deepagents can read a value of thread state as a file: its content is a text, or the
    lines of one.
    """
    if not isinstance(file, Mapping):
        return False
    content = file.get("content")
    lines = content if isinstance(content, list) else [content]
    for line in lines:
        if not isinstance(line, str):
            return False
    for name in ("created_at", "modified_at"):
        time = file.get(name)
        if not isinstance(time, str | None):
            return False
    return True


def _with_plain_text(file: Mapping[str, object]) -> Mapping[str, object]:
    """A file of thread state with plain text; the same object if its text is plain, or it is none."""
    content = file["content"]
    if file.get("encoding", "utf-8") != "utf-8":
        return file
    text = content
    if isinstance(content, list):
        text = [plain(line) for line in content]
    elif isinstance(content, str):
        text = plain(content)
    if text == content:
        return file
    return {**file, "content": text}


def _size(file: object) -> int:
    """UTF-8 bytes of a file in thread state, which may be any value of a client's."""
    content = file
    if isinstance(file, Mapping):
        content = file.get("content", "")
    text = content if isinstance(content, str) else repr(content)
    encoded_text = text.encode(errors="replace")
    return len(encoded_text)


def _total(sizes: Mapping[str, int]) -> int:
    """The size of all files, with their paths."""
    total = 0
    for path, size in sizes.items():
        total += len(path) + size
    return total
