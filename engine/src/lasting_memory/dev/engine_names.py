"""Where a template names its engine for who installs it: the platform, uv, and make.

A folder is named by `dependencies` of langgraph.json. A wheel is pinned by `dependencies` of
pyproject.toml. uv finds either by [tool.uv.sources], and the group `dev` asks for the engine's
tools: those of its own tests are in the folder alone.
"""

import json
import re
import tomllib
from pathlib import Path

from lasting_memory.dev.engine_source import FOLDER, NAME, WHEELS, Engine, UpgradeError

_FIND_LINKS = f'find-links = ["./{WHEELS}"]  # where uv finds {NAME}\n'
_SOURCE = re.compile(rf"^{NAME} = \{{.*\}}$", re.MULTILINE)
_TOOLS = re.compile(rf'"{NAME}\[(tests|dev)\]"')


def name_engine(template: Path, engine: Engine) -> dict[Path, str]:
    """The new texts of langgraph.json and pyproject.toml, by their paths. Raises `UpgradeError` if
    the engine has no place there.
    """
    config_path = template / "langgraph.json"
    project_path = template / "pyproject.toml"
    old_config = config_path.read_text("utf-8")
    old_project = project_path.read_text("utf-8")
    config_text = re.sub(rf'"\./{FOLDER}"(, ?)?', "", old_config)
    project_text = _without_wheel(old_project)
    is_wheel = engine.path.is_file()
    if is_wheel:
        project_text = _with_wheel(project_text, engine)
    else:
        listing = rf'\g<0>"./{FOLDER}", '
        config_text = re.sub(r'"dependencies":\s*\[', listing, config_text, count=1)
    project = tomllib.loads(project_text)["project"]
    config = json.loads(config_text)
    pins = project.get("dependencies", [])
    folders = config.get("dependencies", [])
    is_pinned = f"{NAME}=={engine.version}" in pins
    is_listed = f"./{FOLDER}" in folders
    if is_pinned != is_wheel or is_listed == is_wheel:
        raise UpgradeError(
            "pyproject.toml has no line `dependencies = [`, or langgraph.json no such list; write them so."
        )
    return {config_path: config_text, project_path: project_text}


def _without_wheel(text: str) -> str:
    """A text of pyproject.toml, with the engine as a folder."""
    table = f"\n[tool.uv]\n{_FIND_LINKS}"
    source = f'{NAME} = {{path = "./{FOLDER}", editable = true}}'
    pin = rf'"{NAME}==[^"]*"(, ?)?'
    text = re.sub(pin, "", text)
    text = text.removesuffix(table)
    text = text.replace(_FIND_LINKS, "")
    text = _TOOLS.sub(f'"{NAME}[tests]"', text)
    return _SOURCE.sub(source, text)


def _with_wheel(text: str, engine: Engine) -> str:
    """A text of pyproject.toml that has the engine as a folder, with the engine as a wheel."""
    wheel = engine.path.name
    pin = rf'\g<0>"{NAME}=={engine.version}", '
    source = f'{NAME} = {{path = "./{WHEELS}/{wheel}"}}'
    text = re.sub(r"^dependencies = \[", pin, text, count=1, flags=re.MULTILINE)
    text = _TOOLS.sub(f'"{NAME}[dev]"', text)
    text = _SOURCE.sub(source, text)
    table = "[tool.uv]\n"
    table_with_links = f"{table}{_FIND_LINKS}"
    if table in text:
        return text.replace(table, table_with_links)
    return f"{text}\n{table_with_links}"
