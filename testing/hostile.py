"""Hostile files: skills on which deepagents' own loader hangs or fails."""

from __future__ import annotations

from settings import MAX_FRONT_MATTER_BYTES


def skill(field: str = "", name: str = "letters") -> str:
    """A skill with one more field."""
    return f"---\nname: {name}\ndescription: Write letters.\n{field}\n---\nDo it well.\n"


# 413 bytes, of which the text in an error or a prompt would be gigabytes.
ALIASES = "description: &a [x,x,x,x,x,x,x,x,x]\n" + "\n".join(
    f"{here}: &{here} [{','.join([f'*{before}'] * 9)}]" for before, here in zip("abcdefgh", "bcdefghi", strict=True)
)
BOMB = f"---\nname: letters\n{ALIASES}\n---\n"

# Name to text and why it is refused.
HOSTILE_SKILLS: dict[str, tuple[str, str]] = {
    "aliases": (BOMB, "anchor or alias"),
    "one anchor": (skill("a: &x 1"), "anchor or alias"),
    "an alias of nothing": (skill("a: *x"), "anchor or alias"),
    "a merge": (skill("<<: *x"), "anchor or alias"),
    "a tag": (skill("a: !!python/object/apply:os.system [id]"), "tag"),
    "a tag of a day": (skill("a: !!timestamp 2024-13-45"), "tag"),
    "lists in lists": (skill("a: " + "[" * 4_000 + "]" * 4_000), "nested deeper"),
    "mappings in mappings": (skill("a: " + "{a: " * 1_500 + "}" * 1_500), "nested deeper"),
    "dashes": (skill("- " * 3_000), "not YAML|nested deeper"),
    "too long": (skill("x: " + "y" * MAX_FRONT_MATTER_BYTES), "no end within"),
    "line feeds": ("---" + "\n" * 200_000, "no end within"),
    "no end": ("---\nname: letters\ndescription: d\n", "no end"),
    "none": ("# Letters\n", "no front matter"),
    "empty": ("", "no front matter"),
    "no YAML": ("---\nname: [\n---\n", "not YAML at line"),
    "two documents": ("---\nname: letters\n...\nname: b\n---\n", "not YAML"),
    "a list": ("---\n- name\n---\n", "no fields"),
    "a text": ("---\nname\n---\n", "no fields"),
    "nothing": ("---\n---\n", "no fields"),
    "a list as key": (skill("? [a]\n: b"), "not YAML"),
    "a character beyond Unicode": (skill(r'a: "\U00110000"'), "not YAML"),
    "a character beyond all": (skill(r'a: "\UFFFFFFFF"'), "not YAML"),
    "half a character": (skill(r'a: "\uD800"'), "not YAML|control character"),
    "NUL": (skill(r'a: "\0"'), "control character"),
    "a bell": (skill('a: "\a"'), "not YAML"),
    "no name": ("---\ndescription: d\n---\n", "field name .* required"),
    "no description": ("---\nname: letters\n---\n", "field description .* required"),
    "an empty description": ("---\nname: letters\ndescription:\n---\n", "field description .* at least 1"),
    "a long description": (f"---\nname: letters\ndescription: {'d' * 1_025}\n---\n", "field description .* at most 1024"),
    "a list as description": ("---\nname: letters\ndescription: [d]\n---\n", "field description .* valid string"),
    "another name": (skill(name="other"), "must be its folder's, 'letters'"),
    "a long compatibility": (skill(f"compatibility: {'c' * 501}"), "field compatibility .* at most 500"),
}
