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
    config = template / "langgraph.json"
    project = template / "pyproject.toml"
    configured = re.sub(rf'"\./{FOLDER}"(, ?)?', "", config.read_text("utf-8"))
    text = _without_wheel(project.read_text("utf-8"))
    is_wheel = engine.path.is_file()
    if is_wheel:
        text = _with_wheel(text, engine)
    else:
        configured = re.sub(r'"dependencies":\s*\[', rf'\g<0>"./{FOLDER}", ', configured, count=1)
    pins = tomllib.loads(text)["project"].get("dependencies", [])
    folders = json.loads(configured).get("dependencies", [])
    is_pinned = f"{NAME}=={engine.version}" in pins
    is_listed = f"./{FOLDER}" in folders
    if is_pinned != is_wheel or is_listed == is_wheel:
        raise UpgradeError(
            "pyproject.toml has no line `dependencies = [`, or langgraph.json no such list; write them so."
        )
    return {config: configured, project: text}


def _without_wheel(text: str) -> str:
    """pyproject.toml with the engine as a folder."""
    table = f"\n[tool.uv]\n{_FIND_LINKS}"
    source = f'{NAME} = {{path = "./{FOLDER}", editable = true}}'
    text = re.sub(rf'"{NAME}==[^"]*"(, ?)?', "", text)
    text = text.removesuffix(table)
    text = text.replace(_FIND_LINKS, "")
    text = _TOOLS.sub(f'"{NAME}[tests]"', text)
    return _SOURCE.sub(source, text)


def _with_wheel(text: str, engine: Engine) -> str:
    """pyproject.toml, which has the engine as a folder, with it as a wheel."""
    pin = rf'\g<0>"{NAME}=={engine.version}", '
    source = f'{NAME} = {{path = "./{WHEELS}/{engine.path.name}"}}'
    text = re.sub(r"^dependencies = \[", pin, text, count=1, flags=re.MULTILINE)
    text = _TOOLS.sub(f'"{NAME}[dev]"', text)
    text = _SOURCE.sub(source, text)
    table = "[tool.uv]\n"
    if table in text:
        return text.replace(table, table + _FIND_LINKS)
    return f"{text}\n{table}{_FIND_LINKS}"
