"""A person's own word for a line of memory that nobody vouched for."""

from typing import Annotated, Self

from deepagents.backends.protocol import FileData
from pydantic import Field, StringConstraints, model_validator
from starlette.exceptions import HTTPException

from lasting_memory import platform
from lasting_memory.deployment import Source
from lasting_memory.http import requests
from lasting_memory.http.models import WrittenFile
from lasting_memory.http.requests import Caller, FileQuery, Sent
from lasting_memory.memory.sources import entry_of, field_of, lowest, signs_in, sources_in
from lasting_memory.memory.sources import text_of as text_of_entry
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
        """Whether an entry of the file is the line or in the field."""
        if self.text is not None:
            return entry == entry_of(self.text)
        name = field_of(entry)
        if self.value is not None:
            return name == self.field and text_of_entry(entry) == " ".join(self.value.split())
        is_within = name.startswith(f"{self.field}.")
        return is_within or name == self.field


@router.post("/memory/confirm")
async def confirm(caller: Caller, query: FileQuery, body: Confirmed) -> WrittenFile:
    """Say that a line, or a field of a JSON file, is true: it counts as your own word from now on.

    Its text stays. 404: the file does not say this.
    """
    caller.check_own()
    key = requests.key_of(query.path)
    item = await caller.store.aget(caller.namespace, key)
    meant = list[Source]()
    if item is not None:
        signs = signs_in(item.value)
        known = await platform.in_thread(sources_in, key, text_of(item), signs)
        meant = [source for entry, source in known.items() if body.means(entry)]
    if item is None or not meant:
        raise HTTPException(404, f"{query.path} does not say this; read it again.")
    if lowest(meant) is Source.CONFIRMED:  # a revision would say nothing
        return WrittenFile(path=query.path, revision=requests.revision_of(item))

    def unchanged(before: FileData | None) -> FileData | None:
        return before

    def vouch(entry: str, known: Source | None) -> Source:
        if body.means(entry):
            return Source.CONFIRMED
        return known or Source.INFERRED

    revision = await caller.files.arevise(key, unchanged, vouch=vouch)
    return WrittenFile(path=query.path, revision=revision.number)
