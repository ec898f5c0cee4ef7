"""Shared by tests, benchmarks and evals: the server under test, scripted models, stand-ins of
platforms.
"""

from lasting_memory.testing.contract import contract

__all__ = ["contract"]
