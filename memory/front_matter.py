"""The front matter of a SKILL.md, read within bounds.

One person writes it, and every run of everyone who shares the skill reads it. So only a small part of YAML is accepted: texts,
lists and mappings, bounded in size and depth. Anchors and aliases are refused, because a few hundred bytes can expand to
gigabytes; so are tags. Dates and numbers are read as text, because parsing them can fail.
"""

import re
from typing import Any, cast

import yaml
from deepagents.middleware.skills import MAX_SKILL_COMPATIBILITY_LENGTH as MAX_COMPATIBILITY
from deepagents.middleware.skills import MAX_SKILL_DESCRIPTION_LENGTH as MAX_DESCRIPTION
from deepagents.middleware.skills import MAX_SKILL_NAME_LENGTH as MAX_NAME
from deepagents.middleware.skills import SkillMetadata
from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from settings import MAX_FRONT_MATTER_BYTES

SKILL_FILE = "SKILL.md"
_MAX_DEPTH = 8
# The C parser in PyYAML's wheels is ten times as fast. Both produce texts, lists and mappings only.
_LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
# Characters that are invisible in a prompt, or that it cannot be sent with.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


class SkillError(ValueError):
    """A SKILL.md that is no skill. The message says what is wrong and how to fix it."""


class FrontMatter(BaseModel):
    """The fields of the Agent Skills specification (https://agentskills.io/specification). Others are ignored."""

    model_config = ConfigDict(str_strip_whitespace=True)

    name: str = Field(min_length=1, max_length=MAX_NAME)
    description: str = Field(min_length=1, max_length=MAX_DESCRIPTION)
    license: str = ""
    compatibility: str = Field("", max_length=MAX_COMPATIBILITY)
    metadata: dict[str, str] = {}
    allowed_tools: list[str] = Field([], alias="allowed-tools")

    @field_validator("name")
    @classmethod
    def _is_the_folder_s(cls, name: str, info: ValidationInfo) -> str:
        if name != info.context:
            raise ValueError(f"it is {name!r}, and must be its folder's, {info.context!r}")
        return name

    @field_validator("metadata", mode="before")
    @classmethod
    def _texts_only(cls, value: object) -> dict[str, str]:
        fields = value if isinstance(value, dict) else {}
        return {key: text for key, text in fields.items() if isinstance(text, str)}

    @field_validator("allowed_tools", mode="before")
    @classmethod
    def _names_only(cls, value: object) -> list[str]:
        names = value.replace(",", " ").split() if isinstance(value, str) else value
        return [name.strip() for name in names if isinstance(name, str) and name.strip()] if isinstance(names, list) else []


def front_matter(content: bytes) -> str:
    """The text between the first line of a SKILL.md, which is `---`, and the next such line. Raises `SkillError` if there is
    none, or if it is too long or not UTF-8. Reads the file's beginning only.
    """
    head = content[: MAX_FRONT_MATTER_BYTES + 1]
    lines = head.split(b"\n")
    if len(head) < len(content):
        lines.pop()  # it may be half a line
    ends = [number for number, line in enumerate(lines) if line.rstrip() == b"---"][:2]
    if ends[:1] != [0]:
        raise SkillError("It has no front matter; begin it with a line of ---, name:, description: and another line of ---.")
    if len(ends) == 1 and len(head) < len(content):
        raise SkillError(f"Its front matter has no end within {MAX_FRONT_MATTER_BYTES:,} bytes; shorten it, end it with ---.")
    if len(ends) == 1:
        raise SkillError("Its front matter has no end; put a line of --- after it.")
    try:
        return b"\n".join(lines[1 : ends[1]]).decode()
    except UnicodeDecodeError:
        raise SkillError("Its front matter is not UTF-8 text; save it as UTF-8.") from None


def read_skill(path: str, front: str) -> SkillMetadata:
    """A skill as deepagents lists it. Blocks for milliseconds at most.

    Args:
        path: of the SKILL.md; its folder has the skill's name.
        front: its front matter.

    Raises:
        SkillError: it is not valid.
    """
    fields = _parsed(front)
    if not isinstance(fields, dict):
        raise SkillError("Its front matter has no fields; write name: and description: in it.")
    try:
        skill = FrontMatter.model_validate(fields, context=path.split("/")[-2])
    except ValidationError as error:
        wrong = error.errors()[0]
        reason = wrong["msg"].removeprefix("Value error, ")
        raise SkillError(f"The field {wrong['loc'][0]} of its front matter is not valid: {reason}.") from None
    optional = {"license": skill.license or None, "compatibility": skill.compatibility or None}
    return cast("SkillMetadata", {"path": path, **skill.model_dump(), **optional})


def _parsed(text: str) -> object:
    """YAML as texts, lists and mappings. Raises `SkillError` for other text, and for refused parts of YAML."""
    try:
        depth = 0
        for event in yaml.parse(text, Loader=_LOADER):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            _check(event, depth)
        return yaml.load(text, Loader=_LOADER)  # noqa: S506  # the base loaders make no objects, and it was checked
    except yaml.MarkedYAMLError as error:
        line = f" at line {error.problem_mark.line + 2}" if error.problem_mark else ""  # the first one is ---
        raise SkillError(f"Its front matter is not YAML{line}: {error.problem}.") from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # PyYAML's own scanner: "\U00110000", "\UFFFFFFFF"
        if isinstance(error, SkillError):
            raise
        raise SkillError("Its front matter is not YAML: it holds a character that is none.") from None


def _check(event: yaml.Event, depth: int) -> None:
    """Raise `SkillError` for refused parts of YAML."""
    if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
        raise SkillError("Its front matter uses an anchor or alias (&, *); write the text out, in quotes if it begins so.")
    if getattr(event, "tag", None):
        raise SkillError("Its front matter uses a tag (!); write plain text, in quotes if it begins so.")
    if depth > _MAX_DEPTH:
        raise SkillError(f"Its front matter is nested deeper than {_MAX_DEPTH} levels; make it flat.")
    if isinstance(event, yaml.ScalarEvent) and _CONTROL.search(event.value):
        raise SkillError("Its front matter holds a control character; remove it.")
