"""The sources of an engine's package, and where they define a name.

An engine is only read, never imported: a newer one may need packages that are not here.
"""

import ast
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

PACKAGE = "lasting_memory"
_TEXTS = (".py", ".md", ".json", ".yaml", ".js", ".css", ".html")
_MAX_HOPS = 10  # from the module that exports a name to the one that defines it

# The text of each file of the package, by its path in it, such as "agent/models.py".
Sources = Mapping[str, str]


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


def is_ours(module: str) -> bool:
    """Whether a module is one of the package."""
    top_level, _, _ = module.partition(".")
    return top_level == PACKAGE


def inside(module: str) -> str:
    """A module's name within the package."""
    return module.removeprefix(PACKAGE).removeprefix(".")


def definition_of(
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
    if not is_ours(source):
        return file, definition
    original = _original_name(definition, name)
    return definition_of(sources, inside(source), original, hops - 1)


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


def deprecation(definition: ast.stmt | None) -> str:
    """What `@deprecated("...")` says of a function or a class; empty without it."""
    for decorator in getattr(definition, "decorator_list", ()):
        match decorator:
            case ast.Call(
                func=ast.Name(id="deprecated") | ast.Attribute(attr="deprecated"),
                args=[ast.Constant(value=str(reason)), *_],
            ):
                return " ".join(reason.split())
    return ""
