"""Shared by tests, benchmarks and evals: the server under test, scripted models, stand-ins of platforms."""
