"""Deployments of the project under test, whatever its environment says."""

from functools import cache
from typing import Any

from lasting_memory.deployment import Deployment
from lasting_memory.settings import PROJECT, Settings


@cache  # one value for one set of settings, because graphs are built once for each
def deployed(**settings: Any) -> Deployment:
    """A deployment with these settings, in place of the environment's."""
    return Deployment(PROJECT, Settings(**settings))
