"""Checks the deployment of the current directory before `make dev` starts a server.

python -m lasting_memory.dev.preflight
"""

import sys
from dataclasses import replace
from importlib import import_module

from lasting_memory.agent.models import build_model
from lasting_memory.deployment import Deployment
from lasting_memory.settings import SettingsError, adopt_local_environ


def check_project() -> None:
    """Raises `SettingsError` if a setting, a graph or a model cannot be used by `langgraph dev`."""
    adopt_local_environ()
    of_project: Deployment = import_module("deployment").DEPLOYMENT
    deployment = replace(of_project, settings=replace(of_project.settings, local_dev=True))
    _ = deployment.agents  # raises if a graph is missing
    build_model(deployment)
    if deployment.consolidation:
        build_model(deployment, consolidating=True)


if __name__ == "__main__":
    try:
        check_project()
    except SettingsError as error:
        sys.exit(str(error))
