"""Installs every module of the root. pyproject.toml, which can only list them, says everything else."""

from pathlib import Path

from setuptools import setup

setup(py_modules=sorted(path.stem for path in Path().glob("*.py") if path.name != "setup.py"))
