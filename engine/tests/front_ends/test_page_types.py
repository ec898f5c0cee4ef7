"""What the page's code reads of the server's answers is there, by the types that `/openapi.json`
gives them. The compiler looks at a copy in which each request has the type of its answer.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lasting_memory.http.app import FOLDER
from tests.front_ends.test_pages import HERE, INSTALL, SECONDS, needs_npm
from tests.http.answers import JSON, operations, spec

pytestmark = [pytest.mark.browser, pytest.mark.proof]
# fmt: off
TSC = [
    "node", "node_modules/typescript/bin/tsc", "--allowJs", "--checkJs", "--noEmit", "--target", "es2022",
    "--module", "esnext", "--moduleResolution", "bundler", "--lib", "es2023,dom,dom.iterable",
]
# fmt: on
SIMPLE = {
    "string": "string",
    "integer": "number",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
}
# How the page asks for JSON, and the function of the copy that knows the types.
REQUESTS = {
    r'\bclient\.json\((?=")|\bmemory\.change\((?=")|(?<!function )\bchange\((?=")': "typed.json(",
    r"\buseTold\(client, ": "typed.told(",
}
FUNCTIONS = """
type Answer<M extends string, P extends string> =
  `${M} ${P}` extends keyof Memory.Answers ? Memory.Answers[`${M} ${P}`] : any;
declare const typed: {
  json<M extends string, P extends string>(method: M, path: P, options?: any, changed?: any): Promise<Answer<M, P>>;
  told<P extends string>(path: P, query?: any, version?: any): { told: Answer<"GET", P>; tell: any; problem: any; again: any };
};
"""


def type_of(schema: dict[str, Any]) -> str:  # noqa: PLR0911  # a kind of schema each
    """A JSON schema as a type of TypeScript."""
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        return " | ".join(union(schema["anyOf"]))
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if values:
        return " | ".join(map(json.dumps, values))
    if schema.get("type") == "array" and "items" in schema:
        return f"Array<{type_of(schema['items'])}>"
    if "properties" in schema:
        return f"{{ {'; '.join(fields(schema))} }}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"{{ [key: string]: {type_of(schema['additionalProperties'])} }}"
    return SIMPLE.get(schema.get("type", ""), "any")


def fields(schema: dict[str, Any]) -> Iterator[str]:
    for name, of in schema["properties"].items():
        yield f"{name}{'' if name in schema.get('required', []) else '?'}: {type_of(of)}"


def union(schemas: list[dict[str, Any]]) -> Iterator[str]:
    """The types of a union. What one of them alone has may be read of all, as JavaScript does."""
    known = spec()["components"]["schemas"]
    names = [schema["$ref"].rpartition("/")[2] for schema in schemas if "$ref" in schema]
    keys = {key for name in names for key in known[name]["properties"]}
    for schema in schemas:
        if "$ref" not in schema or len(names) == 1:
            yield type_of(schema)
            continue
        absent = sorted(keys - {*known[type_of(schema)]["properties"]})
        yield f"({type_of(schema)} & {{ {'; '.join(f'{key}?: undefined' for key in absent)} }})"


def declarations() -> str:
    """The types of all answers, and the functions by which the copy asks for them."""
    lines = ["declare namespace Memory {"]  # the names of some are the browser's, too
    for name, schema in spec()["components"]["schemas"].items():
        lines.append(f"type {name} = {type_of(schema)};")
    lines.append("interface Answers {")
    for (method, path), operation in operations().items():
        for status, response in operation["responses"].items():
            if status == "200":
                lines.append(f'"{method} {path}": {type_of(response["content"][JSON]["schema"])};')
    return "\n".join([*lines, "} }", FUNCTIONS])


def errors(folder: Path, change: tuple[str, str] = ("", "")) -> list[str]:
    """What the compiler says of the page about the types of answers."""
    shutil.copytree(FOLDER, folder / "page", dirs_exist_ok=True)
    (folder / "page/answers.d.ts").write_text(declarations())
    files = list((folder / "page").glob("*.js"))
    for part in ("consolidation", "dream", "offers"):
        files += (folder / "page" / part).glob("*.js")
    for file in files:
        text = file.read_text().replace(*change)
        for pattern, typed in REQUESTS.items():
            text = re.sub(pattern, typed, text)
        file.write_text(text)
    done = subprocess.run(
        [*TSC, "page/answers.d.ts", *map(str, files)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    names = "|".join(spec()["components"]["schemas"])
    about_answers = re.compile(rf"error TS\d+: .*'[^']*\b({names})\b|answers\.d\.ts.*error")
    return [line for line in done.stdout.splitlines() if about_answers.search(line)]


def test_the_page_reads_only_what_the_server_answers(tmp_path: Path) -> None:
    needs_npm()
    packages = json.loads((HERE / "package.json").read_text())["dependencies"]
    wanted = {"dependencies": {"typescript": packages["typescript"]}}
    (tmp_path / "package.json").write_text(json.dumps(wanted))
    subprocess.run(INSTALL, cwd=tmp_path, check=True, timeout=900)
    assert errors(tmp_path) == []
    (wrong,) = errors(tmp_path, ("{ groups, usage, shared }", "{ groups, use, shared }"))
    assert "'use' does not exist on type 'Facts'" in wrong
    assert errors(tmp_path, ("told.until", "told.till"))
