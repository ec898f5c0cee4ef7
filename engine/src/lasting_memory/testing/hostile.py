"""Hostile files: skills on which deepagents' own loader hangs or fails."""

from lasting_memory.skill_file import MAX_FRONT_MATTER


def skill(field: str = "", name: str = "letters") -> str:
    """A skill with one more field."""
    return f"---\nname: {name}\ndescription: Write letters.\n{field}\n---\nDo it well.\n"


# 413 bytes, of which the text in an error or a prompt would be gigabytes.
ALIASES = "description: &a [x,x,x,x,x,x,x,x,x]\n" + "\n".join(
    f"{here}: &{here} [{','.join([f'*{before}'] * 9)}]"
    for before, here in zip("abcdefgh", "bcdefghi", strict=True)
)
BOMB = f"---\nname: letters\n{ALIASES}\n---\n"

# By what is wrong with them.
HOSTILE_SKILLS: dict[str, str] = {
    "aliases": BOMB,
    "a merge": skill("<<: *x"),
    "a tag": skill("a: !!python/object/apply:os.system [id]"),
    "lists in lists": skill("a: " + "[" * 4_000 + "]" * 4_000),
    "too long": skill("x: " + "y" * MAX_FRONT_MATTER),
    "line feeds": "---" + "\n" * 200_000,
    "no end": "---\nname: letters\ndescription: d\n",
    "empty": "",
    "no YAML": "---\nname: [\n---\n",
    "a day that is none": skill("released: 2024-13-45"),
    "a number too long to write": skill(f"a: {'9' * 5_000}"),
    "half a character": skill(r'a: "\uD800"'),
    "no name": "---\ndescription: d\n---\n",
    "another name": skill(name="other"),
}
