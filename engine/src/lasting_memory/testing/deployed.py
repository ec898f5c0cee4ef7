"""Deployments of the engine's own small project, whatever the environment says: a fork's may be anything."""

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
