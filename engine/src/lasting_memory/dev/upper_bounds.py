"""The engine's upper bounds: releases that are known to break it, as its pyproject.toml has them.

A nightly run looks past them, since a bound would also hide the release that mends it, or the next
one that breaks it.
"""

import tomllib

from packaging.requirements import Requirement
from packaging.specifiers import Specifier, SpecifierSet

from lasting_memory.dev.engine_source import UpgradeError

# What bounds a version from above. `~=` bounds it from below, too.
_FROM_ABOVE = frozenset({"<", "<=", "==", "===", "~="})


def without_upper_bounds(text: str) -> str:
    """A text of pyproject.toml whose requirements have no upper bounds.

    Lower bounds, excluded versions (`!=`), extras and markers stay. Raises `UpgradeError` where a
    requirement does not stand in double quotes, as the engine's own do.
    """
    for requirement in _requirements(text):
        new_requirement = _without_upper_bound(requirement)
        if new_requirement == requirement:
            continue
        quoted_requirement = f'"{requirement}"'
        if quoted_requirement not in text:
            raise UpgradeError(
                f"{requirement!r} of engine/pyproject.toml cannot be changed; write it in double quotes."
            )
        text = text.replace(quoted_requirement, f'"{new_requirement}"')
    return text


def _requirements(text: str) -> list[str]:
    """What the project of a pyproject.toml requires, with its extras."""
    project = tomllib.loads(text)["project"]
    requirements = list[str](project.get("dependencies", []))
    extras = project.get("optional-dependencies", {})
    for requirements_of_extra in extras.values():
        requirements += requirements_of_extra
    return requirements


def _without_upper_bound(text: str) -> str:
    """A requirement without its upper bound; as it is written where it has none."""
    requirement = Requirement(text)
    specifiers = list[Specifier]()
    for specifier in requirement.specifier:
        if specifier.operator == "~=":
            specifiers.append(Specifier(f">={specifier.version}"))
        elif specifier.operator not in _FROM_ABOVE:
            specifiers.append(specifier)
    specifier_set = SpecifierSet(specifiers)
    if specifier_set == requirement.specifier:
        return text
    requirement.specifier = specifier_set
    # A marker's quotes would end the string that the requirement stands in.
    return str(requirement).replace('"', "'")
