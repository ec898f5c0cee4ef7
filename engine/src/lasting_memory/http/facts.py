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
from lasting_memory.http.models import (
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
    usage_from,
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
from lasting_memory.memory.ends import Day, End, ends_of_file, present_day, without_end
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
    of_groups = list[tuple[Group, list[Item]]]()
    for group in caller.groups:
        group_items = await journal.all_items(caller.store, group.namespace)
        of_groups.append((group, group_items))
    content = await platform.in_thread(_facts_json, caller.deployment, items, of_groups)
    return Response(content, media_type="application/json")


def _facts_json(
    deployment: Deployment, items: list[Item], of_groups: list[tuple[Group, list[Item]]]
) -> bytes:
    """The facts in these files, and in the files of groups, as JSON. Blocks: there may be 100,000."""
    by_path = {f"{ROUTE}{item.key}": item for item in items}
    profile = by_path.get(PROFILE_PATH)
    day = present_day(deployment, text_of(profile) if profile else None)
    groups = _sorted_groups(deployment, by_path, day)
    if deployment.profile and profile is None:
        groups.append(_empty_profile(deployment.profile))
        groups.sort(key=_place)
    shared = list[SharedFacts]()
    for group, group_items in of_groups:
        shared.append(_shared_facts(deployment, group, group_items))
    usage = stored_files.usage_of(items, deployment.limits)
    answer: Facts = {"groups": groups, "usage": usage_from(usage), "shared": shared}
    return orjson.dumps(answer)


def _sorted_groups(
    deployment: Deployment, items: Mapping[str, Item], day: Day | None
) -> list[FactGroup]:
    """The files, which are given by path, as facts, in the order in which people are shown them."""
    groups = list[FactGroup]()
    for path, item in items.items():
        groups.append(_fact_group(deployment, item, path, day))
    groups.sort(key=_place)
    return groups


def _shared_facts(deployment: Deployment, group: Group, items: list[Item]) -> SharedFacts:
    by_path = {group.path_of(item.key): item for item in items}
    day = present_day(deployment, None)
    return {
        "path": group.path,
        "claim": group.claim,
        "group": group.value,
        "writes": group.writes,
        "groups": _sorted_groups(deployment, by_path, day),
    }


def _empty_profile(profile: type[BaseModel]) -> FactsOfProfile:
    return {
        "path": PROFILE_PATH,
        "title": "Profile",
        "kind": "profile",
        "revision": 0,
        "bytes": 0,
        "modified_at": None,
        "fields": _fields(profile, "", ""),
    }


def _place(group: FactGroup) -> tuple[bool, bool, bool, str]:
    """Sorts the profile and preferences before topics, and what has no lines last."""
    kind = group["kind"]
    path = group["path"]
    is_in_folder = path.count("/") > ROUTE.count("/") + 1
    return kind == "file", kind != "profile", is_in_folder, path


def _fact_group(deployment: Deployment, item: Item, path: str, day: Day | None) -> FactGroup:
    """A file as facts: as the fields of the profile, as lines, or as neither."""
    name = item.key.rpartition("/")[2]
    try:
        file = stored_file(item)
    except RefusedWrite as error:
        return {"path": path, "title": name, "kind": "file", "error": str(error)}
    content = file["content"]
    revision = revision_of(item)
    size = len(content.encode())
    modified_at = file.get("modified_at")
    holds_facts = (
        file["encoding"] == "utf-8" and name != "index.md" and not item.key.startswith("/skills/")
    )
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
        title, lines = _titled_lines(content, ends_of_file(item, day), signs_in(item.value))
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
    first = words[:1].upper()
    return first + words[1:]


def _titled_lines(
    content: str, ends: Sequence[End], signs: str
) -> tuple[str, list[FactLine | Heading]]:
    """The title of a text, which is a heading before all else, and its other lines. `signs` say who
    vouches for these.
    """
    title = ""
    end_by_number = {end.number: end for end in ends}
    sources = line_sources(content, signs) if signs else []
    visible = without_comments(content, line_breaks=True)
    lines = list[FactLine | Heading]()
    for line in content_lines(lines_of(visible)):
        is_first = not (title or lines)
        if line.is_heading and is_first:
            title = line.text
            continue
        number = line.number
        source = sources[number] if number < len(sources) else None
        end = end_by_number.get(number)
        lines.append(_fact_line(line, end, source))
    return title, lines


def _fact_line(line: Line, end: End | None, source: Source | None) -> FactLine | Heading:
    if line.is_heading:
        return {"line": line.number, "heading": line.text}
    fact: FactLine = {"line": line.number, "text": line.text}
    vouched = _shown_source(source)
    if vouched:
        fact["source"] = vouched
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
    """Who vouches for a fact, where that is to be shown."""
    return "unconfirmed" if source is Source.UNCONFIRMED else None


def _fields(profile: type[BaseModel], content: str, signs: str) -> list[ProfileField]:
    """The profile's fields as its schema describes them, with what is known.

    Raises `ValueError` for another file's content.
    """
    values = profile.model_validate_json(content or "{}").model_dump(mode="json")
    schemas = profile.model_json_schema()["properties"]
    known = field_sources(PROFILE_PATH, content, signs)
    fields = list[ProfileField]()
    for name, field in profile.model_fields.items():
        shown: ProfileField = {
            "name": name,
            "description": field.description,
            "value": values[name],
            "schema": schemas.get(name, {}),
        }
        vouched = _shown_source(known.get(name))
        if vouched:
            shown["source"] = vouched
        fields.append(shown)
    return fields


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
    found = list[FoundFile]()
    for file in files:
        lines = list[FoundLine]()
        for number, text in file.lines:
            lines.append(FoundLine(line=number, text=bare_line(text)))
        found.append(FoundFile(path=file.path, text=file.text, lines=lines))
    return FoundFiles(found=found)
