"""What another engine changes for a fork: the texts that it overrides, and the names that it
imports.

Both engines are only read, never imported: a newer one may need packages that are not here.
"""

import ast
import difflib
import os
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "lasting_memory"
# Folders of a fork whose files stand in place of the engine's of the same name, and where these
# are.
_OVERRIDDEN = {"prompts": "prompts", "texts": "http/static/texts"}
_TEXTS = (".py", ".md", ".json", ".yaml", ".js", ".css", ".html")
_NOT_A_FORKS = ("engine", "wheels", "build", "node_modules", "__pycache__")
_DIFF_LINES, _NAMED = 60, 10
_HOPS = 10  # from the module that exports a name to the one that defines it

Sources = Mapping[
    str, str
]  # the text of each file of the package, by its path in it, such as "agent/models.py"


@dataclass(frozen=True)
class Import:
    """A name that a file of the fork imports from a module of the package, such as `agent.models`;
    "" is the package itself.
    """

    file: str
    module: str
    name: str  # "" for the module itself

    def __str__(self) -> str:
        module = f"{PACKAGE}.{self.module}".removesuffix(".")
        return f"{self.name} from {module}" if self.name else module


def sources_of(engine: Path) -> Sources:
    """The package in the folder of an engine, or in its wheel; nothing if it is not there."""
    if engine.is_file():
        with zipfile.ZipFile(engine) as wheel:
            paths = [
                name
                for name in wheel.namelist()
                if name.startswith(f"{PACKAGE}/") and name.endswith(_TEXTS)
            ]
            return {
                path.removeprefix(f"{PACKAGE}/"): wheel.read(path).decode(errors="replace")
                for path in paths
            }
    root = engine / "src" / PACKAGE
    files = [path for path in root.rglob("*") if path.suffix in _TEXTS and path.is_file()]
    return {
        path.relative_to(root).as_posix(): path.read_text("utf-8", errors="replace")
        for path in files
    }


def for_fork(template: Path, old: Sources, new: Sources) -> str:
    """What changes for the fork in this folder, a point for each thing to look at."""
    points = [*_overridden(template, old, new), *_imported(template, old, new)]
    if not points:
        return "For this fork: nothing that it overrides or imports has changed."
    return "\n".join(["For this fork:", *(f"- {point}" for point in points)])


# --- Texts that stand in place of the engine's


def _overridden(template: Path, old: Sources, new: Sources) -> Iterator[str]:
    for folder, place in _OVERRIDDEN.items():
        for path in sorted((template / folder).glob("*")):
            before, after = old.get(f"{place}/{path.name}"), new.get(f"{place}/{path.name}")
            where = f"{folder}/{path.name}"
            if before == after or path.name.startswith("."):
                continue
            if after is None:
                yield f"{where}: the engine no longer has a file of this name, so yours may be read by nobody."
            elif before is None:
                yield f"{where}: the engine has a file of this name now; yours stands in its place."
            else:
                yield f"{where} stands in place of the engine's, which changed:\n{_diff(before, after)}"


def _diff(before: str, after: str) -> str:
    lines = [
        *difflib.unified_diff(
            before.splitlines(), after.splitlines(), "was", "is", n=1, lineterm=""
        )
    ]
    shown = [f"    {line}" for line in lines[:_DIFF_LINES]]
    if len(lines) > _DIFF_LINES:
        shown.append(f"    and {len(lines) - _DIFF_LINES} more lines")
    return "\n".join(shown)


# --- Names that it imports


def _imported(template: Path, old: Sources, new: Sources) -> Iterator[str]:
    """Names that are gone or deprecated, then the changed files that the others come from."""
    changed = dict[str, set[str]]()
    for path in _python_files(template):
        where = path.relative_to(template).as_posix()
        try:
            imports = _imports_of(where, path.read_text("utf-8"))
        except (OSError, SyntaxError, ValueError):
            yield f"{where} cannot be read as Python; look yourself what it imports."
            continue
        for imported in imports:
            file, definition = _found(new, imported.module, imported.name)
            if not file:
                was_there = _found(old, imported.module, imported.name)[0]
                yield f"{where} imports {imported}, which is {'gone' if was_there else 'in neither engine'}."
            elif reason := _deprecation(definition):
                yield f"{where} imports {imported}, which is deprecated: {reason}"
            elif old.get(file) != new[file]:
                changed.setdefault(file, set()).add(imported.name or imported.module)
    if changed:
        files = [f"{file} ({', '.join(sorted(names))})" for file, names in sorted(changed.items())]
        more = f", and {len(files) - _NAMED} more" if len(files) > _NAMED else ""
        yield f"What it imports comes from files that changed: {', '.join(files[:_NAMED])}{more}."


def _python_files(template: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(template):
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and name not in _NOT_A_FORKS
        )
        yield from (Path(folder, name) for name in sorted(files) if name.endswith(".py"))


def _imports_of(file: str, text: str) -> list[Import]:
    """What a file imports of the package, each once, in order."""
    found = dict[Import, None]()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and not node.level and _is_ours(node.module or ""):
            for alias in node.names:
                found[
                    Import(
                        file, _inside(node.module or ""), "" if alias.name == "*" else alias.name
                    )
                ] = None
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if _is_ours(alias.name):
                    found[Import(file, _inside(alias.name), "")] = None
    return list(found)


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == PACKAGE


def _inside(module: str) -> str:
    """A module's name within the package."""
    return module.removeprefix(PACKAGE).removeprefix(".")


def _file_of(sources: Sources, module: str) -> str:
    """The file of a module; empty if there is none."""
    path = module.replace(".", "/")
    names = (f"{path}.py", f"{path}/__init__.py") if module else ("__init__.py",)
    return next((name for name in names if name in sources), "")


def _found(
    sources: Sources, module: str, name: str, hops: int = _HOPS
) -> tuple[str, ast.stmt | None]:
    """The file that defines a name of a module, and how; an empty one where the module has no such
    name.
    """
    file = _file_of(sources, module)
    if not file or not name:
        return file, None
    try:
        bound = _bound(ast.parse(sources[file]).body)
    except (SyntaxError, ValueError):  # of a newer Python; whoever runs the fork's tests will see
        return file, None
    definition = bound.get(name)
    if isinstance(definition, ast.ImportFrom) and _is_ours(definition.module or "") and hops:
        original = next(
            alias.name for alias in definition.names if name in (alias.asname, alias.name)
        )
        return _found(sources, _inside(definition.module or ""), original, hops - 1)
    if definition is None and (
        submodule := _file_of(sources, f"{module}.{name}".removeprefix("."))
    ):
        return submodule, None
    return (file if definition else ""), definition


def _bound(body: list[ast.stmt]) -> dict[str, ast.stmt]:
    """The names that statements of a module bind, also below an `if` or a `try`."""
    names = dict[str, ast.stmt]()
    for statement in body:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names[statement.name] = statement
            case ast.Import() | ast.ImportFrom():
                names |= {
                    (alias.asname or alias.name.partition(".")[0]): statement
                    for alias in statement.names
                }
            case ast.If() | ast.With() | ast.Try():
                inside = [*statement.body, *getattr(statement, "orelse", [])]
                for handler in getattr(statement, "handlers", []):
                    inside += handler.body
                names |= _bound(inside)
            case _:
                targets = [node for node in ast.walk(statement) if isinstance(node, ast.Name)]
                names |= {node.id: statement for node in targets if isinstance(node.ctx, ast.Store)}
    return names


def _deprecation(definition: ast.stmt | None) -> str:
    """What `@deprecated("...")` says of a function or a class; empty without it."""
    for decorator in getattr(definition, "decorator_list", ()):
        match decorator:
            case ast.Call(
                func=ast.Name(id="deprecated") | ast.Attribute(attr="deprecated"),
                args=[ast.Constant(value=str(reason)), *_],
            ):
                return " ".join(reason.split())
    return ""
