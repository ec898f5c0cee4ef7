"""Deployments of the engine's own small project, whatever the environment says: a fork's may be anything."""

import shutil
from functools import cache
from pathlib import Path
from typing import Any

from lasting_memory.deployment import Deployment
from lasting_memory.settings import Settings

# `engine/tests/project`, which is there beside the sources alone.
PROJECT = Path(__file__).parents[3] / "tests" / "project"


@cache  # one value for one set of settings, because graphs are built once for each
def deployed(**settings: Any) -> Deployment:
    """A deployment with these settings, in place of the environment's."""
    return Deployment(PROJECT, Settings(**settings))


def with_routes(routes: str, folder: Path) -> Path:
    """A copy of that project with these routes beside the usual ones, such as `"/team/": group("team_id")`."""
    project = Path(shutil.copytree(PROJECT, folder / "project", ignore=shutil.ignore_patterns("__pycache__")))
    text = (project / "deployment.py").read_text("utf-8").replace(".parent)", f".parent, routes={{**ROUTES, {routes}}})")
    imported = "from lasting_memory.deployment import Deployment\n"
    text = text.replace(imported, imported + "from lasting_memory.people.namespaces import ROUTES, group\n")
    (project / "deployment.py").write_text(text, "utf-8")
    return project
