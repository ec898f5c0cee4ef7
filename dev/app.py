"""The app that `make dev` serves: the one of a deployment, on a development runtime with its errors corrected."""

from api.app import app
from dev import runtime

__all__ = ["app"]

runtime.correct()
