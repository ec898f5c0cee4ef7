"""The development server of this project, with the model that `.env` names."""

from lasting_memory.testing.evals.server import pytest_configure, server, shared_server

__all__ = ["pytest_configure", "server", "shared_server"]
