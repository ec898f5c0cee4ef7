"""Hostile files: skills on which deepagents' own loader hangs or fails."""

from lasting_memory.validation import MAX_FRONT_MATTER_BYTES


def skill(field: str = "", name: str = "letters") -> str:
    """A skill with one more field."""
    return f"---\nname: {name}\ndescription: Write letters.\n{field}\n---\nDo it well.\n"


# 413 bytes, of which the text in an error or a prompt would be gigabytes.
ALIASES = "description: &a [x,x,x,x,x,x,x,x,x]\n" + "\n".join(
    f"{here}: &{here} [{','.join([f'*{before}'] * 9)}]" for before, here in zip("abcdefgh", "bcdefghi", strict=True)
)
BOMB = f"---\nname: letters\n{ALIASES}\n---\n"

# By what is wrong with them.
HOSTILE_SKILLS: dict[str, str] = {
    "aliases": BOMB,
    "one anchor": skill("a: &x 1"),
    "an alias of nothing": skill("a: *x"),
    "a merge": skill("<<: *x"),
    "a tag": skill("a: !!python/object/apply:os.system [id]"),
    "a tag of a day": skill("a: !!timestamp 2024-13-45"),
    "lists in lists": skill("a: " + "[" * 4_000 + "]" * 4_000),
    "mappings in mappings": skill("a: " + "{a: " * 1_500 + "}" * 1_500),
    "dashes": skill("- " * 3_000),
    "too long": skill("x: " + "y" * MAX_FRONT_MATTER_BYTES),
    "line feeds": "---" + "\n" * 200_000,
    "no end": "---\nname: letters\ndescription: d\n",
    "none": "# Letters\n",
    "empty": "",
    "no YAML": "---\nname: [\n---\n",
    "two documents": "---\nname: letters\n...\nname: b\n---\n",
    "a list": "---\n- name\n---\n",
    "a text": "---\nname\n---\n",
    "nothing": "---\n---\n",
    "a day that is none": skill("released: 2024-13-45"),
    "a number too long to write": skill(f"a: {'9' * 5_000}"),
    "a list as key": skill("? [a]\n: b"),
    "a character beyond Unicode": skill(r'a: "\U00110000"'),
    "a character beyond all": skill(r'a: "\UFFFFFFFF"'),
    "half a character": skill(r'a: "\uD800"'),
    "NUL": skill(r'license: "\0"'),
    "no name": "---\ndescription: d\n---\n",
    "no description": "---\nname: letters\n---\n",
    "another name": skill(name="other"),
}
