"""The picture in docs/architecture.md, drawn from the import contracts in pyproject.toml:

python -m testing.architecture
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Any

from settings import PROJECT

PAGE = PROJECT / "docs" / "architecture.md"
_PICTURE = re.compile(r"(```mermaid\n).*?(```)", re.DOTALL)


def contracts() -> dict[str, dict[str, Any]]:
    """The import contracts, by id."""
    config = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    return {contract["id"]: contract for contract in config["contracts"]}


def doors() -> set[str]:
    """The packages past whose door nobody imports."""
    protected = [contract["protected_modules"] for contract in contracts().values() if contract["type"] == "protected"]
    return {inside.removesuffix(".*") for modules in protected for inside in modules}


def picture() -> str:
    """The house as a mermaid flowchart: floors from top to bottom, doors with a double frame."""
    known = contracts()
    roots = [["graphs"], *map(_parts, known["house"]["layers"])]
    floors = [[f"memory.{name}" for name in _parts(layer)] for layer in known["memory"]["layers"]]
    lines = ["flowchart TB", *_floors("house", [row for row in roots if row != ["memory"]])]
    lines += ["    subgraph memory", *(f"    {line}" for line in _floors("memory", floors)), "    end"]
    lines += ["    house2 --> memory", *_graphs(known["factories"]["forbidden_modules"])]
    return "\n".join(lines) + "\n"


def _floors(name: str, rows: list[list[str]]) -> Iterator[str]:
    """Each row as a box of its own, above the next."""
    for number, row in enumerate(rows):
        yield f'    subgraph {name}{number} [" "]'
        yield "        direction LR"
        for module in row:
            short = module.rpartition(".")[2]
            yield f"        {module}[[{short}/]]" if module in doors() else f"        {module}[{short}]"
        yield "    end"
    yield from (f"    {name}{number} --> {name}{number + 1}" for number in range(len(rows) - 1))


def _graphs(modules: list[str]) -> Iterator[str]:
    yield f'    graphs["{", ".join(f"{module}.py" for module in modules)}"]'


def _parts(layer: str) -> list[str]:
    return [part.strip(" ()") for part in layer.split("|")]  # in brackets: what comes off


def drawn(page: str) -> str:
    """The page with the picture as it should be."""
    return _PICTURE.sub(lambda match: f"{match[1]}{picture()}{match[2]}", page, count=1)


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text("utf-8")), "utf-8")
