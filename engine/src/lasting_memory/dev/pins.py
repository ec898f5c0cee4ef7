"""`make upgrade`: the newest releases that fit together, pinned for this machine and for the image alike.

`constraints.txt` pins all that is installed here. The image has constraints of its own, so it gets what was tested by what the
platform reads: exact versions in `pyproject.toml`, and `api_version` in `langgraph.json`, which is the server's.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

_NAME = "lasting-memory"
# A requirement of an exact version: its name with extras, and the version.
_PIN = re.compile(r'"([A-Za-z0-9._-]+)((?:\[[^\]"]*\])?)==([^";]+)"')
_SERVER = re.compile(r'("api_version": *)"[^"]*"')


def loosened(project: str) -> str:
    """The text of a `pyproject.toml` without its pins, but for the engine's: a wheel is one version."""
    return _PIN.sub(lambda pin: pin[0] if pin[1] == _NAME else f'"{pin[1]}{pin[2]}"', project)


def pinned(text: str, versions: dict[str, str]) -> str:
    """A text of `pyproject.toml` or `langgraph.json` with these versions, by normalized name, in its pins."""
    server = versions.get("langgraph-api")
    text = _PIN.sub(lambda pin: f'"{pin[1]}{pin[2]}=={versions.get(normalized(pin[1]), pin[3])}"', text)
    return _SERVER.sub(rf'\g<1>"{server}"', text) if server else text


def normalized(name: str) -> str:
    """A distribution's name as indexes spell it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def resolve(template: Path, uv: str) -> str:
    """What `constraints.txt` is to hold. Raises `subprocess.CalledProcessError` if nothing fits together."""
    folder = template / "engine" / "pyproject.toml"
    is_folder = folder.is_file()
    engine = [str(folder)] if is_folder else ["--find-links", "wheels"]
    with TemporaryDirectory() as beside:
        project = Path(beside) / "pyproject.toml"
        project.write_text(loosened((template / "pyproject.toml").read_text("utf-8")), "utf-8")
        command = [uv, "pip", "compile", str(project), *engine, "-", "--quiet", "--all-extras", "--upgrade", "--no-annotate"]
        command += ["--no-header", "--no-emit-package", _NAME, "--python-version", "3.11"]
        wanted = "" if is_folder else f"{_NAME}[dev]"
        return subprocess.run(command, cwd=template, input=wanted, text=True, check=True, stdout=subprocess.PIPE).stdout  # noqa: S603


def main() -> None:
    """The command, in the folder of the template."""
    uv = shutil.which("uv")
    if uv is None:
        sys.exit("make upgrade needs uv: https://docs.astral.sh/uv/")
    template = Path.cwd()
    try:
        constraints = resolve(template, uv)
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)  # uv has said why
    (template / "constraints.txt").write_text(constraints, "utf-8")
    versions = {normalized(name): version for name, _, version in (line.partition("==") for line in constraints.splitlines())}
    for name in ("pyproject.toml", "langgraph.json"):
        (template / name).write_text(pinned((template / name).read_text("utf-8"), versions), "utf-8")


if __name__ == "__main__":
    main()
