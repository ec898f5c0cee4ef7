"""What is remembered of a person, as facts: lines of text under titles, and the fields of a profile."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated

import orjson
from fastapi import Query
from fastapi.responses import Response
from langgraph.store.base import Item
from pydantic import BaseModel, Field, StringConstraints

from lasting_memory import platform
from lasting_memory.agent.memory_search import DEFAULT_FOUND, MAX_FOUND, search_files
from lasting_memory.deployment import PROFILE_PATH, Deployment, Source
from lasting_memory.http.models.base import usage_from
from lasting_memory.http.models.facts import (
    FactGroup,
    FactLine,
    Facts,
    FactsOfProfile,
    FoundFile,
    FoundFiles,
    FoundLine,
    Heading,
    ProfileField,
    SharedFacts,
    Vouched,
)
from lasting_memory.http.requests import (
    IN_TURN,
    ROUTE,
    Caller,
    Group,
    MemoryQuery,
    OneMemory,
    memory_router,
    revision_of,
)
from lasting_memory.memory import journal, stored_files
from lasting_memory.memory.dated_lines import without_end
from lasting_memory.memory.ends import Day, End, ends_of_file, present_day
from lasting_memory.memory.facts import Line, bare_line, content_lines, without_comments
from lasting_memory.memory.journal import lines_of
from lasting_memory.memory.sources import field_sources, line_sources, signs_in
from lasting_memory.memory.stored_files import stored_file, text_of
from lasting_memory.memory.validation import RefusedWrite

router = memory_router(IN_TURN)


@router.get("/memory/facts", response_model=Facts)
async def facts(caller: Caller, query: MemoryQuery) -> Response:
    """What is remembered of you, in lines under titles.

    A row of a table is a line in words; the table's head, and the marks around code, are none. A
    line that holds until a day says so, and whether it is over. The profile is there before its
    file is. `shared` has an entry for each folder of a group of yours.
    """
    items = await caller.items()
    items_of_groups = list[tuple[Group, list[Item]]]()
    for group in caller.groups:
        group_items = await journal.all_items(caller.store, group.namespace)
        items_of_groups.append((group, group_items))
    deployment = caller.deployment
    content = await platform.in_thread(_facts_json, deployment, items, items_of_groups)
    return Response(content, media_type="application/json")


def _facts_json(
    deployment: Deployment, items: list[Item], items_of_groups: list[tuple[Group, list[Item]]]
) -> bytes:
    """The facts in a person's files, and in the files of their groups, as JSON.

    Blocks, as there may be 100,000 facts: call it outside of the event loop.
    """
    item_by_path = {f"{ROUTE}{item.key}": item for item in items}
    profile = item_by_path.get(PROFILE_PATH)
    profile_text = None
    if profile:
        profile_text = text_of(profile)
    day = present_day(deployment, profile_text)
    fact_groups = _sorted_groups(deployment, item_by_path, day)
    if deployment.profile and profile is None:
        empty_profile = _empty_profile(deployment.profile)
        fact_groups.append(empty_profile)
        fact_groups.sort(key=_sort_key)
    shared = list[SharedFacts]()
    for group, group_items in items_of_groups:
        shared_facts = _shared_facts(deployment, group, group_items)
        shared.append(shared_facts)
    usage = stored_files.usage_of(items, deployment.limits)
    answer: Facts = {"groups": fact_groups, "usage": usage_from(usage), "shared": shared}
    return orjson.dumps(answer)


def _sorted_groups(
    deployment: Deployment, item_by_path: Mapping[str, Item], day: Day | None
) -> list[FactGroup]:
    """Files as facts, in the order in which people are shown them."""
    fact_groups = list[FactGroup]()
    for path, item in item_by_path.items():
        fact_group = _fact_group(deployment, item, path, day)
        fact_groups.append(fact_group)
    fact_groups.sort(key=_sort_key)
    return fact_groups


def _shared_facts(deployment: Deployment, group: Group, items: list[Item]) -> SharedFacts:
    """The facts in the files of a group."""
    item_by_path = {group.path_of(item.key): item for item in items}
    day = present_day(deployment, None)
    return {
        "path": group.path,
        "claim": group.claim,
        "group": group.value,
        "writes": group.writes,
        "groups": _sorted_groups(deployment, item_by_path, day),
    }


def _empty_profile(profile: type[BaseModel]) -> FactsOfProfile:
    """The facts of a profile whose file is not there."""
    return {
        "path": PROFILE_PATH,
        "title": "Profile",
        "kind": "profile",
        "revision": 0,
        "bytes": 0,
        "modified_at": None,
        "fields": _fields(profile, "", ""),
    }


def _sort_key(group: FactGroup) -> tuple[bool, bool, bool, str]:
    """Sorts the profile first, then files of the first level, those in folders, and files without
    facts last; each by path.
    """
    kind = group["kind"]
    path = group["path"]
    has_no_facts = kind == "file"
    is_no_profile = kind != "profile"
    is_in_folder = path.count("/") > ROUTE.count("/") + 1
    return has_no_facts, is_no_profile, is_in_folder, path


def _fact_group(deployment: Deployment, item: Item, path: str, day: Day | None) -> FactGroup:
    """A file as facts: as the fields of the profile, as lines, or, without facts, as a file."""
    _, _, name = item.key.rpartition("/")
    try:
        file = stored_file(item)
    except RefusedWrite as error:
        return {"path": path, "title": name, "kind": "file", "error": str(error)}
    content = file["content"]
    revision = revision_of(item)
    size = len(content.encode())
    modified_at = file.get("modified_at")
    is_text = file["encoding"] == "utf-8"
    is_for_agents = name == "index.md" or item.key.startswith("/skills/")
    holds_facts = is_text and not is_for_agents
    if holds_facts and path == PROFILE_PATH and deployment.profile:
        with suppress(ValueError):  # not of this schema: a file
            return {
                "path": path,
                "title": "Profile",
                "kind": "profile",
                "revision": revision,
                "bytes": size,
                "modified_at": modified_at,
                "fields": _fields(deployment.profile, content, signs_in(item.value)),
            }
    elif holds_facts and name.endswith((".md", ".txt")):
        ends = ends_of_file(item, day)
        signs = signs_in(item.value)
        title, lines = _titled_lines(content, ends, signs)
        return {
            "path": path,
            "title": title or _title_of_name(name),
            "kind": "lines",
            "revision": revision,
            "bytes": size,
            "modified_at": modified_at,
            "lines": lines,
        }
    return {
        "path": path,
        "title": name,
        "kind": "file",
        "revision": revision,
        "bytes": size,
        "modified_at": modified_at,
    }


def _title_of_name(name: str) -> str:
    """The name of a file as a title: "daily_notes.md" is "Daily notes"."""
    stem, _, _ = name.rpartition(".")
    words = stem.replace("-", " ").replace("_", " ")
    first_letter = words[:1].upper()
    return first_letter + words[1:]


def _titled_lines(
    content: str, ends: Sequence[End], signs: str
) -> tuple[str, list[FactLine | Heading]]:
    """The title of a text, and its other lines. The title is a heading before all else, "" without
    one. `signs` say who vouches for the lines.
    """
    title = ""
    end_by_number = {end.number: end for end in ends}
    sources: Sequence[Source | None] = []
    if signs:
        sources = line_sources(content, signs)
    visible_text = without_comments(content, line_breaks=True)
    entries = list[FactLine | Heading]()
    for line in content_lines(lines_of(visible_text)):
        is_first = not title and not entries
        if line.is_heading and is_first:
            title = line.text
            continue
        number = line.number
        end = end_by_number.get(number)
        source = sources[number] if number < len(sources) else None
        entry = _fact_line(line, end, source)
        entries.append(entry)
    return title, entries


def _fact_line(line: Line, end: End | None, source: Source | None) -> FactLine | Heading:
    """A line as it is answered: `end` is the day until which it holds, `source` who vouches for it."""
    if line.is_heading:
        return {"line": line.number, "heading": line.text}
    fact: FactLine = {"line": line.number, "text": line.text}
    shown_source = _shown_source(source)
    if shown_source:
        fact["source"] = shown_source
    if end:
        fact["text"] = without_end(line.text)
        fact["until"] = end.day.isoformat()
        if end.is_over:
            fact["over"] = True
        return fact
    if line.raw:
        fact["raw"] = line.raw
    return fact


def _shown_source(source: Source | None) -> Vouched | None:
    """What is shown of who vouches for a fact: that nobody does; None where somebody does."""
    if source is Source.UNCONFIRMED:
        return "unconfirmed"
    return None


def _fields(profile: type[BaseModel], content: str, signs: str) -> list[ProfileField]:
    """The profile's fields as its schema describes them, with what is known.

    Raises `ValueError` for another file's content.
    """
    profile_values = profile.model_validate_json(content or "{}")
    values = profile_values.model_dump(mode="json")
    schema = profile.model_json_schema()
    field_schemas = schema["properties"]
    source_by_field = field_sources(PROFILE_PATH, content, signs)
    entries = list[ProfileField]()
    for name, field in profile.model_fields.items():
        entry: ProfileField = {
            "name": name,
            "description": field.description,
            "value": values[name],
            "schema": field_schemas.get(name, {}),
        }
        source = source_by_field.get(name)
        shown_source = _shown_source(source)
        if shown_source:
            entry["source"] = shown_source
        entries.append(entry)
    return entries


class Find(OneMemory):
    q: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1_000)]
    limit: Annotated[int, Field(ge=1, le=MAX_FOUND)] = DEFAULT_FOUND


@router.get("/memory/find")
async def find(caller: Caller, query: Annotated[Find, Query()]) -> FoundFiles:
    """Search what is remembered of you, as the agent does with its tool.

    It searches by words, and by meaning where the store has an index.
    """
    files = await search_files(
        caller.store, caller.namespace, query.q, caller.deployment, query.limit
    )
    entries = list[FoundFile]()
    for file in files:
        lines = [FoundLine(line=number, text=bare_line(text)) for number, text in file.lines]
        entry = FoundFile(path=file.path, text=file.text, lines=lines)
        entries.append(entry)
    return FoundFiles(found=entries)
