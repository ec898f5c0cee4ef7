"""A folder of files in the store, and the only code of this library that puts a file there.

A change passes, in this order: the path, the gate (`before_write`), the quota, whether its person
was forgotten meanwhile, and the journal, which looks again after it put. `make` is a function that
gives a file's new content for its present one. A `Vouch` says who vouches for the entries of a file,
which are its lines, or the values of its JSON (`memory/entries.py`).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from types import MappingProxyType

from deepagents.backends.protocol import FileData
from langgraph.store.base import BaseStore, Item

from lasting_memory.deployment import Deployment, Source
from lasting_memory.memory import journal, validation
from lasting_memory.memory.journal import Change, Revision, Writer
from lasting_memory.memory.line_times import LineTimes
from lasting_memory.memory.sources import lowest, signs_in, sources_in
from lasting_memory.memory.stored_files import text_of
from lasting_memory.memory.vouches import Vouch, source_of_change, vouch_new_as
from lasting_memory.people.identity import Author
from lasting_memory.people.namespaces import Namespace
from lasting_memory.plain_text import plain

# Who vouches for what somebody writes, where the write itself does not say it.
_OF_AUTHOR = {"person": Source.CONFIRMED, "client": Source.UNCONFIRMED}


def sources_of_files(items: Iterable[Item]) -> dict[str, Source]:
    """Who vouches for the entries of stored files, as far as anything is known of the files. Of one
    that stands in several the lowest counts. Blocks.
    """
    by_entry = dict[str, Source]()
    for item in items:
        signs = signs_in(item.value)
        if not signs:
            continue
        text = text_of(item)
        sources = sources_in(item.key, text, signs)
        for entry, source in sources.items():
            in_other_files = by_entry.get(entry, source)
            by_entry[entry] = lowest([source, in_other_files])
    return by_entry


def vouch_of(author: Author) -> Vouch:
    """Who vouches for what an author writes: a person for their own lines, nobody for a program's."""
    source = _OF_AUTHOR.get(author.kind, Source.INFERRED)
    return vouch_new_as(source)


@dataclass(frozen=True, slots=True)
class Folder:
    """The files of a namespace, and who writes them.

    `route` is the folder as the agent sees it, without the last slash. `writer` is None where
    nobody can be forgotten.
    """

    deployment: Deployment
    store: BaseStore
    namespace: Namespace
    route: str
    author: Author
    writer: Writer | None = None

    async def change(
        self,
        path: str,
        make: Change,
        *,
        expect: str | None = None,
        is_bounded: bool = True,
        times: LineTimes = MappingProxyType({}),
        vouch: Vouch | None = None,
    ) -> Revision:
        """Change a file. Returns the newest revision, in which the change is.

        `make` gives the new file for the present one, None for a deletion; it may be asked several
        times. `expect` is the id of the only revision that the change may follow, "" for no file
        yet. With `is_bounded` the limits of the deployment hold for all files together; without,
        whoever calls has held several changes to them. `times` are the times of new lines with an
        end that were written before now (`memory/line_times.py`). `vouch` says who vouches for its
        entries; None: as `vouch_of` for the author.

        Raises `MovedError` if the file is at another revision, and `ValueError` if `make`, the
        path, the gate or the quota refuses it, or the person was forgotten. Nothing was changed
        then.
        """
        validation.check_path(path, f"{self.route}{path}")
        if vouch is None:
            vouch = vouch_of(self.author)
        return await journal.change(
            self.store,
            self.namespace,
            path,
            make=self.gated(path, make, vouch),
            author=self.author,
            is_bounded=is_bounded,
            expect=expect,
            writer=self.writer,
            limits=self.deployment.limits,
            times=times,
            vouch=vouch,
        )

    def gated(self, path: str, make: Change, vouch: Vouch | None = None) -> Change:
        """A change of a file as `make`, with plain text, that raises as `before_write` for what it
        makes. `vouch` says who vouches for that; None: as `vouch_of` for the author.
        """
        effective_vouch = vouch or vouch_of(self.author)
        shown_path = f"{self.route}{path}"

        def gated(old_file: FileData | None) -> FileData | None:
            # Plain before the checks: they see what is kept.
            raw_file = make(old_file)
            new_file = _plain(raw_file)
            check_write(
                self.deployment,
                shown_path,
                old_file,
                new_file,
                self.author,
                vouch=effective_vouch,
            )
            return new_file

        return gated

    async def remove_other(self, item: Item) -> None:
        """Delete an item that is no file, and has no history. Raises as `before_write`."""
        path = f"{self.route}{item.key}"
        validation.before_write(self.deployment, path, None, self.author)
        await self.store.adelete(item.namespace, item.key)


def _plain(file: FileData | None) -> FileData | None:
    """The file with plain text, if it is a text; None for no file."""
    if file is None or file["encoding"] != "utf-8":
        return file
    plain_file = file.copy()
    plain_file["content"] = plain(file["content"])
    return plain_file


def check_write(
    deployment: Deployment,
    path: str,
    before: FileData | None,
    after: FileData | None,
    author: Author,
    *,
    vouch: Vouch,
) -> None:
    """Raise `RefusedWrite` as `before_write` for what becomes of a file at a path (as the agent
    sees it). `before` and `after` are None for no file. `vouch` says who vouches for what is new.
    """
    if before is None and after is None:
        return
    source: Source | None = None
    if deployment.checks:
        source = source_of_write(path, before, after, vouch)
    old_content = before["content"] if before else None
    new_content: str | None = None
    encoding: str | None = None
    if after:
        new_content = after["content"]
        encoding = after["encoding"]
    validation.before_write(
        deployment,
        path,
        content=new_content,
        author=author,
        encoding=encoding,
        before=old_content,
        source=source,
    )


def source_of_write(
    path: str, before: FileData | None, after: FileData | None, vouch: Vouch
) -> Source | None:
    """Who vouches for what a write adds to a text; None if it adds nothing, or is no text."""
    if after is None or after["encoding"] != "utf-8":
        return None
    old_text = ""
    if before is not None and before["encoding"] == "utf-8":
        old_text = before["content"]
    new_text = plain(after["content"])
    return source_of_change(path, old_text, new_text, vouch)
