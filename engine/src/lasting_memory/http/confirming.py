"""A person's own word for a line of memory that nobody vouched for.

An entry of a file is a line of text, or a field of JSON with its value. The source of an entry is
who vouches for it.
"""

from typing import Annotated, Self

from deepagents.backends.protocol import FileData
from pydantic import Field, StringConstraints, model_validator
from starlette.exceptions import HTTPException

from lasting_memory import platform
from lasting_memory.deployment import Source
from lasting_memory.http import requests
from lasting_memory.http.models.files import WrittenFile
from lasting_memory.http.requests import Caller, FileQuery, Sent
from lasting_memory.memory.entries import entry_of, field_of
from lasting_memory.memory.entries import text_of as text_of_entry
from lasting_memory.memory.sources import lowest, signs_in, sources_in
from lasting_memory.memory.stored_files import text_of

router = requests.memory_router(requests.IN_TURN)

_Text = Annotated[str, StringConstraints(min_length=1, max_length=10_000)]


class Confirmed(Sent):
    text: Annotated[_Text | None, Field(description="the line, as `GET /memory/facts` has it")] = (
        None
    )
    field: Annotated[_Text | None, Field(description="the name of a field of a JSON file")] = None
    value: Annotated[
        _Text | None,
        Field(description="its value as you see it, where that is a text; 404 if it has another"),
    ] = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.text is None) == (self.field is None):
            raise ValueError("give text, or field")
        if self.value is not None and self.field is None:
            raise ValueError("give value with field alone")
        return self

    def means(self, entry: str) -> bool:
        """Whether an entry of the file is the line that is confirmed, or in the field that is."""
        if self.text is not None:
            return entry == entry_of(self.text)
        name = field_of(entry)
        if self.value is None:
            is_within = name.startswith(f"{self.field}.")
            return is_within or name == self.field
        if name != self.field:
            return False
        words = self.value.split()
        return text_of_entry(entry) == " ".join(words)


@router.post("/memory/confirm")
async def confirm(caller: Caller, query: FileQuery, body: Confirmed) -> WrittenFile:
    """Say that a line, or a field of a JSON file, is true: it counts as your own word from now on.

    Its text stays. 404: the file does not say this.
    """
    caller.check_own()
    key = requests.key_of(query.path)
    item = await caller.store.aget(caller.namespace, key)
    confirmed_sources = list[Source]()
    if item is not None:
        text = text_of(item)
        signs = signs_in(item.value)
        source_by_entry = await platform.in_thread(sources_in, key, text, signs)
        for entry, source in source_by_entry.items():
            if body.means(entry):
                confirmed_sources.append(source)
    if item is None or not confirmed_sources:
        raise HTTPException(404, f"{query.path} does not say this; read it again.")
    if lowest(confirmed_sources) is Source.CONFIRMED:  # a revision would say nothing
        revision_number = requests.revision_of(item)
        return WrittenFile(path=query.path, revision=revision_number)

    def unchanged(file: FileData | None) -> FileData | None:
        return file

    def vouch(entry: str, source: Source | None) -> Source:
        """Who vouches for an entry from now on."""
        if body.means(entry):
            return Source.CONFIRMED
        return source or Source.INFERRED

    revision = await caller.files.arevise(key, unchanged, vouch=vouch)
    return WrittenFile(path=query.path, revision=revision.number)
