"""What another engine changes for a fork: the texts that it overrides, and the names that it
imports.

A fork is a user's project, made from the template. It may have files that stand in place of the
engine's (overrides). `old` and `new` are the sources of the engine that it has and of the one that
it may get; a point is one line of the answer, for one thing to look at. Both engines are only read,
never imported: a newer one may need packages that are not here.
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
_MAX_DIFF_LINES = 60
_MAX_NAMED = 10  # files in a message
_MAX_HOPS = 10  # from the module that exports a name to the one that defines it

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
        module = f"{PACKAGE}.{self.module}"
        module = module.removesuffix(".")
        if not self.name:
            return module
        return f"{self.name} from {module}"


def sources_of(engine: Path) -> Sources:
    """The package in the folder of an engine, or in its wheel; nothing if it is not there."""
    if engine.is_file():
        return _sources_in_wheel(engine)
    root = engine / "src" / PACKAGE
    sources = dict[str, str]()
    for path in root.rglob("*"):
        if path.suffix in _TEXTS and path.is_file():
            name = path.relative_to(root).as_posix()
            sources[name] = path.read_text("utf-8", errors="replace")
    return sources


def _sources_in_wheel(engine: Path) -> Sources:
    """The package in a wheel."""
    prefix = f"{PACKAGE}/"
    sources = dict[str, str]()
    with zipfile.ZipFile(engine) as wheel:
        for member in wheel.namelist():
            if member.startswith(prefix) and member.endswith(_TEXTS):
                name = member.removeprefix(prefix)
                content = wheel.read(member)
                sources[name] = content.decode(errors="replace")
    return sources


def for_fork(template: Path, old: Sources, new: Sources) -> str:
    """What changes for the fork in this folder, a point for each thing to look at."""
    override_points = _override_points(template, old, new)
    import_points = _import_points(template, old, new)
    points = [*override_points, *import_points]
    if not points:
        return "For this fork: nothing that it overrides or imports has changed."
    lines = [f"- {point}" for point in points]
    return "\n".join(["For this fork:", *lines])


# --- Texts that stand in place of the engine's


def _override_points(template: Path, old: Sources, new: Sources) -> Iterator[str]:
    """A point for each override whose original is not the same in both engines."""
    for fork_folder, engine_folder in _OVERRIDDEN.items():
        overrides = (template / fork_folder).glob("*")
        for path in sorted(overrides):
            name = path.name
            if name.startswith("."):
                continue
            original = f"{engine_folder}/{name}"
            before = old.get(original)
            after = new.get(original)
            if before != after:
                yield _override_point(f"{fork_folder}/{name}", before, after)


def _override_point(where: str, before: str | None, after: str | None) -> str:
    """The point for an override. `before` and `after` are its original in the old engine and in the
    new one; None if that engine has no file of this name.
    """
    if after is None:
        return f"{where}: the engine no longer has a file of this name, so yours may be read by nobody."
    if before is None:
        return f"{where}: the engine has a file of this name now; yours stands in its place."
    return f"{where} stands in place of the engine's, which changed:\n{_diff(before, after)}"


def _diff(before: str, after: str) -> str:
    """The unified diff of two texts, indented; at most `_MAX_DIFF_LINES` lines of it."""
    old_lines = before.splitlines()
    new_lines = after.splitlines()
    difference = difflib.unified_diff(old_lines, new_lines, "was", "is", n=1, lineterm="")
    lines = [f"    {line}" for line in difference]
    more = len(lines) - _MAX_DIFF_LINES
    if more <= 0:
        return "\n".join(lines)
    shown_lines = lines[:_MAX_DIFF_LINES]
    shown_lines.append(f"    and {more} more lines")
    return "\n".join(shown_lines)


# --- Names that it imports


def _import_points(template: Path, old: Sources, new: Sources) -> Iterator[str]:
    """A point for each imported name that is gone or deprecated, and a last one for all names that
    come from files that changed.
    """
    names_by_file = dict[str, set[str]]()  # only files that changed
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
                names = names_by_file.setdefault(file, set())
                names.add(imported.name or imported.module)
    if names_by_file:
        yield _changed_files_point(names_by_file)


def _fault_of(imported: Import, file: str, definition: ast.stmt | None, old: Sources) -> str:
    """Why an import should be looked at: its name is gone or deprecated. "" if nothing is wrong.

    `file` is where the new engine defines the name, "" if it does not; `definition` is how.
    """
    if not file:
        old_file, _ = _definition_of(old, imported.module, imported.name)
        if old_file:
            return "gone."
        return "in neither engine."
    reason = _deprecation(definition)
    if not reason:
        return ""
    return f"deprecated: {reason}"


def _changed_files_point(names_by_file: Mapping[str, set[str]]) -> str:
    """The point for the names that come from files that changed."""
    files = list[str]()
    for file, names in sorted(names_by_file.items()):
        listed_names = ", ".join(sorted(names))
        files.append(f"{file} ({listed_names})")
    listed_files = ", ".join(files[:_MAX_NAMED])
    more = len(files) - _MAX_NAMED
    if more > 0:
        listed_files += f", and {more} more"
    return f"What it imports comes from files that changed: {listed_files}."


def _python_files(template: Path) -> Iterator[Path]:
    """The Python files of the fork, without those in hidden folders and in `_NOT_A_FORKS`."""
    for folder, subfolders, files in os.walk(template):
        visited = list[str]()
        for name in sorted(subfolders):
            is_hidden = name.startswith(".")
            if not is_hidden and name not in _NOT_A_FORKS:
                visited.append(name)
        subfolders[:] = visited  # `os.walk` goes on with these
        for name in sorted(files):
            if name.endswith(".py"):
                yield Path(folder, name)


def _imports_of(file: str, text: str) -> list[Import]:
    """What a file imports of the package, each once, in order."""
    imports = dict[Import, None]()
    tree = ast.parse(text)
    for node in ast.walk(tree):
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
            if alias.name == "*":
                yield module, ""
            else:
                yield module, alias.name


def _is_ours(module: str) -> bool:
    """Whether a module is one of the package."""
    top_level, _, _ = module.partition(".")
    return top_level == PACKAGE


def _inside(module: str) -> str:
    """A module's name within the package."""
    return module.removeprefix(PACKAGE).removeprefix(".")


def _file_of(sources: Sources, module: str) -> str:
    """The file of a module within the package; "" if there is none."""
    path = module.replace(".", "/")
    names = [f"{path}.py", f"{path}/__init__.py"]
    if not module:
        names = ["__init__.py"]
    for name in names:
        if name in sources:
            return name
    return ""


def _definition_of(
    sources: Sources, module: str, name: str, hops: int = _MAX_HOPS
) -> tuple[str, ast.stmt | None]:
    """The file that defines a name of a module, and the statement that does.

    The file is "" if the module has no such name. The statement is None for a whole module, and for
    a file that this Python cannot parse. A name that is imported from another module of the package
    is looked for there, over at most `hops` modules.
    """
    file = _file_of(sources, module)
    if not file or not name:
        return file, None
    try:
        tree = ast.parse(sources[file])
        statements = _bindings(tree.body)
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
    """What a name is called in the module that a statement imports it from."""
    for alias in statement.names:
        if name in (alias.asname, alias.name):
            return alias.name
    return name


def _bindings(body: list[ast.stmt]) -> dict[str, ast.stmt]:
    """The names that these statements bind, each with its statement; also those below an `if` or a
    `try`.
    """
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
                inner_statements = _statements_below(statement)
                names.update(_bindings(inner_statements))
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
    """The statements of all branches of a statement, but not of a `finally`."""
    statements = list(statement.body)
    statements += getattr(statement, "orelse", [])
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
