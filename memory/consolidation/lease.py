"""What a consolidation of version 0.1 left unfinished: it wrote into the files themselves, and noted their revisions first."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise

from deepagents.backends.protocol import FileData
from langgraph.store.base import BaseStore

from memory import identity, journal
from memory.consolidation.drafts import files_of
from memory.consolidation.guard import revert_file
from memory.journal import NOTHING, Revision
from memory.namespaces import Namespace
from memory.validation import RefusedWriteError


async def take_back(store: BaseStore, actor: identity.Actor, files: Namespace, worker: str, base: Mapping[str, int]) -> None:
    """Revert what the run `worker` wrote, and keep others' later changes. Safe to repeat.

    `base` has the number of each file's newest revision when the run's batch began, by key.
    """
    author, began = identity.Author("consolidation", actor.user_id, worker), journal.began(actor)
    for key in sorted({*base, *await files_of(store, files)}):
        history = await journal.history(store, files, key)
        if own := _written(history, base.get(key, 0), author):
            encodings = {each.content or "": each.encoding for each in history}
            await journal.change(store, files, key, partial(_reverted, key, own, encodings), author, began=began)


def _reverted(key: str, own: Sequence[tuple[str, str]], encodings: Mapping[str, str], file: FileData | None) -> FileData | None:
    text = file["content"] if file else ""
    try:
        for before, after in own:
            text = revert_file(key, text, before, after)
    except RefusedWriteError:  # an invalid profile stays as it is
        return file
    return FileData(content=text, encoding=encodings.get(text, "utf-8")) if text else None


def _written(history: Sequence[Revision], since: int, author: identity.Author) -> list[tuple[str, str]]:
    """The texts before and after each of the author's changes since a revision, newest first.

    `since` is 0 for no file, or one put around the journal: then the last such revision counts.
    """
    since = since or max((each.number for each in history if each.content is None or each.author.kind == "outside"), default=0)
    known = [*history, NOTHING] if history and history[-1].number == 1 else history
    return [
        (old.content or "", new.content or "")
        for new, old in pairwise(known)
        if new.number > since and (new.author.kind, new.author.run_id) == (author.kind, author.run_id)
    ]
