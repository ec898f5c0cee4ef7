"""What a fork imports of the engine's package, and what another engine changes of that.

`old_sources` are those of the engine that the fork has, `new_sources` those of the one that it may
get; a point is one line of the answer, for one thing to look at.
"""

import ast
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from lasting_memory.dev.package_sources import (
    PACKAGE,
    Sources,
    definition_of,
    deprecation,
    inside,
    is_ours,
)

_FOREIGN_FOLDERS = ("engine", "wheels", "build", "node_modules", "__pycache__")
_MAX_LISTED = 10  # files in a message


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


def import_points(template: Path, old_sources: Sources, new_sources: Sources) -> Iterator[str]:
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
        for imported_name in imports:
            file, definition = definition_of(new_sources, imported_name.module, imported_name.name)
            fault = _fault_of(imported_name, file, definition, old_sources)
            if fault:
                yield f"{where} imports {imported_name}, which is {fault}"
            elif old_sources.get(file) != new_sources[file]:
                names = names_by_file.setdefault(file, set())
                names.add(imported_name.name or imported_name.module)
    if names_by_file:
        yield _changed_files_point(names_by_file)


def _fault_of(
    imported_name: Import, file: str, definition: ast.stmt | None, old_sources: Sources
) -> str:
    """Why an import should be looked at: its name is gone or deprecated. "" if nothing is wrong.

    `file` is where the new engine defines the name, "" if it does not; `definition` is how.
    """
    if not file:
        old_file, _ = definition_of(old_sources, imported_name.module, imported_name.name)
        if old_file:
            return "gone."
        return "in neither engine."
    reason = deprecation(definition)
    if not reason:
        return ""
    return f"deprecated: {reason}"


def _changed_files_point(names_by_file: Mapping[str, set[str]]) -> str:
    """The point for the names that come from files that changed."""
    files = list[str]()
    for file, names in sorted(names_by_file.items()):
        listed_names = ", ".join(sorted(names))
        files.append(f"{file} ({listed_names})")
    listed_files = ", ".join(files[:_MAX_LISTED])
    further_files = len(files) - _MAX_LISTED
    if further_files > 0:
        listed_files += f", and {further_files} more"
    return f"What it imports comes from files that changed: {listed_files}."


def _python_files(template: Path) -> Iterator[Path]:
    """The Python files of the fork, without those in hidden folders and in `_FOREIGN_FOLDERS`."""
    for folder, subfolders, files in os.walk(template):
        visited_folders = list[str]()
        for name in sorted(subfolders):
            is_hidden = name.startswith(".")
            if not is_hidden and name not in _FOREIGN_FOLDERS:
                visited_folders.append(name)
        subfolders[:] = visited_folders  # `os.walk` goes on with these
        for name in sorted(files):
            if name.endswith(".py"):
                yield Path(folder, name)


def _imports_of(file: str, text: str) -> list[Import]:
    """What a file imports of the package, each once, in order."""
    imports = dict[Import, None]()
    tree = ast.parse(text)
    for node in ast.walk(tree):
        for module, name in _names_imported(node):
            if is_ours(module):
                imported_name = Import(file, inside(module), name)
                imports[imported_name] = None
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
