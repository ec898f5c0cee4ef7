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
_DIFF_LINES = 60
_NAMED = 10  # files in a message
_HOPS = 10  # from the module that exports a name to the one that defines it

# The text of each file of the package, by its path in it, such as "agent/models.py".
Sources = Mapping[str, str]


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
        return _sources_in_wheel(engine)
    root = engine / "src" / PACKAGE
    sources = dict[str, str]()
    for path in root.rglob("*"):
        if path.suffix in _TEXTS and path.is_file():
            sources[path.relative_to(root).as_posix()] = path.read_text("utf-8", errors="replace")
    return sources


def _sources_in_wheel(engine: Path) -> Sources:
    prefix = f"{PACKAGE}/"
    sources = dict[str, str]()
    with zipfile.ZipFile(engine) as wheel:
        for name in wheel.namelist():
            if name.startswith(prefix) and name.endswith(_TEXTS):
                text = wheel.read(name).decode(errors="replace")
                sources[name.removeprefix(prefix)] = text
    return sources


def for_fork(template: Path, old: Sources, new: Sources) -> str:
    """What changes for the fork in this folder, a point for each thing to look at."""
    points = [*_overridden(template, old, new), *_imported(template, old, new)]
    if not points:
        return "For this fork: nothing that it overrides or imports has changed."
    lines = [f"- {point}" for point in points]
    return "\n".join(["For this fork:", *lines])


# --- Texts that stand in place of the engine's


def _overridden(template: Path, old: Sources, new: Sources) -> Iterator[str]:
    for folder, place in _OVERRIDDEN.items():
        for path in sorted((template / folder).glob("*")):
            if path.name.startswith("."):
                continue
            before = old.get(f"{place}/{path.name}")
            after = new.get(f"{place}/{path.name}")
            if before != after:
                yield _override_point(f"{folder}/{path.name}", before, after)


def _override_point(where: str, before: str | None, after: str | None) -> str:
    """The point for a file of the fork that stands in place of one of the engine's; None: the
    engine has none of this name.
    """
    if after is None:
        return f"{where}: the engine no longer has a file of this name, so yours may be read by nobody."
    if before is None:
        return f"{where}: the engine has a file of this name now; yours stands in its place."
    return f"{where} stands in place of the engine's, which changed:\n{_diff(before, after)}"


def _diff(before: str, after: str) -> str:
    was = before.splitlines()
    now = after.splitlines()
    lines = list(difflib.unified_diff(was, now, "was", "is", n=1, lineterm=""))
    shown = [f"    {line}" for line in lines[:_DIFF_LINES]]
    more = len(lines) - _DIFF_LINES
    if more > 0:
        shown.append(f"    and {more} more lines")
    return "\n".join(shown)


# --- Names that it imports


def _imported(template: Path, old: Sources, new: Sources) -> Iterator[str]:
    """Names that are gone or deprecated, then the changed files that the others come from."""
    changed = dict[str, set[str]]()
    for path in _python_files(template):
        where = path.relative_to(template).as_posix()
        try:
            text = path.read_text("utf-8")
            imports = _imports_of(where, text)
        except (OSError, SyntaxError, ValueError):
            yield f"{where} cannot be read as Python; look yourself what it imports."
            continue
        for imported in imports:
            file, definition = _definition_of(new, imported.module, imported.name)
            fault = _fault_of(imported, file, definition, old)
            if fault:
                yield f"{where} imports {imported}, which is {fault}"
            elif old.get(file) != new[file]:
                names = changed.setdefault(file, set())
                names.add(imported.name or imported.module)
    if changed:
        yield _changed_files_point(changed)


def _fault_of(imported: Import, file: str, definition: ast.stmt | None, old: Sources) -> str:
    """Why an import should be looked at, given where the new engine defines its name; empty if
    nothing is wrong.
    """
    if not file:
        old_file, _ = _definition_of(old, imported.module, imported.name)
        return "gone." if old_file else "in neither engine."
    reason = _deprecation(definition)
    if not reason:
        return ""
    return f"deprecated: {reason}"


def _changed_files_point(changed: Mapping[str, set[str]]) -> str:
    """The point for the names that come from files that changed."""
    files = list[str]()
    for file, names in sorted(changed.items()):
        listed_names = ", ".join(sorted(names))
        files.append(f"{file} ({listed_names})")
    listed = ", ".join(files[:_NAMED])
    more = len(files) - _NAMED
    if more > 0:
        listed += f", and {more} more"
    return f"What it imports comes from files that changed: {listed}."


def _python_files(template: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(template):
        own = [name for name in folders if not name.startswith(".") and name not in _NOT_A_FORKS]
        folders[:] = sorted(own)
        for name in sorted(files):
            if name.endswith(".py"):
                yield Path(folder, name)


def _imports_of(file: str, text: str) -> list[Import]:
    """What a file imports of the package, each once, in order."""
    imports = dict[Import, None]()
    for node in ast.walk(ast.parse(text)):
        for module, name in _names_imported(node):
            if _is_ours(module):
                imported = Import(file, _inside(module), name)
                imports[imported] = None
    return list(imports)


def _names_imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    """The modules and names that a statement imports; "" for the name of a whole module."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.name, ""
    elif isinstance(node, ast.ImportFrom) and not node.level:
        module = node.module or ""
        for alias in node.names:
            name = "" if alias.name == "*" else alias.name
            yield module, name


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == PACKAGE


def _inside(module: str) -> str:
    """A module's name within the package."""
    return module.removeprefix(PACKAGE).removeprefix(".")


def _file_of(sources: Sources, module: str) -> str:
    """The file of a module; empty if there is none."""
    path = module.replace(".", "/")
    names = [f"{path}.py", f"{path}/__init__.py"] if module else ["__init__.py"]
    for name in names:
        if name in sources:
            return name
    return ""


def _definition_of(
    sources: Sources, module: str, name: str, hops: int = _HOPS
) -> tuple[str, ast.stmt | None]:
    """The file that defines a name of a module, and how; an empty one where the module has no such
    name.
    """
    file = _file_of(sources, module)
    if not file or not name:
        return file, None
    try:
        tree = ast.parse(sources[file])
        statements = _bound(tree.body)
    except (SyntaxError, ValueError):  # of a newer Python; whoever runs the fork's tests will see
        return file, None
    definition = statements.get(name)
    if definition is None:
        submodule = f"{module}.{name}".removeprefix(".")
        return _file_of(sources, submodule), None
    if not isinstance(definition, ast.ImportFrom) or not hops:
        return file, definition
    source = definition.module or ""
    if not _is_ours(source):
        return file, definition
    original = _original_name(definition, name)
    return _definition_of(sources, _inside(source), original, hops - 1)


def _original_name(statement: ast.ImportFrom, name: str) -> str:
    """What a name is called where a statement imports it from."""
    return next(alias.name for alias in statement.names if name in (alias.asname, alias.name))


def _bound(body: list[ast.stmt]) -> dict[str, ast.stmt]:
    """The names that statements of a module bind, also below an `if` or a `try`."""
    names = dict[str, ast.stmt]()
    for statement in body:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names[statement.name] = statement
            case ast.Import() | ast.ImportFrom():
                for alias in statement.names:
                    package, _, _ = alias.name.partition(".")
                    name = alias.asname or package
                    names[name] = statement
            case ast.If() | ast.With() | ast.Try():
                below = _bound(_statements_below(statement))
                names.update(below)
            case _:
                for name in _assigned(statement):
                    names[name] = statement
    return names


def _assigned(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement assigns to."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _statements_below(statement: ast.If | ast.With | ast.Try) -> list[ast.stmt]:
    """The statements of all branches."""
    statements = [*statement.body, *getattr(statement, "orelse", [])]
    for handler in getattr(statement, "handlers", []):
        statements += handler.body
    return statements


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
