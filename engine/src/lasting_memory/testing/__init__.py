"""Shared by tests, benchmarks and evals: the server under test, scripted models, stand-ins of
platforms.

`contract` needs pytest, which the extra `testing` of lasting-memory brings.
"""

try:
    from lasting_memory.testing.contract import contract
except ModuleNotFoundError as error:
    if error.name != "pytest":
        raise
    message = "lasting_memory.testing needs pytest; install lasting-memory[testing]."
    raise ModuleNotFoundError(message, name="pytest") from None

__all__ = ["contract"]
