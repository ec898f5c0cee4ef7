"""Reads a SKILL.md, and says what is wrong with one.

Its fields are YAML between two lines of `---`, as in the Agent Skills specification. Files that
people wrote elsewhere are accepted with a byte order mark, blank lines before the first `---`,
spaces after a `---`, Windows' line endings and without a last line break. Everything else that
deviates is named with its line, as the file counts lines.
"""

import re
from copy import deepcopy
from functools import lru_cache
from typing import NamedTuple

import yaml
from deepagents.middleware.skills import SkillMetadata, _parse_skill_metadata

from lasting_memory.plain_text import plain

# Characters of the front matter.
MAX_FRONT_MATTER = 8_192
# How many skills' fields are kept in this process: 2 MB at most.
_KEPT_FIELDS = 256
# Depth of lists and mappings in it.
_MAX_DEPTH = 8
# Of a line or a field's name in an error, and how many fields an error names.
_SHOWN_CHARACTERS = 60
_SHOWN_FIELDS = 10
_BLANK_LINES = re.compile(r"(?:[ \t]*\n)*")
_HYPHENS = re.compile(r"[ \t]*-{2,}[ \t]*")
_FIELD = re.compile(r"[ \t]*([\w-]+):[ \t]")
# The C parser in PyYAML's wheels is ten times as fast.
_EVENTS = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_VALUES = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_UNREADABLE = "a date or a number in its fields cannot be read; put it in quotes."
_NO_EXTRAS = (
    "no anchors, aliases, tags or deep lists: put a value in quotes if it begins with &, * or !"
)


class SkillError(ValueError):
    """A SKILL.md that cannot be read. The message says what is wrong, and in which line."""


class FrontMatter(NamedTuple):
    """The YAML of a SKILL.md, and the number of its first line in the file, from 1."""

    text: str
    first_line: int


def parse_skill(path: str, text: str) -> SkillMetadata:
    """The fields of a SKILL.md, as deepagents' own loader reads them. Blocks for milliseconds.

    `path` ends with the skill's folder and `SKILL.md`. Raises `SkillError` for what cannot be read.

    One person writes it, and every run of everyone who shares it reads it: of YAML only a small
    part is accepted, because a few hundred bytes of aliases can expand to gigabytes.
    """
    front = find_front_matter(text)
    fields = _parse_fields(path, front)
    return deepcopy(fields)  # the cached ones must not change


@lru_cache(maxsize=_KEPT_FIELDS)
def _parse_fields(path: str, front: FrontMatter) -> SkillMetadata:
    """As `parse_skill`: every run reads the same few skills, and YAML is slow."""
    folder = path.split("/")[-2]
    _check_fields(front, folder)
    try:
        skill = _parse_skill_metadata(f"---\n{front.text}\n---\n", path, folder)
    except (ValueError, OverflowError):
        raise SkillError(_UNREADABLE) from None
    if skill is None:
        raise SkillError("its fields cannot be read; use texts as values.")
    return skill


def find_front_matter(text: str) -> FrontMatter:
    """The YAML of a SKILL.md.

    Raises `SkillError` where it does not stand between two lines of `---`.
    """
    text = plain(text)
    start = _BLANK_LINES.match(text).end()  # type: ignore[union-attr]  # it matches the empty text
    blank_lines = text.count("\n", 0, start)
    # What stands behind the front matter is not looked at. The lines of hyphens may have spaces.
    end = start + 2 * MAX_FRONT_MATTER
    first_line, *lines = text[start:end].split("\n")
    if first_line.rstrip() != "---":
        raise SkillError(
            f"line {blank_lines + 1} is {_quoted(first_line)}, and the first line must be --- (three hyphens, no more)."
        )
    first_number = blank_lines + 2
    for number, line in enumerate(lines):
        if line.rstrip() == "---":
            front = "\n".join(lines[:number])
            if len(front) > MAX_FRONT_MATTER:
                break
            return FrontMatter(front, first_number)
    if len(text) - start > MAX_FRONT_MATTER:
        raise SkillError(
            f"its first {MAX_FRONT_MATTER:,} characters have no second line of ---; shorten the fields, or add it."
        )
    raise SkillError(_missing_end(lines, first_number))


def _missing_end(lines: list[str], first_number: int) -> str:
    """What to do about a missing second line of `---`, as an error's text.

    `lines` follow the first one of `---`. `first_number` is the number of the first of them.
    """
    for number, line in enumerate(lines, start=first_number):
        if _HYPHENS.fullmatch(line.rstrip()):
            quoted = _quoted(line)
            return f"line {number} is {quoted}; the line that ends the fields must be --- and begin with it."
    return (
        f"the fields that begin in line {first_number} have no end; add a line of --- after them."
    )


def _check_fields(front: FrontMatter, folder: str) -> None:
    """Raises `SkillError` for fields that cannot be read, and for a missing or other name."""
    fields = _read_yaml(front)
    if not isinstance(fields, dict):
        raise SkillError(
            "between its two lines of --- are no fields; it needs name: and description:."
        )
    for needed in ("name", "description"):
        value = fields.get(needed) or ""
        if not str(value).strip():
            shown_fields = list(fields)[:_SHOWN_FIELDS]
            names = [str(field)[:_SHOWN_CHARACTERS] for field in shown_fields]
            listed_names = ", ".join(names)
            raise SkillError(f"it has no {needed}; its fields are: {listed_names}.")
    name = str(fields["name"]).strip()
    if name != folder:
        raise SkillError(
            f"its name is {_quoted(name)}, and its folder's is {folder!r}; make them the same."
        )


def _read_yaml(front: FrontMatter) -> object:
    """The value of a front matter. Raises `SkillError` with the line of what cannot be read."""
    try:
        _check_events(front.text)
        return yaml.load(front.text, Loader=_VALUES)  # noqa: S506  # one of the safe loaders
    except yaml.MarkedYAMLError as error:
        raise SkillError(_explanation(front, error)) from None
    except yaml.YAMLError as error:
        raise SkillError(f"{_one_line(error)}.") from None
    except (ValueError, OverflowError, RecursionError):
        # Such as the 45th of a month, or a number of 5,000 digits.
        raise SkillError(_UNREADABLE) from None


def _check_events(front: str) -> None:
    """Raises `YAMLError` for parts of YAML that are not accepted."""
    depth = 0
    for event in yaml.parse(front, Loader=_EVENTS):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        is_named = (
            isinstance(event, yaml.AliasEvent)
            or getattr(event, "anchor", None)
            or getattr(event, "tag", None)
        )
        if is_named or depth > _MAX_DEPTH:
            raise yaml.MarkedYAMLError(problem=_NO_EXTRAS, problem_mark=event.start_mark)  # type: ignore[arg-type]  # a mark of either parser


def _explanation(front: FrontMatter, error: yaml.MarkedYAMLError) -> str:
    """What is wrong with the YAML, and in which line; for the commonest faults what to write."""
    mark = error.problem_mark or error.context_mark
    if mark is None:
        text = _one_line(error)
        return f"{text}."
    lines = front.text.split("\n")
    line = ""
    if mark.line < len(lines):  # YAML knows further line breaks
        line = lines[mark.line]
    line_number = front.first_line + mark.line
    where = f"line {line_number}"
    problem = str(error.problem or error.context)
    if "mapping values are not allowed" in problem:
        value = "a value"
        field = _FIELD.match(line)
        if field:
            value = f"the value of {field[1]}"
        return (
            f"{where}: {value} has a colon and a space in it; put the whole value in double quotes."
        )
    if "\t" in line[: mark.column + 1]:
        return f"{where} has a tab before its text; use spaces."
    return f"{where}: {problem}."


def _one_line(error: Exception) -> str:
    """An error's text in one line, of 200 characters at most, without a full stop."""
    words = str(error).split()
    line = " ".join(words)
    return line[:200].rstrip(".")


def _quoted(line: str) -> str:
    """A line of the file, shortened, in quotes."""
    return repr(line[:_SHOWN_CHARACTERS])
