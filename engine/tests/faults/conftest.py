"""One server for what fails: short patience for the model (`graphs.py`)."""

from pathlib import Path

from tests.conftest import BUILDERS, served

faulty = served({"graphs": {name: f"{Path(__file__).parent / 'graphs.py'}:{name}" for name in BUILDERS}})
